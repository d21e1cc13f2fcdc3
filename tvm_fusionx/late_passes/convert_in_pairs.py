"""Convert two neighbouring vectors of halves from one load.

A vector of float32 is half a register of halves. Kernels load what they multiply vector by vector,
so each half register has a load of its own; where the processor converts the upper half of a
register as well as the lower (NEON's ``fcvtl2``), two neighbours are one load:

    float32x4(x[i : i + 4])              both = float32x8(x[i : i + 8])
    float32x4(x[i + 4 : i + 8])   ->     both[:4]
                                         both[4:]

Vectors are neighbours where a straight line of stores reads both soon after one another, and writes
neither. Each pair is converted once, where the line first reads one of it; the other waits in a
register. In a line with many pairs, the sums so far come before the next row is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import tir

from tvm_fusionx.late_passes.straight_lines import (
    change_lines,
    is_choice,
    neighbours,
    vector_place,
)
from tvm_fusionx.late_passes.sums_first import LANES, is_sum, sums_first, with_sums_first
from tvm_fusionx.tir.flat_place import FlatPlace

SINGLE, HALF = "float32", "float16"

# Vectors of a pair.
PAIR = 2

# Stores from the first that reads a pair's one vector to the first that reads the other. With 12,
# pairs of a depthwise 3 x 3 are left out (262 instructions a tile; 260 with 20, and without any
# bound). Vectors of an image serve some fifty products each, and were spilled: 2.0 million accesses
# of the stack in MobileNetV2's first layer, which executes 4.0 million instructions without pairs.
NEAR = 20

# Pairs of a line that LLVM may convert when it likes: they fill half of NEON's 32 registers. In a
# longer one, the sums so far come before a new row of data: a depthwise 3 x 3 tile of 2 x 7 with
# ReLU6 then takes 249 instructions, 260 and ten accesses of the stack where LLVM chooses. Before
# each pair it takes 255, before each third 250; at stride 2 that costs 28 of 598.
MOST_AT_ONCE = 8


def convert_in_pairs(lanes: int) -> Any:
    """Return the TIR pass that converts two vectors of `lanes` halves at once, after lowering."""

    def change(line: Sequence[Any]) -> Any:
        return _in_pairs(line, lanes)

    return change_lines("tvm_fusionx.ConvertInPairs", change)


class _Pairs:
    """The pairs of a straight line, and the registers that hold them converted."""

    def __init__(self, loads: Mapping[FlatPlace, tuple[int, Any]], lanes: int) -> None:
        pairs = [
            pair
            for pair in neighbours(loads, lanes)
            if abs(loads[pair[0]][0] - loads[pair[1]][0]) <= NEAR
        ]
        self.lanes = lanes
        size = max(1, len(pairs)) * PAIR * lanes
        self.buffer = tir.decl_buffer((size,), SINGLE, "widened", scope="local")
        self.found = {
            place: (number, upper)
            for number, pair in enumerate(pairs)
            for upper, place in enumerate(pair)
        }
        self.loads = [loads[first][1] for first, _ in pairs]
        self.firsts = [first for first, _ in pairs]

    def conversion(self, number: int) -> Any:
        """Return the statement that converts a pair."""
        load, width = self.loads[number], PAIR * self.lanes
        whole = tir.BufferLoad(load.buffer, [tir.Ramp(load.indices[0].base, 1, width)])
        place = tir.Ramp(number * width, 1, width)
        return tir.BufferStore(self.buffer, tir.Cast(f"{SINGLE}x{width}", whole), [place])

    def is_next(self, number: int, last: int | None) -> bool:
        """Tell whether a pair lies right behind another."""
        if last is None:
            return False
        here, before = self.firsts[number].offset(), self.firsts[last].offset()
        if here is None or before is None or here != before + PAIR * self.lanes:
            return False
        return self.firsts[number].before(here) == self.firsts[last].before(before)

    def vector(self, number: int, upper: int) -> Any:
        """Return one vector of a pair."""
        start = (number * PAIR + upper) * self.lanes
        return tir.BufferLoad(self.buffer, [tir.Ramp(start, 1, self.lanes)])


def _in_pairs(line: Sequence[Any], lanes: int) -> Any | None:
    """Return a line of stores whose neighbours are converted together; None where it has none."""
    written = [stmt.buffer.data for stmt in line]
    reads = [_conversions(stmt, lanes) for stmt in line]
    loads: dict[FlatPlace, tuple[int, Any]] = {}
    for number, found in enumerate(reads):
        for place, load in found:
            if not any(place.data.same_as(data) for data in written):
                loads.setdefault(place, (number, load))
    pairs = _Pairs(loads, lanes)
    if not pairs.loads:
        return None
    converted: set[int] = set()
    stmts: list[Any] = []
    # Nothing else has AArch64's names of registers.
    is_long = len(pairs.loads) > MOST_AT_ONCE and lanes == LANES
    sums: list[Any] = []
    last: int | None = None

    def replaced(node: Any) -> Any:
        place = _converted_place(node, lanes)
        found = None if place is None else pairs.found.get(place)
        # In a choice before the first conversion nothing is converted yet.
        return pairs.vector(*found) if found is not None and found[0] in converted else None

    for stmt, found in zip(line, reads, strict=True):
        wanted = {pairs.found[place][0] for place, _ in found if place in pairs.found}
        for number in sorted(wanted - converted):
            if is_long and not pairs.is_next(number, last):
                stmts += sums_first(sums)
                sums.clear()
            converted.add(number)
            last = number
            stmts.append(pairs.conversion(number))
        if is_sum(stmt):
            sums.append(stmt)
        stmts.append(tir.stmt_functor.ir_transform(stmt, replaced, None, ["tir.Cast"]))
    true, shape = tir.const(1, "bool"), pairs.buffer.shape
    body = tir.Allocate(pairs.buffer.data, SINGLE, shape, true, tir.SeqStmt(stmts))
    return with_sums_first(body) if is_long else body


def _conversions(stmt: Any, lanes: int) -> list[tuple[FlatPlace, Any]]:
    """Return place and load of each vector of halves that a store always converts."""
    found: list[tuple[FlatPlace, Any]] = []

    def visit(node: Any) -> Any:
        # The side that is not evaluated may lie outside of the buffer.
        if is_choice(node):
            return node
        place = _converted_place(node, lanes)
        if place is not None:
            found.append((place, node.value))
        return None

    kinds = ["tir.Call", "tir.Let", "tir.Select", "tir.Cast"]
    tir.stmt_functor.ir_transform(stmt, visit, None, kinds)
    return found


def _converted_place(node: Any, lanes: int) -> FlatPlace | None:
    """Return where the halves lie that `node` makes a vector of float32; None of another node."""
    if not isinstance(node, tir.Cast) or node.dtype != f"{SINGLE}x{lanes}":
        return None
    load = node.value
    is_load = isinstance(load, tir.BufferLoad) and load.dtype == f"{HALF}x{lanes}"
    return vector_place(load, lanes) if is_load else None
