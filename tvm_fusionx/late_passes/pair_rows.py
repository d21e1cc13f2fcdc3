"""Dot products of two rows at once, where an instruction multiplies matrices.

Arm's `smmla` multiplies two rows of eight bytes by two columns of eight, and adds to four sums: two
of either row; `bfmmla` does so with four numbers of bfloat16, which are widened elsewhere. A tile
has its rows apart. So two of them that are multiplied by the same columns exchange halves of their
vectors of sums before the loops that add to them, and again behind; in between each step multiplies
both::

    s[0:4] += dot(x[0:8], w)             t = s[0:4]; s[0:4] = t[0:2] s[4:6]; s[4:8] = t[2:4] s[6:8]
    s[4:8] += dot(y[0:8], w)   within    s[0:4] = smmla(s[0:4], x[0:8] y[0:8], w[0:16])
    loops                                s[4:8] = smmla(s[4:8], x[0:8] y[0:8], w[16:32])

A row without a second one stays as it is (:mod:`tvm_fusionx.late_passes.emit_dots`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.processors.integers import DotInstruction
from tvm_fusionx.tir.brain_floats import is_brain, narrow_of
from tvm_fusionx.tir.dot_call import added_dot, sides_of
from tvm_fusionx.tir.matrix_call import held, matrix_call

# Sums of one instruction.
LANES = 4
# Of two vectors of sums, one of each row: the halves that lie in the first and in the second.
EXCHANGED = ([0, 1, 4, 5], [2, 3, 6, 7])


@dataclass(frozen=True)
class _Step:
    """A statement that adds a dot product to a vector of sums at a known place."""

    buffer: Any
    place: int
    lanes: int
    row: Any
    """The row's elements, as one load."""
    columns: Any
    """The first element of the columns, which lie side by side."""

    def has_columns_of(self, other: _Step) -> bool:
        """Tell whether both multiply the same columns."""
        return self.lanes == other.lanes and bool(
            tvm.ir.structural_equal(self.columns, other.columns)
        )


Pairs = frozenset[tuple[int, int]]


def pair_rows(instruction: DotInstruction | None) -> Any:
    """Return the TIR pass that multiplies pairs of rows, after lowering."""

    def allocated(node: Any) -> Any:
        body = _paired(node.body, node.buffer_var, instruction)
        if body is None:
            return None
        return tir.Allocate(
            node.buffer_var, node.dtype, node.extents, node.condition, body, node.annotations
        )

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.PairRows")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        if instruction is None or instruction.rows == 1:
            return func
        body = tir.stmt_functor.ir_transform(func.body, None, allocated, ["tir.Allocate"])
        return func.with_body(body)

    return run


def _paired(body: Any, sums: Any, instruction: Any) -> Any | None:
    """Return a statement whose loops of dot products multiply pairs, or None where it has none."""
    found = []

    def loops(node: Any) -> Any:
        steps = _steps_of(node, sums, instruction)
        pairs = _pairs_of(steps) if steps else None
        if not pairs:
            return None
        found.append(node)
        first = steps[0][0]
        before, after = (
            [_exchange(first, pair, instruction.sums) for pair in sorted(pairs)] for _ in range(2)
        )
        multiplied = tir.stmt_functor.ir_transform(
            node,
            None,
            lambda line: _line(line, sums, instruction, pairs),
            ["tir.SeqStmt"],
        )
        return tir.SeqStmt([*before, multiplied, *after])

    changed = tir.stmt_functor.ir_transform(body, loops, None, ["tir.For"])
    return changed if found else None


def _steps_of(loop: Any, sums: Any, instruction: Any) -> list[list[_Step]]:
    """Return the steps of a loop, line by line; none where it does something else with the sums."""
    lines: list[list[_Step]] = []
    accesses = 0
    stored = 0

    def visit(node: Any) -> None:
        nonlocal accesses, stored
        if isinstance(node, (tir.BufferLoad, tir.BufferStore)):
            accesses += bool(node.buffer.data.same_as(sums))
        if isinstance(node, tir.SeqStmt):
            steps = [_step(each, sums, instruction) for each in node.seq]
            if any(steps):
                lines.append([each for each in steps if each is not None])
                stored += len(lines[-1])

    tir.stmt_functor.post_order_visit(loop, visit)
    # Each step reads the sum and stores it.
    return lines if accesses == 2 * stored else []


def _pairs_of(lines: Sequence[Sequence[_Step]]) -> Pairs:
    """Return the places that are paired in every line of steps; none where lines disagree."""
    found = {frozenset(_pairs_of_line(line)) for line in lines}
    return found.pop() if len(found) == 1 else frozenset()


def _pairs_of_line(line: Sequence[_Step]) -> list[tuple[int, int]]:
    """Return the pairs of places, each of which a line must pair in the same way all along."""
    waiting: list[_Step] = []
    pairs: dict[int, int] = {}
    for step in line:
        other = next((each for each in waiting if each.has_columns_of(step)), None)
        if other is None:
            waiting.append(step)
            continue
        waiting.remove(other)
        if pairs.setdefault(other.place, step.place) != step.place:
            return []
    alone = {step.place for step in waiting}
    ends = [*pairs, *pairs.values()]
    return [] if len({*ends}) != len(ends) or alone & {*ends} else list(pairs.items())


def _step(stmt: Any, sums: Any, instruction: Any) -> _Step | None:
    """Return a statement as a step, or None where it is none that the instruction serves."""
    if not isinstance(stmt, tir.BufferStore) or not stmt.buffer.data.same_as(sums):
        return None
    (index,) = stmt.indices
    added = added_dot(stmt)
    at = _place_of(stmt.buffer, index)
    if added is None or at is None:
        return None
    left, right = sides_of(added[1])
    row, columns = row_of(left, instruction), columns_of(right, instruction)
    if row is None or columns is None:
        return None
    return _Step(_elements_of(stmt.buffer, instruction), *at, row, columns)


def _place_of(buffer: Any, index: Any) -> tuple[int, int] | None:
    """Return the first of the sums that an access has, and their number.

    None where they are no whole vectors of the instruction, at a place that is a number. TVM makes
    buffers of vectors of those that are accessed only so.
    """
    lanes = tvm.DataType(buffer.dtype).lanes
    place: Any = index
    if isinstance(index, tir.Ramp) and lanes == 1:
        if not isinstance(index.stride, tir.IntImm) or int(index.stride) != 1:
            return None
        place, lanes, number = index.base, int(index.lanes), 1
    else:
        number = lanes
    if not isinstance(place, tir.IntImm) or lanes % LANES:
        return None
    return int(place) * number, lanes


def _elements_of(buffer: Any, instruction: DotInstruction) -> Any:
    """Return a buffer of vectors as one of their elements."""
    lanes = tvm.DataType(buffer.dtype).lanes
    if lanes == 1:
        return buffer
    size = int(buffer.shape[0]) * lanes
    return tir.decl_buffer([size], instruction.sums, buffer.name, data=buffer.data)


def row_of(elements: Sequence[Any], instruction: DotInstruction) -> Any | None:
    """Return elements that all lanes share as one load, or None where they lie apart."""
    if len(elements) != instruction.depth:
        return None
    loads = [
        _as_it_lies(each.value, instruction) if isinstance(each, tir.Broadcast) else None
        for each in elements
    ]
    if not _follow(loads, 1):
        return None
    return _at(loads[0], 0, instruction.depth)


def columns_of(elements: Sequence[Any], instruction: DotInstruction) -> Any | None:
    """Return the first element of columns that lie one after the other, or None if they do not."""
    if len(elements) != instruction.depth:
        return None
    firsts = []
    for element in elements:
        each = _as_it_lies(element, instruction)
        if not isinstance(each, tir.BufferLoad):
            return None
        index = each.indices[-1]
        if not isinstance(index, tir.Ramp) or not isinstance(index.stride, tir.IntImm):
            return None
        if int(index.stride) != instruction.depth or int(index.lanes) % LANES:
            return None
        firsts.append(tir.BufferLoad(each.buffer, [*each.indices[:-1], index.base]))
    return firsts[0] if _follow(firsts, 1) else None


def _as_it_lies(element: Any, instruction: DotInstruction) -> Any | None:
    """Return what the instruction takes for an operand; None of a load of another type.

    Of a float that is the bfloat16 that it was made of.
    """
    if is_brain(instruction.data):
        return narrow_of(element)
    kinds = instruction.data, instruction.weights
    return element if str(element.dtype).startswith(kinds) else None


def _follow(loads: Sequence[Any], step: int) -> bool:
    """Tell whether elements of one buffer lie `step` apart, in order."""
    first = loads[0]
    if not isinstance(first, tir.BufferLoad) or tvm.DataType(first.dtype).lanes > 1:
        return False
    analyzer = tvm.arith.Analyzer()
    return all(
        isinstance(each, tir.BufferLoad)
        and each.buffer.same_as(first.buffer)
        and analyzer.can_prove_equal(each.indices[-1] - first.indices[-1], place * step)
        for place, each in enumerate(loads)
    )


def _at(first: Any, offset: int, lanes: int) -> Any:
    """Return `lanes` elements that lie `offset` behind one that is loaded."""
    place = tir.Ramp(first.indices[-1] + offset, 1, lanes)
    return tir.BufferLoad(first.buffer, [*first.indices[:-1], place])


def multiplied(instruction: DotInstruction, sums: Any, rows: Any, columns: Any, vector: int) -> Any:
    """Return `sums` and the products of two rows and the columns of half a vector.

    Parameters
    ----------
    rows
        Two rows, one behind the other.
    columns
        First element of all columns.
    vector
        Which pair of columns.
    """
    lanes = 2 * instruction.depth
    return matrix_call(instruction, sums, rows, held(_at(columns, vector * lanes, lanes)))


def _line(line: Any, sums: Any, instruction: Any, pairs: Pairs) -> Any:
    """Return straight-line code with the second step of each pair multiplying both rows."""
    partners = {second: first for first, second in pairs}
    firsts = set(partners.values())
    held: dict[int, list[_Step]] = {}
    changed = []
    for stmt in line.seq:
        step = _step(stmt, sums, instruction)
        if step is not None and step.place in firsts:
            held.setdefault(step.place, []).append(step)
        elif step is not None and step.place in partners:
            first = held[partners[step.place]].pop(0)
            changed += _both(first, step, instruction)
        else:
            changed.append(stmt)
    return tir.SeqStmt(changed) if len(changed) > 1 else changed[0]


def _both(first: _Step, second: _Step, instruction: DotInstruction) -> list[Any]:
    """Return the statements that add to the sums of two rows, which have exchanged halves."""
    rows = _joined(first.row, second.row, instruction.depth)
    made = []
    for vector in range(first.lanes // LANES):
        for half, step in enumerate((first, second)):
            at = step.place + vector * LANES
            sums = _load(step.buffer, at)
            value = multiplied(instruction, sums, rows, first.columns, 2 * vector + half)
            made.append(_store(step.buffer, at, value))
    return made


def _joined(one: Any, other: Any, depth: int) -> Any:
    """Return two rows as one vector: one load where they lie side by side."""
    starts = [each.indices[-1].base for each in (one, other)]
    first = tir.BufferLoad(one.buffer, [*one.indices[:-1], starts[0]])
    is_near = one.buffer.same_as(other.buffer) and tvm.arith.Analyzer().can_prove_equal(
        starts[1] - starts[0], depth
    )
    if is_near:
        return held(_at(first, 0, 2 * depth))
    return tir.Shuffle([held(one), held(other)], list(range(2 * depth)))


def _load(buffer: Any, start: int) -> Any:
    return tir.BufferLoad(buffer, [tir.Ramp(start, 1, LANES)])


def _store(buffer: Any, start: int, value: Any) -> Any:
    return tir.BufferStore(buffer, value, [tir.Ramp(start, 1, LANES)])


def _exchange(step: _Step, pair: tuple[int, int], dtype: str) -> Any:
    """Return the statement in which two rows of sums exchange halves; twice is as before."""
    stmts = []
    kept = tir.decl_buffer([LANES], dtype, "held", scope="local")
    for vector in range(step.lanes // LANES):
        first, second = (place + vector * LANES for place in pair)
        both = [_load(kept, 0), _load(step.buffer, second)]
        stmts.append(_store(kept, 0, _load(step.buffer, first)))
        for at, half in zip((first, second), EXCHANGED, strict=True):
            stmts.append(_store(step.buffer, at, tir.Shuffle(both, half)))
    return tir.Allocate(kept.data, dtype, [LANES], tir.const(True), tir.SeqStmt(stmts))
