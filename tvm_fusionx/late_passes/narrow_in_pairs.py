"""Round two neighbouring vectors to halves into one register, and bound them there.

A kernel stores its sums vector by vector. Rounded to halves each is half a register; where a
processor rounds into the upper half as well (NEON's ``fcvtn2``), two neighbours are one store:

    y[i : i + 4] = float16x4(a)             both[:4] = a
    y[i + 4 : i + 8] = float16x4(b)   ->    both[4:] = b
                                            y[i : i + 8] = float16x8(both)

Where it compares halves, bounds that are halves are taken after the rounding, eight at once.
Rounding keeps the order that ``max`` and ``min`` go by, so the numbers are the same, beyond the
type's largest one too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import tir

from tvm_fusionx.late_passes.convert_in_pairs import HALF, PAIR, SINGLE
from tvm_fusionx.late_passes.straight_lines import change_lines, neighbours, vector_place
from tvm_fusionx.tir.flat_place import FlatPlace

# Class of an extreme, and its bound.
Bound = tuple[Any, float]


def narrow_in_pairs(lanes: int, *, compares_halves: bool) -> Any:
    """Return the TIR pass that stores two vectors of `lanes` halves at once, after lowering.

    Parameters
    ----------
    compares_halves
        Whether the processor has maxima and minima of halves.
    """

    def change(line: Sequence[Any]) -> Any:
        return _in_pairs(line, lanes, compares_halves)

    return change_lines("tvm_fusionx.NarrowInPairs", change)


def _in_pairs(line: Sequence[Any], lanes: int, compares_halves: bool) -> Any | None:
    """Return a line whose neighbours are stored together; None where it has none."""
    stores: dict[FlatPlace, Any] = {}
    if all(_narrowed_place(stmt, lanes) is None for stmt in line):
        return None
    read = {load.buffer.data for stmt in line for load in _loads_of(stmt)}
    for stmt in line:
        place = _narrowed_place(stmt, lanes)
        if place is None or place.data in read:
            continue
        if place in stores:
            return None
        stores[place] = stmt
    pairs = list(neighbours(stores, lanes))
    if not pairs:
        return None
    width = PAIR * lanes
    kept = tir.decl_buffer((len(pairs) * width,), SINGLE, "rounded", scope="local")
    found = {
        place: (number, upper)
        for number, pair in enumerate(pairs)
        for upper, place in enumerate(pair)
    }
    stmts: list[Any] = []
    waiting: set[int] = set()
    for stmt in line:
        place = _narrowed_place(stmt, lanes)
        if place is None or place not in found:
            stmts.append(stmt)
            continue
        number, upper = found[place]
        both = [bounded(stores[each].value.value) for each in pairs[number]]
        is_bounded_after = compares_halves and both[0][1] == both[1][1]
        value = both[upper][0] if is_bounded_after else stmt.value.value
        at = tir.Ramp((number * PAIR + upper) * lanes, 1, lanes)
        stmts.append(tir.BufferStore(kept, value, [at]))
        if number not in waiting:
            waiting.add(number)
            continue
        whole = tir.BufferLoad(kept, [tir.Ramp(number * width, 1, width)])
        rounded = tir.Cast(f"{HALF}x{width}", whole)
        for extreme, bound in reversed(both[0][1]) if is_bounded_after else ():
            rounded = extreme(rounded, tir.Broadcast(tir.const(bound, HALF), width))
        first = stores[pairs[number][0]]
        base = first.indices[0].base
        stmts.append(tir.BufferStore(first.buffer, rounded, [tir.Ramp(base, 1, width)]))
    true = tir.const(1, "bool")
    return tir.Allocate(kept.data, SINGLE, kept.shape, true, tir.SeqStmt(stmts))


def _narrowed_place(stmt: Any, lanes: int) -> FlatPlace | None:
    """Return where a store rounds a vector of float32 to; None of any other store."""
    value = stmt.value
    if not isinstance(value, tir.Cast) or value.dtype != f"{HALF}x{lanes}":
        return None
    return vector_place(stmt, lanes) if value.value.dtype == f"{SINGLE}x{lanes}" else None


def bounded(value: Any) -> tuple[Any, list[Bound]]:
    """Return what is bounded, and its bounds that are halves, the last first."""
    bounds: list[Bound] = []
    while isinstance(value, tir.Max | tir.Min):
        bound = value.b.value if isinstance(value.b, tir.Broadcast) else value.b
        if not isinstance(bound, tir.FloatImm) or not _is_half(bound.value):
            break
        bounds.append((type(value), float(bound.value)))
        value = value.a
    return value, bounds


def _is_half(number: float) -> bool:
    """Tell whether a number is a finite half."""
    return abs(number) <= float(np.finfo(HALF).max) and float(np.float16(number)) == number


def _loads_of(stmt: Any) -> list[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad):
            found.append(node)

    tir.stmt_functor.post_order_visit(stmt, visit)
    return found
