"""Dot products of bytes whose products are added in 16 bits, before they join the sums.

Where an instruction only multiplies (NEON's ``smull``, eight products of bytes), what adds the
products to sums of 32 bits is another one (``sadalp``, which adds neighbours). Two products fit 16
bits, for no two weights of an output are -128 (:mod:`tvm_fusionx.rewrite.word_sums`). So of a
straight line each two dot products of the same sums become one::

    s[0] += dot(x[0], w[0])              (waits)
    s[1] += dot(y[0], w[0])              (waits)
    s[0] += dot(x[1], w[1])      ->      s[0] += neighbours(smull(w[0], x[0]) + smull(w[1], x[1]))
    s[1] += dot(y[1], w[1])              s[1] += neighbours(smull(w[0], y[0]) + smull(w[1], y[1]))

A dot product that is left alone stays as it is (:mod:`tvm_fusionx.late_passes.emit_dots`). Weights
of both halves of a register would be multiplied by ``smlal2``, but LLVM takes repeated bytes for
their lower half alone, and moves the weights there; so each eight bytes have a register.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.late_passes.dot_operands import side_by_side
from tvm_fusionx.late_passes.straight_lines import change_lines
from tvm_fusionx.processors.integers import DotInstruction
from tvm_fusionx.tir.dot_call import added_dot, sides_of, sum_of_neighbours
from tvm_fusionx.tir.flat_place import FlatPlace


@dataclass(frozen=True)
class _Step:
    """A statement that adds a dot product to a vector of sums."""

    stmt: Any
    total: Any
    data: Any
    weights: Any
    lanes: int

    @property
    def place(self) -> FlatPlace:
        """Where the sums are."""
        return FlatPlace(self.stmt.buffer.data, self.stmt.indices[0])


def add_in_words(instruction: DotInstruction) -> Any:
    """Return the TIR pass that adds products in 16 bits, after lowering and before `emit_dots`."""

    def change(line: Sequence[Any]) -> Any | None:
        changed: list[Any] = []
        waiting: dict[FlatPlace, list[_Step]] = {}
        for stmt in line:
            step = _step(stmt, instruction)
            if step is None:
                changed += _left(waiting)
                changed.append(stmt)
                continue
            steps = waiting.setdefault(step.place, [])
            steps.append(step)
            if len(steps) == instruction.together:
                changed.append(_together(waiting.pop(step.place), instruction))
        changed += _left(waiting)
        if len(changed) == len(line):
            return None
        return changed[0] if len(changed) == 1 else tir.SeqStmt(changed)

    return change_lines("tvm_fusionx.AddInWords", change)


def _step(stmt: Any, instruction: DotInstruction) -> _Step | None:
    """Return a statement as a step, or None where it is none that the instruction serves."""
    added = added_dot(stmt) if len(stmt.indices) == 1 else None
    if added is None:
        return None
    total, call = added
    lanes = tvm.DataType(call.dtype).lanes
    sides = sides_of(call)
    is_served = all(
        len(side) == instruction.depth and str(side[0].dtype).partition("x")[0] == dtype
        for side, dtype in zip(sides, (instruction.data, instruction.weights), strict=True)
    )
    if not is_served or instruction.name_for(lanes) is None:
        return None
    data, weights = (side_by_side(side, lanes) for side in sides)
    if data is None or not isinstance(weights, tir.BufferLoad):
        return None
    return _Step(stmt, total, data, weights, lanes)


def _left(waiting: dict[FlatPlace, list[_Step]]) -> list[Any]:
    """Return the statements that wait, those of one place together; none wait then."""
    statements = [step.stmt for steps in waiting.values() for step in steps]
    waiting.clear()
    return statements


def _together(steps: Sequence[_Step], instruction: DotInstruction) -> Any:
    """Return the statement that adds the products of all steps to their sums."""
    last = steps[-1]
    pairs = [(step.data, step.weights) for step in steps]
    value = sum_of_neighbours(instruction, last.total, pairs, last.lanes)
    return tir.BufferStore(last.stmt.buffer, value, last.stmt.indices)
