"""Calls of instructions for matrices: of bytes LLVM's own, of bfloat16 by a function."""

from __future__ import annotations

import pytest
import tvm
from tvm import tir

from tvm_fusionx.processors.brains import MATRICES
from tvm_fusionx.processors.integers import DotInstruction, instruction_of
from tvm_fusionx.tir.matrix_call import FUNCTION, held, matrix_call, with_matrix_calls

BYTES = instruction_of({"aarch64", "i8mm"})


def _call(instruction: DotInstruction) -> tir.Call:
    dtype = "uint16x8" if instruction is MATRICES else "int8x16"
    sums = tir.Broadcast(tir.const(0, instruction.sums), 4)
    rows, columns = tir.Var("rows", dtype), tir.Var("columns", dtype)
    return matrix_call(instruction, sums, rows, columns)


def test_bytes_are_multiplied_by_llvm_s_own_name() -> None:
    assert BYTES is not None
    call = _call(BYTES)
    assert (call.op.name, str(call.dtype)) == ("tir.call_llvm_pure_intrin", "int32x4")
    body = tir.Evaluate(call)
    assert with_matrix_calls(body, BYTES).same_as(body)


def test_numbers_of_bfloat16_are_multiplied_by_a_function_that_comes_along() -> None:
    call = _call(MATRICES)
    assert (call.op.name, str(call.dtype)) == ("tir.call_pure_extern", "float32x4")
    assert call.args[0].value == FUNCTION
    made = with_matrix_calls(tir.Evaluate(call), MATRICES)
    assert isinstance(made, tir.AttrStmt)
    assert "llvm.aarch64.neon.bfmmla" in made.value.value


@pytest.mark.parametrize("instruction", [None, MATRICES])
def test_what_multiplies_nothing_brings_no_function(instruction: DotInstruction | None) -> None:
    body = tir.Evaluate(0)
    assert with_matrix_calls(body, instruction).same_as(body)


def test_registers_hold_bits() -> None:
    for dtype, expected in (("bfloat16x8", "uint16x8"), ("int8x16", "int8x16")):
        assert str(held(tir.Var("vector", tvm.DataType(dtype))).dtype) == expected
