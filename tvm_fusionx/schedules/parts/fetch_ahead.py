"""Fetch the next panel of weights from memory while one is multiplied.

A panel of packed weights meets all rows or pixels of a task, tile by tile, and is read from memory
by the first tile alone, which waits for it; nothing is read meanwhile by the others. So every tile
fetches its share of the next panel, a few lines now and then between the steps of its sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.processors.rates import DEFAULT_RATES, LINE_BYTES
from tvm_fusionx.schedules.parts.prefetch import elements_of_a_line, fetched_lines
from tvm_fusionx.tir.block import loads_of
from tvm_fusionx.tir.index_maps import variables_of

# Marks the loop over pieces of a sum between which lines are fetched; its value is their number.
PIECES = "fusionx_fetch_ahead"

# Multiply-adds of vectors between two pauses: few pauses cost little, many keep memory busy. Sums
# of awkward lengths may take a few times as many.
PIECE_VECTORS, MOST_PIECE_VECTORS = 512, 2048

# LLVM unrolls an inner loop of fewer vectors than UNROLLED (300 instructions are few to it), and
# then the piece around it, up to some four times as many. A tile of twenty sums and more (TIGHT:
# 160 vectors in eight steps) keeps sums on the stack then: 25 chunks of 8 channels in pieces of
# five took 107 us on Zen 4, and 33 in a loop. Pieces of LOOP vectors and more stay loops.
TIGHT_STEP_VECTORS, UNROLLED_STEP_VECTORS, LOOP_VECTORS = 160, 300, 1280

# Multiply-adds of vectors in the time in which memory brings a line. That of the processor that
# loops were measured on: how often a sum pauses is its code, and not only its speed.
VECTORS_A_LINE = round(
    DEFAULT_RATES.multiply_add_units * LINE_BYTES / DEFAULT_RATES.memory_bytes_a_cycle
)

# A panel that more tiles than this multiply takes some twenty times as long as memory does to bring
# it (10 GB/s and 100 GFLOP/s a core); pauses would cost what they bring.
MOST_TILES = 64


@dataclass(frozen=True)
class Pauses:
    """When a tile fetches lines of the next panel."""

    steps: int
    """Steps of the sum before the next pause."""
    lines: int
    """Lines to fetch in a pause."""


def pauses_in(steps: int, vectors: int, panel_bytes: int, tiles: int) -> Pauses | None:
    """Return when a tile fetches lines of the next panel, or None where it would not pay.

    Parameters
    ----------
    steps
        Of the sum of one tile.
    vectors
        Multiply-adds of vectors in a step.
    panel_bytes
        Size of a panel.
    tiles
        Tiles that multiply it, one after the other.
    """
    if not 1 < tiles <= MOST_TILES or vectors < 1:
        return None
    is_unrolled = TIGHT_STEP_VECTORS <= vectors < UNROLLED_STEP_VECTORS
    fewest = LOOP_VECTORS if is_unrolled else PIECE_VECTORS
    least, most = math.ceil(fewest / vectors), min(steps, max(1, MOST_PIECE_VECTORS // vectors))
    for each in range(least, most + 1):
        if steps % each == 0:
            lines = math.ceil(panel_bytes / LINE_BYTES / (tiles * (steps // each)))
            return Pauses(each, lines) if lines * VECTORS_A_LINE <= each * vectors else None
    return None


def fetch_ahead(func: Any) -> Any:
    """Return a scheduled `func` in which marked sums fetch the next panel of their weights.

    Only of parameters: what the kernel itself has written is in a cache.
    """
    around: list[Any] = []
    given = [func.buffer_map[param].data for param in func.params]

    def enter(loop: Any) -> None:
        around.append(loop)

    def leave(loop: Any) -> Any:
        around.pop()
        if PIECES not in loop.annotations:
            return None
        statements = _fetches(loop, around, given)
        body = tir.SeqStmt([*statements, loop.body]) if statements else loop.body
        return tir.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)

    return func.with_body(tir.stmt_functor.ir_transform(func.body, enter, leave, ["tir.For"]))


@dataclass(frozen=True)
class _Panels:
    """Weights that a sum reads as panels, each in one run of elements."""

    buffer: Any
    following: Any
    """Place of the next panel's first element, as if the buffer were flat."""
    again: list[Any]
    """Loops in which one panel is read again."""


def _fetches(pieces: Any, around: list[Any], given: list[Any]) -> list[Any]:
    """Return what fetches the lines of one pause."""
    panels = _panels(pieces, around, given)
    if panels is None:
        return []
    lines = int(pieces.annotations[PIECES])
    pause: Any = tir.const(0, pieces.loop_var.dtype)
    for loop in (*panels.again, pieces):
        pause = pause * int(loop.extent) + loop.loop_var
    share = lines * elements_of_a_line(panels.buffer.dtype)
    return fetched_lines(panels.buffer, panels.following + pause * share, lines)


def _panels(pieces: Any, around: list[Any], given: list[Any]) -> _Panels | None:
    """Return the weights of a sum as panels, or None where they are none."""
    loops: list[Any] = [pieces]
    realized: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BlockRealize):
            realized.append(node)
        elif isinstance(node, tir.For):
            loops.append(node)

    tir.stmt_functor.post_order_visit(pieces.body, visit)
    if len(realized) != 1:
        return None
    (sums,) = realized
    at = dict(zip((it.var for it in sums.block.iter_vars), sums.iter_values, strict=True))
    inside = {loop.loop_var: int(loop.extent) for loop in loops}
    for load in loads_of(sums.block.body.value):
        if not any(load.buffer.data.same_as(data) for data in given):
            continue
        indices = [tir.stmt_functor.substitute(index, at) for index in load.indices]
        found = _as_panels(load.buffer, indices, inside, around)
        if found is not None:
            return found
    return None


def _as_panels(
    buffer: Any, indices: list[Any], inside: dict[Any, int], around: list[Any]
) -> _Panels | None:
    """Return what a sum loads as panels: loops in which it is the same, in one over others."""
    used = set().union(*map(variables_of, indices))
    outer = [loop for loop in around if loop.loop_var in used]
    wide = [loop for loop in outer if int(loop.extent) > 1]
    if not wide:
        return None
    over = wide[-1]
    again = [loop for loop in around[around.index(over) + 1 :] if int(loop.extent) > 1]
    flat: Any = 0
    for index, extent in zip(indices, buffer.shape, strict=True):
        flat = flat * int(extent) + index
    begin = {var: tir.const(0, var.dtype) for var in inside}
    end = {var: tir.const(extent - 1, var.dtype) for var, extent in inside.items()}
    first = tir.stmt_functor.substitute(flat, begin)
    following = tir.stmt_functor.substitute(first, {over.loop_var: over.loop_var + 1})
    zero = {loop.loop_var: tir.const(0, loop.loop_var.dtype) for loop in outer}

    def place(element: Any) -> int | None:
        at = tvm.arith.Analyzer().simplify(tir.stmt_functor.substitute(element, zero))
        return int(at) if isinstance(at, tir.IntImm) else None

    size = math.prod(extent for var, extent in inside.items() if var in used)
    last, second = place(tir.stmt_functor.substitute(flat, end)), place(following)
    # Else what a tile reads does not lie in one run, or the next tile reads part of it again.
    is_one_run = place(first) == 0 and last == size - 1 and second is not None and second >= size
    return _Panels(buffer, following, again) if again and is_one_run else None
