"""In which order rows are passed over that are not summed, and which loops the cores share out."""

from __future__ import annotations

import math
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.nest import extent, is_too_short
from tvm_fusionx.schedules.parts.parallelism import EVEN_SHARES
from tvm_fusionx.tir.block import Stage, loads_of
from tvm_fusionx.tir.index_maps import lie_in_one_piece, variables_of


def ordered_rows(
    sch: Any, stage: Stage, spatial: list[tuple[Any, Any]], lanes: int
) -> tuple[Any, Any]:
    """Divide a stage's axes, each an iterator and its loop, into loops over rows and over columns.

    The last axis is the columns, and vectors of `lanes` run along it; where it is short, along the
    axes before it too that lie with it in one piece, as the rows of a small plane do. A stage that
    reads chunks of channels and writes plain ones takes the channels of a chunk as columns too:
    they come from the same lines of the cache, which it would else read once for each channel.
    """
    loops = [loop for _, loop in spatial]
    if not loops:
        return [], []
    for place, (it, loop) in enumerate(spatial[:-1]):
        channels = _lanes_read(stage, it.var)
        if channels > 1 and it.extent % channels == 0:
            chunk, lane = sch.split(loop, [None, channels])
            rows = [*loops[:place], chunk, *loops[place + 1 : -1]]
            sch.reorder(*rows, lane, loops[-1])
            return rows, [lane, loops[-1]]
    columns = 1
    while columns < len(spatial) and is_too_short(
        math.prod(it.extent for it, _ in spatial[-columns:]), lanes
    ):
        if not lie_in_one_piece(stage, [it for it, _ in spatial[-columns - 1 :]]):
            break
        columns += 1
    rows = _repeats_last(sch, stage, spatial, columns)
    return rows, loops[-columns:]


def _repeats_last(
    sch: Any, stage: Stage, spatial: list[tuple[Any, Any]], columns: int
) -> list[Any]:
    """Return the loops over rows, last those that do again what was done for the row before.

    Where all columns read one computed place, those are the loops that leave it as it is, as the
    chunks of channels of a sampled image do: LLVM computes it once, outside. Innermost are those
    whose rows are the same ones again, as a tiling's: what is read serves them all while it is in
    the nearest cache.
    """
    rows, body = spatial[:-columns], stage.block.body
    if not isinstance(body, tir.BufferStore):
        return [loop for _, loop in rows]
    used, moving = variables_of(body.value), _place_variables(body.value)
    if not moving or any(it.var in moving for it, _ in spatial[-columns:]):
        moving = used

    def order(row: tuple[Any, Any]) -> tuple[bool, bool]:
        var, is_long = row[0].var, row[0].extent > 1
        return is_long and var not in moving, is_long and var not in used

    ordered = sorted(rows, key=order)
    if len(ordered) > 1:
        sch.reorder(*(loop for _, loop in ordered))
    return [loop for _, loop in ordered]


def _place_variables(expr: Any) -> set[Any]:
    """Return the variables that move the places of loads that are computed from floats read."""
    found: set[Any] = set()

    def visit(node: Any) -> None:
        if (
            isinstance(node, tir.Cast)
            and str(node.value.dtype).startswith("float")
            and loads_of(node.value)
        ):
            found.update(variables_of(node))

    for load in loads_of(expr):
        for index in load.indices:
            tir.stmt_functor.post_order_visit(index, visit)
    return found


def _lanes_read(stage: Stage, axis: Any) -> int:
    """Return how many neighbours along `axis` lie side by side where a stage reads; 1 if none."""
    for load in loads_of(stage.block.body):
        last = load.indices[-1] if load.indices else None
        if isinstance(last, tir.FloorMod) and axis.same_as(last.a):
            return int(last.b) if isinstance(last.b, tir.IntImm) else 1
    return 1


def shared_loops(sch: Any, rows: list[Any], cores: int) -> tuple[list[Any], list[Any]]:
    """Divide the loops over rows that are not summed into those that cores share out and the rest.

    The shared ones are fused, and a place in fused loops is taken apart into its indices for each
    row again. Where rows are one pass over few numbers, that takes longer than the numbers: the
    innermost loop stays as it is where the others give every core as much as the next.
    """
    wide = [loop for loop in rows if extent(sch, loop) > 1]
    others = math.prod(extent(sch, loop) for loop in wide[:-1])
    if len(wide) < 2 or (others % cores and others < EVEN_SHARES * cores):
        return rows, []
    at = rows.index(wide[-1])
    return rows[:at], rows[at:]
