"""The dot product of short integers, or of a few floats, as one operation of TIR.

``dot(a0, .., b0, ..)`` is the sum of ``int32(a_i) * int32(b_i)``. To a schedule it is what a
multiplication is in a product of floats: `depth` integers that lie side by side take the place of
one float, so tiles, panels and their costs are the same. After lowering it becomes the processor's
own instruction (:mod:`tvm_fusionx.late_passes.emit_dots`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx._tvm.registry import register_pure_intrinsic
from tvm_fusionx.processors.integers import SUM, WORD_BYTES, DotInstruction

DOT_OPERATION = "tir.fusionx_dot"

# Holds a product of two bytes.
PRODUCT = "int16"


def register_dot() -> None:
    """Make the operation known to TIR; idempotent."""
    register_pure_intrinsic(DOT_OPERATION)


def dot(left: Sequence[Any], right: Sequence[Any], dtype: str = SUM) -> Any:
    """Return the operation on two sequences of as many numbers; `dtype` is that of their sum."""
    return tir.call_intrin(dtype, DOT_OPERATION, *left, *right)


def dot_of_vectors(
    instruction: DotInstruction, total: Any | None, data: Any, weights: Any, lanes: int
) -> Any:
    """Return the processor's instruction on whole vectors, added to a vector of sums.

    Parameters
    ----------
    instruction
        Has a name for so many sums.
    total
        ``int32`` of `lanes` sums; none are added where it is None.
    data, weights
        Vectors of as many times `lanes` integers as one sum takes.
    lanes
        Sums.
    """
    if instruction.neighbours is not None:
        return sum_of_neighbours(instruction, total, [(data, weights)], lanes)
    operands: tuple[Any, ...] = (weights, data) if instruction.repeats_last else (data, weights)
    if instruction.takes_sum:
        start = tir.Broadcast(tir.const(0, SUM), lanes) if total is None else total
        operands, total = (start, *operands), None
    made = _called(f"{SUM}x{lanes}", instruction.name_for(lanes), *operands)
    return made if total is None else total + made


def added_dot(store: Any) -> tuple[Any, Any] | None:
    """Return the sums and the dot product that a store adds up in its place; None of any other."""
    value = store.value
    if not isinstance(value, tir.Add):
        return None
    total, call = (value.b, value.a) if is_dot_call(value.a) else (value.a, value.b)
    if not is_dot_call(call) or not isinstance(total, tir.BufferLoad):
        return None
    # Buffers of one shape are structurally equal.
    is_in_place = total.buffer.data.same_as(store.buffer.data) and tvm.ir.structural_equal(
        total.indices, store.indices
    )
    return (total, call) if is_in_place else None


def sum_of_neighbours(
    instruction: DotInstruction,
    total: Any | None,
    pairs: Sequence[tuple[Any, Any]],
    lanes: int,
) -> Any:
    """Return a vector of sums and products that are added in 16 bits, then with their neighbours.

    Parameters
    ----------
    instruction
        Adds neighbours after it has multiplied.
    total
        ``int32`` of `lanes` sums; none are added where it is None.
    pairs
        Vectors of data and of weights, at most as many as the instruction adds together.
    lanes
        Sums.
    """
    wide = f"{PRODUCT}x{lanes * instruction.depth}"
    words = None
    for data, weights in pairs:
        made = _called(wide, instruction.name_for(lanes), weights, data)
        words = made if words is None else words + made
    added = _called(f"{SUM}x{lanes}", instruction.neighbours, words)
    return added if total is None else total + added


def _called(dtype: str, name: str | None, *operands: Any) -> Any:
    return tir.call_llvm_pure_intrin(dtype, name, tir.const(len(operands), "uint32"), *operands)


def is_dot_call(expr: Any) -> bool:
    """Tell whether an expression is the operation."""
    return isinstance(expr, tir.Call) and getattr(expr.op, "name", "") == DOT_OPERATION


def sides_of(call: Any) -> tuple[list[Any], list[Any]]:
    """Return the integers on the left and on the right of the operation."""
    args = list(call.args)
    return args[: len(args) // 2], args[len(args) // 2 :]


def innermost_index(load: Any) -> Any:
    """Return the index along which what a load takes lies side by side.

    That is its last, but of one byte of a word the index of the words.
    """
    is_byte_of_word = (
        len(load.indices) > 1
        and isinstance(load.indices[-1], tir.IntImm)
        and int(load.buffer.shape[-1]) == WORD_BYTES
        and str(load.buffer.dtype) in ("int8", "uint8")
    )
    return load.indices[-2 if is_byte_of_word else -1]
