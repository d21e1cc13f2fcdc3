"""Dot products of short integers become instructions, once loops are vectors.

Where the operands do not lie as the processor's instruction needs them, they become plain
arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.late_passes.dot_operands import side_by_side
from tvm_fusionx.late_passes.pair_rows import LANES, columns_of, multiplied, row_of
from tvm_fusionx.processors.integers import DotInstruction
from tvm_fusionx.tir.brain_floats import BRAIN, narrow_of
from tvm_fusionx.tir.dot_call import dot_of_vectors, is_dot_call, sides_of
from tvm_fusionx.tir.matrix_call import held, with_matrix_calls


def emit_dots(*instructions: DotInstruction | None) -> Any:
    """Return the TIR pass that turns the operation into instructions, after lowering.

    The first of `instructions` counts that multiplies what an operation has on its left.
    """

    def add(node: Any) -> Any:
        if is_dot_call(node.a):
            return _sum(node.b, node.a, _that_multiplies(node.a, instructions))
        if is_dot_call(node.b):
            return _sum(node.a, node.b, _that_multiplies(node.b, instructions))
        return None

    def call(node: Any) -> Any:
        if not is_dot_call(node):
            return None
        return _sum(None, node, _that_multiplies(node, instructions))

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.EmitDots")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        body = tir.stmt_functor.ir_transform(func.body, add, None, ["tir.Add"])
        body = tir.stmt_functor.ir_transform(body, None, call, ["tir.Call"])
        for each in instructions:
            body = with_matrix_calls(body, each)
        return func.with_body(body)

    return run


def _that_multiplies(
    call: Any, instructions: Sequence[DotInstruction | None]
) -> DotInstruction | None:
    first = sides_of(call)[0][0]
    if isinstance(first, tir.Broadcast):
        first = first.value
    scalar = BRAIN if narrow_of(first) is not None else str(first.dtype).partition("x")[0]
    return next((each for each in instructions if each is not None and each.data == scalar), None)


def _sum(total: Any | None, call: Any, instruction: DotInstruction | None) -> Any:
    """Return the instruction for ``total + dot(...)``, or arithmetic where there is none."""
    left, right = sides_of(call)
    lanes = tvm.DataType(call.dtype).lanes
    if instruction is not None and instruction.rows > 1:
        alone = _row_alone(total, left, right, lanes, instruction)
        if alone is not None:
            return alone
        instruction = None
    name = None if instruction is None else instruction.name_for(lanes)
    if instruction is not None and name is not None and len(left) == instruction.depth:
        operands = side_by_side(left, lanes), side_by_side(right, lanes)
        if all(operand is not None for operand in operands):
            return dot_of_vectors(instruction, total, *operands, lanes)
    products = [
        a.astype(call.dtype) * b.astype(call.dtype) for a, b in zip(left, right, strict=True)
    ]
    for product in products:
        total = product if total is None else total + product
    return total


def _row_alone(
    total: Any | None, left: Any, right: Any, lanes: int, instruction: DotInstruction
) -> Any | None:
    """Return one row times columns by an instruction for two; None where they lie otherwise.

    Of each four sums the first two are those of the row and nothing, the others of nothing and it.
    """
    row, columns = row_of(left, instruction), columns_of(right, instruction)
    if row is None or columns is None:
        return None
    row = held(row)
    nothing = tir.Broadcast(tir.const(0, str(row.dtype).partition("x")[0]), instruction.depth)
    places = list(range(2 * instruction.depth))
    halves = tir.Shuffle([row, nothing], places), tir.Shuffle([nothing, row], places)
    start = tir.Broadcast(tir.const(0, instruction.sums), lanes) if total is None else total
    vectors = []
    for vector in range(lanes // LANES):
        first = vector * LANES
        value = start
        if lanes > LANES:
            value = tir.Shuffle([start], list(range(first, first + LANES)))
        for half, rows in enumerate(halves):
            value = multiplied(instruction, value, rows, columns, 2 * vector + half)
        vectors.append(value)
    return vectors[0] if len(vectors) == 1 else tir.Shuffle(vectors, list(range(lanes)))
