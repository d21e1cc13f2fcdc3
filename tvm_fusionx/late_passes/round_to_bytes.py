"""Round sums to bytes by instructions that saturate, neighbours in one register.

A quantization rounds, adds its zero point, bounds, and converts. Arm converts to the nearest
integer in one instruction and narrows in two, each of which saturates, so no bound is left, and
where the results of neighbouring vectors are stored side by side they are narrowed together::

    y[i : i + 4]     = uint8x4(max(min(round(a) + z, 255), 0))          a, b = fcvtns(a), fcvtns(b)
    y[i + 4 : i + 8] = uint8x4(max(min(round(b) + z, 255), 0))   ->     both = sqxtn(a) sqxtn2(b)
                                                                        both = sqadd(both, z)
                                                                        y[i : i + 8] = sqxtun(both)

Four vectors take ten instructions and a store, where LLVM makes 24 and three to put them side by
side. The numbers are the same: what leaves 32 or 16 bits lies outside of the bounds as well, and on
the same side. A NaN becomes the zero point.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import tir

from tvm_fusionx.expressions.round_even import ROUNDING
from tvm_fusionx.late_passes.straight_lines import change_lines, vector_place
from tvm_fusionx.processors.integers import SUM, RoundingToBytes
from tvm_fusionx.tir.flat_place import FlatPlace

SINGLE, WORD = "float32", "int16"

# Vectors that are narrowed together: four fill a register of bytes.
GROUPS = (4, 2)

# Zero points that 16 bits bear: what saturates there still lies outside of the bounds.
LARGEST_ZERO = 1 << 14


@dataclass(frozen=True)
class Rounded:
    """What is rounded to bytes, and how."""

    value: Any
    zero: int
    low: int
    high: int
    dtype: str

    @property
    def how(self) -> tuple[int, int, int, str]:
        """Return all but what is rounded."""
        return self.zero, self.low, self.high, self.dtype


def round_to_bytes(instructions: RoundingToBytes | None) -> Any:
    """Return the TIR pass that rounds to bytes by `instructions`, after lowering."""
    if instructions is None:
        return tvm.transform.Sequential([])
    lanes = instructions.lanes

    def change(line: Sequence[Any]) -> Any:
        return _together(line, instructions)

    def alone(node: Any) -> Any:
        rounded = rounded_to_byte(node)
        count = tvm.DataType(node.dtype).lanes
        if rounded is None or count % lanes:
            return None
        parts = [rounded.value]
        if count > lanes:
            # Written out for each part; LLVM computes it once, but a call may be any length.
            if _calls(rounded.value):
                return None
            starts = range(0, count, lanes)
            parts = [tir.Shuffle(parts, list(range(each, each + lanes))) for each in starts]
        integers = [_integers(part, instructions) for part in parts]
        return _narrowed(integers, rounded, instructions)

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.RoundToBytesAlone")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        return func.with_body(tir.stmt_functor.ir_transform(func.body, None, alone, ["tir.Cast"]))

    together = change_lines("tvm_fusionx.RoundToBytesTogether", change)
    return tvm.transform.Sequential([together, run])


def _together(line: Sequence[Any], instructions: RoundingToBytes) -> Any | None:
    """Return a line whose neighbours are narrowed together; None where it has none."""
    lanes = instructions.lanes
    stores: dict[FlatPlace, tuple[Any, Rounded]] = {}
    found = [(stmt, rounded_to_byte(stmt.value)) for stmt in line]
    if all(rounded is None for _, rounded in found):
        return None
    read = {load.buffer.data for stmt in line for load in _loads_of(stmt)}
    for stmt, rounded in found:
        place = None if rounded is None else vector_place(stmt, lanes)
        if rounded is None or place is None or place.data in read:
            continue
        if place in stores:
            return None
        stores[place] = stmt, rounded
    groups = list(_groups(stores, lanes))
    if not groups:
        return None
    size = sum(map(len, groups)) * lanes
    kept = tir.decl_buffer((size,), SUM, "integers", scope="local")
    member: dict[FlatPlace, tuple[int, int]] = {}
    firsts: list[int] = []
    for number, group in enumerate(groups):
        firsts.append(len(member) * lanes)
        member |= {place: (number, within) for within, place in enumerate(group)}
    missing = [len(group) for group in groups]
    stmts: list[Any] = []
    for stmt in line:
        place = vector_place(stmt, lanes)
        if place is None or place not in member:
            stmts.append(stmt)
            continue
        number, within = member[place]
        at = tir.Ramp(firsts[number] + within * lanes, 1, lanes)
        integers = _integers(stores[place][1].value, instructions)
        stmts.append(tir.BufferStore(kept, integers, [at]))
        missing[number] -= 1
        if missing[number]:
            continue
        group = groups[number]
        first, rounded = stores[group[0]]
        vectors = [
            tir.BufferLoad(kept, [tir.Ramp(firsts[number] + each * lanes, 1, lanes)])
            for each in range(len(group))
        ]
        run = tir.Ramp(first.indices[0].base, 1, lanes * len(group))
        stmts.append(
            tir.BufferStore(first.buffer, _narrowed(vectors, rounded, instructions), [run])
        )
    true = tir.const(1, "bool")
    return tir.Allocate(kept.data, SUM, kept.shape, true, tir.SeqStmt(stmts))


def _groups(stores: dict[FlatPlace, tuple[Any, Rounded]], lanes: int) -> Iterator[list[FlatPlace]]:
    """Yield places that are stored side by side and rounded alike, four and four, or two."""
    lines: dict[Any, dict[int, FlatPlace]] = collections.defaultdict(dict)
    for place, (_, rounded) in stores.items():
        offset = place.offset()
        if offset is not None:
            lines[place.before(offset), rounded.how][offset] = place
    for line in lines.values():
        for number in GROUPS:
            for start in sorted(line):
                run = [start + each * lanes for each in range(number)]
                if all(offset in line for offset in run):
                    yield [line.pop(offset) for offset in run]


def rounded_to_byte(node: Any) -> Rounded | None:
    """Return what a conversion to bytes rounds between bounds; None of anything else."""
    if not isinstance(node, tir.Cast):
        return None
    dtype = str(node.dtype).partition("x")[0]
    if dtype not in ("int8", "uint8") or not str(node.value.dtype).startswith(f"{SINGLE}x"):
        return None
    bounds: dict[type, int] = {}
    value = node.value
    while isinstance(value, tir.Max | tir.Min):
        bound = _whole(value.b)
        if bound is None or type(value) in bounds:
            return None
        bounds[type(value)] = bound
        value = value.a
    if len(bounds) < len((tir.Max, tir.Min)):
        return None
    zero: int | None = 0
    if isinstance(value, tir.Add):
        zero, value = _whole(value.b), value.a
    limits, low, high = np.iinfo(dtype), bounds[tir.Max], bounds[tir.Min]
    is_rounding = isinstance(value, tir.Call) and getattr(value.op, "name", "") == ROUNDING
    if not is_rounding or zero is None or abs(zero) > LARGEST_ZERO:
        return None
    if not limits.min <= low <= high <= limits.max:
        return None
    return Rounded(value.args[0], zero, low, high, dtype)


def _whole(node: Any) -> int | None:
    """Return the whole number that a node is in all lanes, or None."""
    number = node.value if isinstance(node, tir.Broadcast) else node
    is_whole = isinstance(number, tir.FloatImm) and float(number.value).is_integer()
    return int(number.value) if is_whole else None


def _integers(value: Any, instructions: RoundingToBytes) -> Any:
    """Return a vector of floats as the nearest integers."""
    return _called(f"{SUM}x{instructions.lanes}", instructions.nearest, value)


def _narrowed(vectors: Sequence[Any], how: Rounded, instructions: RoundingToBytes) -> Any:
    """Return vectors of integers as bytes between bounds, side by side."""
    lanes, count = instructions.lanes, len(vectors)
    words = [
        _called(f"{WORD}x{lanes}", instructions.to_words, each)
        for each in (*vectors, *vectors[count // 2 * 2 : count])
    ]
    bytes_ = [
        _bytes(tir.Shuffle(words[first : first + 2], list(range(2 * lanes))), how, instructions)
        for first in range(0, len(words), 2)
    ]
    made = tir.Shuffle(bytes_, list(range(count * lanes)))
    limits = np.iinfo(how.dtype)
    for extreme, bound, limit in ((tir.Min, how.high, limits.max), (tir.Max, how.low, limits.min)):
        if bound != limit:
            made = extreme(made, tir.Broadcast(tir.const(bound, how.dtype), count * lanes))
    return made


def _bytes(words: Any, how: Rounded, instructions: RoundingToBytes) -> Any:
    """Return a register of 16-bit integers with the zero point added, as bytes."""
    lanes = 2 * instructions.lanes
    if how.zero:
        zero = tir.Broadcast(tir.const(how.zero, WORD), lanes)
        words = _called(f"{WORD}x{lanes}", instructions.add_words, words, zero)
    return _called(f"{how.dtype}x{lanes}", dict(instructions.to_bytes)[how.dtype], words)


def _called(dtype: str, name: str, *operands: Any) -> Any:
    count = tir.const(len(operands), "uint32")
    return tir.call_llvm_pure_intrin(dtype, name, count, *operands)


def _calls(value: Any) -> bool:
    """Tell whether anything is called in an expression."""
    return bool(_found(value, tir.Call))


def _loads_of(stmt: Any) -> list[Any]:
    return _found(stmt, tir.BufferLoad)


def _found(root: Any, kind: Any) -> list[Any]:
    """Return the nodes of a kind."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, kind):
            found.append(node)

    tir.stmt_functor.post_order_visit(root, visit)
    return found
