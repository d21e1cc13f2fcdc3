"""Load three or four neighbouring vectors by one instruction, where a core has one that does.

LLVM loads neighbours two at once, by an instruction that names two registers. AArch64 has one that
fills three or four which follow one another, and moves the address behind them
(``ld1 {v0.4s, v1.4s, v2.4s, v3.4s}, [x8], #64``). LLVM makes it only where it is asked for by name:

    for k in range(64):                             for k in range(64):
        s[0] += lane(a, k) * w[16k : 16k + 4]           four = load_4(&w[16k])
        s[1] += lane(a, k) * w[16k + 4 : 16k + 8]  ->   s[0] += lane(a, k) * four[0:4]
        ...                                             ...

Together are loaded what one round over the sums reads first, and of what has fewer vectors a round,
those of several. An empty line of assembly is no instruction, and holds what costs nothing more:

- What follows in memory is loaded from the address that the load before it left. LLVM would compute
  it anew from the first, for an instruction each.
- A load comes behind the sums that are written before it. LLVM would load early, and spill.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.late_passes.straight_lines import is_choice, vector_place
from tvm_fusionx.late_passes.sums_first import is_sum
from tvm_fusionx.tir.flat_place import FlatPlace
from tvm_fusionx.tir.llvm_functions import with_llvm_functions

# Of a vector, and vectors of a load (Arm ARM, C7.2, LD1 (multiple structures)); two are a pair.
LANES = 4
MOST, FEWEST = 4, 3
DTYPE = f"float32x{LANES}"

REGISTERS = 32

# Turns of a loop that are written out in one: the addresses of what is no neighbour, and the jump.
TURNS = 2
# Instructions that LLVM writes a loop out to (`UnrollThreshold` at -O3).
WRITTEN_OUT = 300
# More sums than this in a turn are enough.
LONG_TURN = 100

LOAD, AFTER = "fusionx_load_together", "fusionx_load_after"
VECTOR = "<4 x float>"


def load_together() -> Any:
    """Return the TIR pass that loads three or four vectors of floats at once, after lowering."""

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.LoadTogether")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        functions: dict[str, str] = {}

        def in_loop(loop: Any) -> Any:
            if isinstance(loop.extent, tir.IntImm) and int(loop.extent) == 1:
                # A loop over lanes that were written out.
                return tir.stmt_functor.substitute(loop.body, {loop.loop_var: loop.min})
            turns, line = _turns(loop)
            body = None if _is_short(loop, line) else _loaded_together(line, functions)
            if body is None:
                return None
            extent = loop.extent
            if turns > 1:
                extent = tir.const(int(extent) // turns, extent.dtype)
            return tir.For(loop.loop_var, loop.min, extent, loop.kind, body, None, loop.annotations)

        body = tir.stmt_functor.ir_transform(func.body, None, in_loop, ["tir.For"])
        if not functions:
            return func
        return func.with_body(with_llvm_functions(body, "\n".join(functions.values())))

    return run


def _is_short(loop: Any, line: Sequence[Any]) -> bool:
    """Tell whether LLVM writes turns out that are no pairs: one does not show their registers."""
    turns = loop.extent
    is_odd = isinstance(turns, tir.IntImm) and int(turns) % TURNS == 1
    return is_odd and int(turns) * len(line) <= WRITTEN_OUT


def _turns(loop: Any) -> tuple[int, Sequence[Any]]:
    """Return how many turns of a loop are written out in one, and the stores of these."""
    body = loop.body
    line = body.seq if isinstance(body, tir.SeqStmt) else [body]
    is_known = isinstance(loop.extent, tir.IntImm) and isinstance(loop.min, tir.IntImm)
    if not is_known or int(loop.extent) % TURNS or len(line) > LONG_TURN:
        return 1, line
    places = [loop.loop_var * TURNS + (turn - int(loop.min)) for turn in range(TURNS)]
    return TURNS, [
        tir.stmt_functor.substitute(stmt, {loop.loop_var: place})
        for place in places
        for stmt in line
    ]


@dataclass(frozen=True)
class _Read:
    """A vector that a line reads."""

    load: Any

    first: int
    last: int
    """Numbers of the first statement that reads it, and of the last."""


@dataclass(frozen=True)
class _Group:
    """Vectors of a straight line that one instruction loads."""

    members: tuple[FlatPlace, ...]

    start: tuple[int, int]
    """Which run of neighbours it is of, and how many vectors lie before it there."""

    reads: tuple[_Read, ...]

    @property
    def first(self) -> int:
        """Number of the statement that reads one of it first."""
        return min(each.first for each in self.reads)

    @property
    def end(self) -> tuple[int, int]:
        """Where what follows it starts."""
        run, before = self.start
        return run, before + len(self.members)


def _loaded_together(line: Sequence[Any], functions: dict[str, str]) -> Any | None:
    """Return stores whose neighbours are loaded at once; None where there are none, or no room.

    What the statement calls is added to `functions`.
    """
    if not all(_is_in_registers(stmt) for stmt in line):
        return None
    reads, sums, rounds = _reads(line), _sums(line), _rounds(line)
    if None in sums or (max(rounds) + 1) % LANES:
        return None
    groups = _groups(reads, rounds)
    grouped = [place for group in groups for place in group.members]
    alone = [place for place in reads if place not in set(grouped)]
    due = _due(groups, [reads[place] for place in alone], len(set(filter(None, sums))))
    if due is None:
        return None
    number_of = {place: number for number, place in enumerate([*grouped, *alone])}
    size = len(number_of) * LANES
    registers = tir.decl_buffer((size,), "float32", "together", scope="local")

    def register(place: FlatPlace) -> Any:
        return tir.Ramp(number_of[place] * LANES, 1, LANES)

    def replaced(node: Any) -> Any:
        place = _vector_place(node)
        if place is None or place not in number_of:
            return None
        return tir.BufferLoad(registers, [register(place)])

    ends: dict[tuple[int, int], Any] = {}
    parts: list[Any] = []
    written: dict[FlatPlace, Any] = {}
    for number, stmt in enumerate(line):
        for group in due.get(number, []):
            first = group.members[0]
            place = ends.get(group.start, tir.address_of(_first_element(reads[first].load)))
            if written:
                name, code = _after(len(written))
                functions[name] = code
                place = tir.call_extern("handle", name, place, *written.values())
            name, code = _load(len(group.members))
            functions[name] = code
            to = tir.address_of(tir.BufferLoad(registers, [number_of[first] * LANES]))
            ends[group.end] = tir.Var("behind", "handle")
            parts.append((ends[group.end], tir.call_extern("handle", name, place, to)))
        if number in due:
            written.clear()
        parts += [
            tir.BufferStore(registers, reads[place].load, [register(place)])
            for place in alone
            if reads[place].first == number
        ]
        parts.append(tir.stmt_functor.ir_transform(stmt, None, replaced, ["tir.BufferLoad"]))
        sum_place = sums[number]
        if sum_place is not None:
            written[sum_place] = tir.address_of(_first_element(stmt))
    whole = _nested(parts)
    return tir.Allocate(registers.data, "float32", (size,), tir.const(1, "bool"), whole)


def _is_in_registers(stmt: Any) -> bool:
    """Tell whether a statement stores to registers alone: no load may pass other stores."""
    return isinstance(stmt, tir.BufferStore) and stmt.buffer.scope() == "local"


def _nested(parts: Sequence[Any]) -> Any:
    """Return statements in their order, those behind a variable and its value within them."""
    rest: list[Any] = []
    for part in reversed(parts):
        if isinstance(part, tuple):
            rest = [tir.LetStmt(*part, tir.SeqStmt(rest) if len(rest) > 1 else rest[0])]
        else:
            rest.insert(0, part)
    return tir.SeqStmt(rest) if len(rest) > 1 else rest[0]


def _due(
    groups: Sequence[_Group], alone: Sequence[_Read], sums: int
) -> dict[int, list[_Group]] | None:
    """Return before which statement each group is loaded; None where registers are too few.

    Where they are enough, a group is loaded while what the one before loaded is multiplied: a core
    that runs in order would wait for it.
    """
    places = sorted({group.first for group in groups})
    before = dict(zip(places, [places[0], *places], strict=False)) if places else {}
    begins = [group.first for group in groups]

    def free() -> int:
        spans = [(read.first, read.last) for read in alone] + [
            (begin, read.last)
            for begin, group in zip(begins, groups, strict=True)
            for read in group.reads
        ]
        held = max(sum(begin <= at <= end for begin, end in spans) for at, _ in spans)
        return REGISTERS - sums - held

    # What is loaded three at a time leaves gaps among the registers.
    spare = 0 if all(len(group.members) == MOST for group in groups) else FEWEST
    if not groups or free() < 0:
        return None
    for number, group in enumerate(groups):
        begins[number] = before[group.first]
        if free() < spare:
            begins[number] = group.first
    due: dict[int, list[_Group]] = collections.defaultdict(list)
    for begin, group in zip(begins, groups, strict=True):
        due[begin].append(group)
    return due


def _reads(line: Sequence[Any]) -> dict[FlatPlace, _Read]:
    """Return the vectors that a line always loads from memory and never writes."""
    written = [stmt.buffer.data for stmt in line]
    found: dict[FlatPlace, _Read] = {}

    def visit(number: int, node: Any) -> Any:
        # The side that is not evaluated may lie outside of the buffer.
        if is_choice(node):
            return node
        place = _vector_place(node) if isinstance(node, tir.BufferLoad) else None
        # What lies in registers has no address.
        if place is None or node.buffer.scope() == "local":
            return None
        if not any(place.data.same_as(data) for data in written):
            known = found.get(place)
            found[place] = _Read(node, number if known is None else known.first, number)
        return None

    kinds = ["tir.Call", "tir.Let", "tir.Select", "tir.BufferLoad"]
    for number, stmt in enumerate(line):
        tir.stmt_functor.ir_transform(stmt, lambda node, at=number: visit(at, node), None, kinds)
    return found


def _sums(line: Sequence[Any]) -> list[FlatPlace | None]:
    """Return the place in registers that each statement writes a sum to; None where it is none."""
    return [
        FlatPlace(stmt.buffer.data, _first_element(stmt).indices[0]) if is_sum(stmt) else None
        for stmt in line
    ]


def _rounds(line: Sequence[Any]) -> list[int]:
    """Return how often the place that each statement writes was written before."""
    times: collections.Counter[FlatPlace] = collections.Counter()
    rounds = []
    for stmt in line:
        place = FlatPlace(stmt.buffer.data, stmt.indices[-1])
        rounds.append(times[place])
        times[place] += 1
    return rounds


def _groups(reads: Mapping[FlatPlace, _Read], rounds: Sequence[int]) -> list[_Group]:
    """Return what is loaded at once, in the order in which it is read first."""
    groups = []
    for number, run in enumerate(_runs(reads)):
        start = 0
        for size in _sizes([rounds[reads[place].first] for place in run]):
            members = tuple(run[start : start + size])
            if size >= FEWEST:
                found = tuple(reads[place] for place in members)
                groups.append(_Group(members, (number, start), found))
            start += size
    return sorted(groups, key=lambda group: group.first)


def _sizes(rounds: Sequence[int]) -> Iterator[int]:
    """Yield how many neighbours are loaded at once, of each of which the first round is given."""
    lengths = [len([*same]) for _, same in itertools.groupby(rounds)]
    while lengths:
        length = lengths.pop(0)
        # Of a few for each round, those of several rounds.
        while length < FEWEST and lengths and length + lengths[0] <= MOST:
            length += lengths.pop(0)
        while length > MOST:
            size = MOST if length % MOST == 0 or length - MOST >= FEWEST else FEWEST
            yield size
            length -= size
        yield length


def _runs(places: Iterable[FlatPlace]) -> Iterator[list[FlatPlace]]:
    """Yield places that follow one another, vector by vector."""
    lines: dict[FlatPlace, dict[int, FlatPlace]] = collections.defaultdict(dict)
    for place in places:
        offset = place.offset()
        if offset is not None:
            lines[place.before(offset)][offset] = place
    for line in lines.values():
        run: list[FlatPlace] = []
        end = None
        for offset in sorted(line):
            if run and offset != end:
                yield run
                run = []
            run.append(line[offset])
            end = offset + LANES
        yield run


def _first_element(access: Any) -> Any:
    """Return the first element of a vector; of a buffer of vectors the vector, which is there."""
    (index,) = access.indices
    return tir.BufferLoad(access.buffer, [index.base if isinstance(index, tir.Ramp) else index])


def _vector_place(load: Any) -> FlatPlace | None:
    """Return where a vector of four floats begins, in floats; None of any other access.

    TVM makes buffers of vectors of those that are accessed only so.
    """
    if load.dtype != DTYPE or len(load.indices) != 1:
        return None
    if load.buffer.dtype == DTYPE:
        return FlatPlace(load.buffer.data, load.indices[0] * LANES)
    return vector_place(load, LANES)


def _load(number: int) -> tuple[str, str]:
    """Return name and code of what loads so many vectors to registers, and the address behind."""
    name = f"{LOAD}_{number}"
    vectors = "{" + ", ".join([VECTOR] * number) + "}"
    loads = f"llvm.aarch64.neon.ld1x{number}.v4f32.p0"
    lines = [f"%all = call {vectors} @{loads}(ptr %place)"]
    for at in range(number):
        lines += [
            f"%value_{at} = extractvalue {vectors} %all, {at}",
            f"%to_{at} = getelementptr {VECTOR}, ptr %registers, i64 {at}",
            f"store {VECTOR} %value_{at}, ptr %to_{at}, align 4",
        ]
    lines += [
        f"%behind = getelementptr {VECTOR}, ptr %place, i64 {number}",
        '%hidden = call ptr asm "", "=r,0"(ptr %behind)',
        "ret ptr %hidden",
    ]
    declared = f"declare {vectors} @{loads}(ptr)\n"
    return name, declared + _function(f"{name}(ptr %place, ptr %registers)", lines)


def _after(number: int) -> tuple[str, str]:
    """Return name and code of what gives an address back where so many sums are there."""
    name, each = f"{AFTER}_{number}", range(number)
    results = f"{{ptr{f', {VECTOR}' * number}}}"
    constraints = "=r" + ",=w" * number + "".join(f",{at}" for at in range(number + 1))
    taken = "".join(f", {VECTOR} %before_{at}" for at in each)
    lines = [f"%before_{at} = load {VECTOR}, ptr %sum_{at}, align 4" for at in each]
    lines.append(f'%all = call {results} asm "", "{constraints}"(ptr %place{taken})')
    for at in each:
        lines += [
            f"%after_{at} = extractvalue {results} %all, {at + 1}",
            f"store {VECTOR} %after_{at}, ptr %sum_{at}, align 4",
        ]
    lines += [f"%same = extractvalue {results} %all, 0", "ret ptr %same"]
    sums = "".join(f", ptr %sum_{at}" for at in each)
    return name, _function(f"{name}(ptr %place{sums})", lines)


def _function(head: str, lines: Iterable[str]) -> str:
    return f"define ptr @{head} {{\n" + "\n".join(lines) + "\n}\n"
