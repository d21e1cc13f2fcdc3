"""Round sums to bytes several registers at a time, and look all of them up at once: x86.

A quantization rounds, adds its zero point, bounds, and converts; a look-up may follow. Vectors have
as many lanes as a chunk of channels, of bytes a quarter of a register or less, and x86 narrows one
vector by shuffles, looks up 64 bytes whether they are there or not, and stores 8. Where what is
stored lies side by side, vectors are narrowed to one register by instructions that saturate::

    y[i : i + 8]      = table[uint8x8(max(min(round(a) + z, 255), 0))]        and so on: b, c, ...
    y[i + 8 : i + 16] = table[uint8x8(max(min(round(b) + z, 255), 0))]
                                                                    ->
    words = packssdw(cvtps2dq(min(a, 255 - z)), cvtps2dq(min(b, 255 - z)))    and c, d; e, f; g, h
    bytes = packuswb(words + z, ...)                                           of two such
    y[i : i + 64] = table[their parts of 128 bits in order]

The numbers are the same: a float that 32 bits do not hold becomes the smallest integer, so the
upper bound is kept before, and what the lower one cuts saturates on the same side. What is stored
may also be computed from what was looked up; it then reads its part of the register.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import tir

from tvm_fusionx.late_passes.round_to_bytes import SINGLE, WORD, Rounded, rounded_to_byte
from tvm_fusionx.late_passes.straight_lines import change_lines, is_choice, vector_place
from tvm_fusionx.processors.byte_packing import PART, BytePacking
from tvm_fusionx.processors.integers import SUM, ByteTables
from tvm_fusionx.tir.flat_place import FlatPlace
from tvm_fusionx.tir.look_up import byte_looked_up

# Bytes in the tables' registers.
TABLE_WIDTH = 64

# Bytes of a float: so many registers of floats are one of bytes.
NARROWER = 4

# Rounds as the control register says, which is to the nearest.
AS_CONTROLLED = 4

Packings = Mapping[int, BytePacking]


@dataclass(frozen=True)
class Member:
    """A store of what is rounded to bytes, or computed from them."""

    stmt: Any
    made: Any
    """The bytes in it, looked up or not."""

    rounded: Rounded
    table: Any | None
    """The buffer in which they are looked up."""

    @property
    def is_whole(self) -> bool:
        """Whether the bytes are what is stored."""
        return bool(self.stmt.value.same_as(self.made))

    @property
    def how(self) -> tuple[Any, ...]:
        """Return what is equal of members that are rounded together."""
        table = None if self.table is None else self.table.data
        return (*self.rounded.how, table, self.is_whole)


def pack_to_bytes(packings: Collection[BytePacking], tables: ByteTables | None) -> Any:
    """Return the TIR pass that rounds to bytes by `packings`, after lowering.

    Parameters
    ----------
    packings
        One for each number of lanes that vectors may have; none leave the code as it is.
    tables
        How bytes are looked up.
    """
    by_lanes = {packing.lanes: packing for packing in packings}
    if not by_lanes:
        return tvm.transform.Sequential([])

    def change(line: Sequence[Any]) -> Any:
        return _together(line, by_lanes, tables)

    def alone(node: Any) -> Any:
        rounded = _rounded(node)
        return None if rounded is None else _alone(rounded, _lanes(node), by_lanes)

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.PackToBytesAlone")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        return func.with_body(tir.stmt_functor.ir_transform(func.body, None, alone, ["tir.Cast"]))

    together = change_lines("tvm_fusionx.PackToBytesTogether", change)
    return tvm.transform.Sequential([together, run])


def _alone(rounded: Rounded, lanes: int, by_lanes: Packings) -> Any | None:
    """Return a vector of bytes by itself; None where it has no whole number of registers."""
    packing = by_lanes.get(lanes) or by_lanes[max(by_lanes)]
    parts = [rounded]
    if lanes > packing.lanes:
        # Written out for each part; LLVM computes it once, but a call may be any length.
        count = lanes // packing.lanes
        is_whole = count * packing.lanes == lanes and count & (count - 1) == 0
        if not is_whole or _found(rounded.value, tir.Call):
            return None
        parts = [
            replace(rounded, value=tir.Shuffle([rounded.value], list(range(start, end))))
            for start in range(0, lanes, packing.lanes)
            for end in [start + packing.lanes]
        ]
    elif lanes < packing.lanes:
        return None
    return _packed([_integers(part, packing) for part in parts], rounded, packing)


def _together(line: Sequence[Any], by_lanes: Packings, tables: ByteTables | None) -> Any | None:
    """Return a line whose neighbours are packed together; None where it has none."""
    stored = {stmt.buffer.data for stmt in line}
    members: dict[FlatPlace, Member] = {}
    read: set[Any] | None = None
    for stmt in line:
        member = _member(stmt, by_lanes, tables, stored)
        place = None if member is None else vector_place(stmt, _lanes(stmt.value))
        if member is None or place is None:
            continue
        if read is None:
            read = {load.buffer.data for each in line for load in _found(each, tir.BufferLoad)}
        if place.data in read:
            continue
        if place in members:
            return None
        members[place] = member
    groups = list(_groups(members, max(by_lanes), tables))
    return _with_groups(line, [[members[place] for place in group] for group in groups], by_lanes)


def _with_groups(
    line: Sequence[Any], groups: Sequence[Sequence[Member]], by_lanes: Packings
) -> Any | None:
    """Return a line with the members of each group stored where the last of them was."""
    if not groups:
        return None
    kept: dict[int, tuple[int, Any, int]] = {}
    allocated: list[Any] = []
    missing = [len(group) for group in groups]
    for number, group in enumerate(groups):
        lanes = _lanes(group[0].stmt.value)
        buffer = tir.decl_buffer((len(group) * lanes,), SUM, "integers", scope="local")
        allocated.append(buffer)
        for within, member in enumerate(group):
            kept[id(member.stmt)] = number, buffer, within * lanes
    of_stmt = {id(member.stmt): member for group in groups for member in group}
    stmts: list[Any] = []
    for stmt in line:
        if id(stmt) not in kept:
            stmts.append(stmt)
            continue
        number, buffer, start = kept[id(stmt)]
        lanes = _lanes(stmt.value)
        packing = by_lanes[lanes]
        integers = _integers(of_stmt[id(stmt)].rounded, packing)
        stmts.append(tir.BufferStore(buffer, integers, [tir.Ramp(start, 1, lanes)]))
        missing[number] -= 1
        if not missing[number]:
            stmts += _stores(groups[number], buffer, packing, allocated)
    body: Any = tir.SeqStmt(stmts)
    true = tir.const(1, "bool")
    for buffer in reversed(allocated):
        body = tir.Allocate(buffer.data, buffer.dtype, buffer.shape, true, body)
    return body


def _stores(
    group: Sequence[Member], integers: Any, packing: BytePacking, allocated: list[Any]
) -> list[Any]:
    """Return what stores a group whose integers are there."""
    first, lanes = group[0], packing.lanes
    vectors = [
        tir.BufferLoad(integers, [tir.Ramp(each * lanes, 1, lanes)]) for each in range(len(group))
    ]
    width = len(group) * lanes
    made = _packed(vectors, first.rounded, packing)
    if first.table is not None:
        made = tir.BufferLoad(first.table, [tir.Cast(f"int32x{width}", made)])
    if first.is_whole:
        base = first.stmt.indices[0].base
        return [tir.BufferStore(first.stmt.buffer, made, [tir.Ramp(base, 1, width)])]
    dtype = str(made.dtype).partition("x")[0]
    found = tir.decl_buffer((width,), dtype, "found", scope="local")
    allocated.append(found)
    stmts = [tir.BufferStore(found, made, [tir.Ramp(0, 1, width)])]
    for number, member in enumerate(group):
        part = tir.BufferLoad(found, [tir.Ramp(number * lanes, 1, lanes)])
        stmts.append(_with(member, part))
    return stmts


def _with(member: Member, part: Any) -> Any:
    """Return a member's store with `part` for its bytes."""

    def replaced(node: Any) -> Any:
        return part if node.same_as(member.made) else None

    kinds = ["tir.Cast", "tir.BufferLoad"]
    return tir.stmt_functor.ir_transform(member.stmt, replaced, None, kinds)


def _member(
    stmt: Any, by_lanes: Packings, tables: ByteTables | None, stored: Collection[Any]
) -> Member | None:
    """Return a store as one of bytes that may be rounded with others; None where it is not."""
    lanes = _lanes(stmt.value)
    if lanes not in by_lanes:
        return None
    casts = [
        (cast, rounded)
        for cast in _found(stmt.value, tir.Cast)
        if (rounded := _rounded(cast)) is not None
    ]
    if len(casts) != 1 or _lanes(casts[0][0]) != lanes:
        return None
    ((cast, rounded),) = casts
    made, table = cast, None
    for load in _found(stmt.value, tir.BufferLoad):
        looked_up = byte_looked_up(load)
        if looked_up is not None and looked_up.same_as(cast):
            made, table = load, load.buffer
    if table is not None and (
        tables is None or tables.instruction is None or table.data in set(stored)
    ):
        return None
    found = Member(stmt, made, rounded, table)
    if found.is_whole:
        return found
    # The rest is computed later: nothing that it reads may be written meanwhile, as a temporary is
    # that the bytes are rounded from.
    nothing = tir.Broadcast(tir.const(0, str(made.dtype).partition("x")[0]), lanes)
    later = {load.buffer.data for load in _found(_with(found, nothing), tir.BufferLoad)}
    is_moved = not later & set(stored) and not _found_choice(stmt.value)
    return found if is_moved else None


def _groups(
    members: Mapping[FlatPlace, Member], widest: int, tables: ByteTables | None
) -> Iterator[list[FlatPlace]]:
    """Yield places that are stored side by side and made alike, as many as a register holds."""
    lines: dict[Any, dict[int, FlatPlace]] = collections.defaultdict(dict)
    for place, member in members.items():
        offset = place.offset()
        if offset is not None:
            lanes = _lanes(member.stmt.value)
            lines[place.before(offset), member.how, lanes][offset] = place
    for (_, _, lanes), line in lines.items():
        looks_up = members[next(iter(line.values()))].table is not None
        most = NARROWER * widest
        if looks_up and tables is not None:
            most = NARROWER * lanes if tables.of_halves else TABLE_WIDTH // tables.element_bytes
        number = most // lanes
        while number > 1:
            for start in sorted(line):
                run = [start + each * lanes for each in range(number)]
                if all(offset in line for offset in run):
                    yield [line.pop(offset) for offset in run]
            number //= 2


def _integers(rounded: Rounded, packing: BytePacking) -> Any:
    """Return a vector of floats as the nearest integers, none of them above the upper bound."""
    lanes = packing.lanes
    bound = tir.Broadcast(tir.const(float(rounded.high - rounded.zero), SINGLE), lanes)
    operands = [tir.Min(rounded.value, bound)]
    if packing.is_masked:
        nothing = tir.Broadcast(tir.const(0, SUM), lanes)
        all_lanes = tir.const((1 << lanes) - 1, f"uint{lanes}")
        operands += [nothing, all_lanes, tir.const(AS_CONTROLLED, "int32")]
    return _called(f"{SUM}x{lanes}", packing.nearest, *operands)


def _packed(vectors: Sequence[Any], how: Rounded, packing: BytePacking) -> Any:
    """Return vectors of integers as bytes between bounds, side by side."""
    lanes, count = packing.lanes, len(vectors)
    words = [
        _with_zero(_called(f"{WORD}x{2 * lanes}", packing.to_words, *two), how.zero, 2 * lanes)
        for two in _pairs(vectors)
    ]
    name = dict(packing.to_bytes)[how.dtype]
    registers = [_called(f"{how.dtype}x{4 * lanes}", name, *two) for two in _pairs(words)]
    made = _in_order(registers, count, packing)
    limits = np.iinfo(how.dtype)
    for extreme, bound, limit in ((tir.Min, how.high, limits.max), (tir.Max, how.low, limits.min)):
        if bound != limit:
            made = extreme(made, tir.Broadcast(tir.const(bound, how.dtype), count * lanes))
    return made


def _pairs(values: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return neighbours two and two; one alone beside zeros."""
    if len(values) == 1:
        kind = tvm.DataType(values[0].dtype)
        element = str(kind).partition("x")[0]
        return [(values[0], tir.Broadcast(tir.const(0, element), kind.lanes))]
    return list(zip(values[::2], values[1::2], strict=True))


def _with_zero(words: Any, zero: int, lanes: int) -> Any:
    if not zero:
        return words
    added = tir.Broadcast(tir.const(zero, WORD), lanes)
    return _called(words.dtype, "llvm.sadd.sat", words, added)


def _in_order(registers: Sequence[Any], count: int, packing: BytePacking) -> Any:
    """Return the bytes of `count` vectors, of which each part of registers has some of each."""
    lanes, parts = packing.lanes, packing.lanes // PART
    dtype = str(registers[0].dtype).partition("x")[0]
    places = [
        vector // NARROWER * lanes + part * PART + vector % NARROWER
        for vector in range(count)
        for part in range(parts)
    ]
    words = [tir.call_intrin(f"{SUM}x{lanes}", "tir.reinterpret", each) for each in registers]
    ordered = tir.Shuffle(words, places)
    return tir.call_intrin(f"{dtype}x{count * lanes}", "tir.reinterpret", ordered)


def _rounded(node: Any) -> Rounded | None:
    """Return what a conversion rounds; None where its upper bound is applied last.

    What is no number becomes the upper bound here, as where the lower one is applied last.
    """
    rounded = rounded_to_byte(node)
    return rounded if rounded is not None and isinstance(node.value, tir.Max) else None


def _called(dtype: str, name: str, *operands: Any) -> Any:
    count = tir.const(len(operands), "uint32")
    return tir.call_llvm_pure_intrin(dtype, name, count, *operands)


def _lanes(value: Any) -> int:
    return int(tvm.DataType(value.dtype).lanes)


def _found(root: Any, kind: Any) -> list[Any]:
    """Return the nodes of a kind."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, kind):
            found.append(node)

    tir.stmt_functor.post_order_visit(root, visit)
    return found


def _found_choice(value: Any) -> bool:
    return any(map(is_choice, _found(value, (tir.Select, tir.Let, tir.Call))))
