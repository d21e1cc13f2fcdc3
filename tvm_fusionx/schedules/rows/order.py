"""In which order rows are passed over that are not summed, and which loops the cores share out."""

from __future__ import annotations

import math
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.nest import extent, is_too_short
from tvm_fusionx.schedules.parts.parallelism import EVEN_SHARES
from tvm_fusionx.schedules.parts.tasks import TASKS_A_CORE
from tvm_fusionx.tir.block import Stage, loads_of
from tvm_fusionx.tir.index_maps import lie_in_one_piece, variables_of
from tvm_fusionx.tir.numbers import divisors

# A line of the nearest cache for each pixel, 16 KB of 32 to 48: its channels are read in turn.
MOST_PIXELS_OF_A_TURN = 256


def ordered_rows(
    sch: Any, stage: Stage, spatial: list[tuple[Any, Any]], lanes: int
) -> tuple[Any, Any]:
    """Divide a stage's axes, each an iterator and its loop, into loops over rows and over columns.

    The last axis is the columns, and vectors of `lanes` run along it; where it is short, along the
    axes before it too that lie with it in one piece, as the rows of a small plane do. A stage that
    reads chunks of channels and writes plain ones takes the channels of a chunk as columns too:
    they come from the same lines of the cache, which it would else read once for each channel. So
    it does where channels and pixels are one flat axis.
    """
    loops = [loop for _, loop in spatial]
    if not loops:
        return [], []
    for place, (it, loop) in enumerate(spatial):
        channels, pixels = _lanes_read(stage, it.var)
        is_last = place == len(spatial) - 1
        if channels == 1 or it.extent % (channels * pixels) or is_last == (pixels == 1):
            continue
        if is_last:
            turn_of = _pixels_of_a_turn(pixels, lanes)
            chunk, lane, turn, inner = sch.split(loop, [None, channels, pixels // turn_of, turn_of])
            rows = [*loops[:place], chunk, turn]
        else:
            chunk, lane = sch.split(loop, [None, channels])
            rows, inner = [*loops[:place], chunk, *loops[place + 1 : -1]], loops[-1]
        sch.reorder(*rows, lane, inner)
        return rows, [lane, inner]
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


def _lanes_read(stage: Stage, axis: Any) -> tuple[int, int]:
    """Return how many steps along `axis` lie side by side where a stage reads, and their length.

    ``axis % 16`` last among indices are 16 steps of 1, ``axis // 49 % 16`` are 16 of 49; one if
    none.
    """
    for load in loads_of(stage.block.body):
        last = load.indices[-1] if load.indices else None
        if isinstance(last, tir.FloorMod) and isinstance(last.b, tir.IntImm):
            if axis.same_as(last.a):
                return int(last.b), 1
            if _divides(last.a, axis):
                return int(last.b), int(last.a.b)
        # `axis % (16 * 49) // 49` is the same, as TVM simplifies it.
        if isinstance(last, tir.FloorDiv) and isinstance(last.b, tir.IntImm):
            whole, step = last.a, int(last.b)
            if isinstance(whole, tir.FloorMod) and axis.same_as(whole.a):
                return int(whole.b) // step, step
    return 1, 1


def _divides(expr: Any, axis: Any) -> bool:
    is_quotient = isinstance(expr, tir.FloorDiv) and isinstance(expr.b, tir.IntImm)
    return is_quotient and bool(axis.same_as(expr.a))


def _pixels_of_a_turn(pixels: int, lanes: int) -> int:
    """Return a divisor of `pixels`, whose channels the nearest cache holds; of vectors, if any."""
    fitting = [each for each in divisors(pixels) if each <= MOST_PIXELS_OF_A_TURN]
    return max(fitting, key=lambda each: (each % lanes == 0 or each == pixels, each))


def share_columns(
    sch: Any, rows: list[Any], columns: list[Any], cores: int, lanes: int
) -> tuple[list[Any], list[Any]]:
    """Cut the columns of what has fewer rows than cores into parts, which are rows as well."""
    if math.prod(extent(sch, loop) for loop in rows) >= cores or len(columns) != 1:
        return rows, columns
    size, wanted = extent(sch, columns[0]), cores * TASKS_A_CORE
    fitting = [each for each in divisors(size) if cores <= each < 2 * wanted]
    if not fitting or size < 2 * wanted * lanes:
        return rows, columns
    # Whole vectors first, then as much for each core.
    parts = max(fitting, key=lambda each: (size // each % lanes == 0, each % cores == 0, each))
    part, inner = sch.split(columns[0], [parts, None])
    return [*rows, part], [inner]


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
