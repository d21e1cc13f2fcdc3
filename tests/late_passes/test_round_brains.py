"""Rounding to bfloat16 by an instruction: which casts become one, and that others stay."""

from __future__ import annotations

import pytest
import tvm
from tvm import tir

from tvm_fusionx.late_passes.round_brains import round_brains
from tvm_fusionx.lowering import compile_kernel, register
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.tir.brain_floats import narrowed, single_of

LENGTH = 16
TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu={}"


def _func(lanes: int) -> tir.PrimFunc:
    """Return ``y = bfloat16(x)`` by vectors."""
    x = tir.decl_buffer((LENGTH,), "float32", "x")
    y = tir.decl_buffer((LENGTH,), "bfloat16", "y")
    i = tir.Var("i", "int32")
    place = i if lanes == 1 else tir.Ramp(i * lanes, 1, lanes)
    store = tir.BufferStore(y, narrowed(tir.BufferLoad(x, [place])), [place])
    params = [tir.Var("a", "handle"), tir.Var("b", "handle")]
    loop = tir.For(i, 0, LENGTH // lanes, tir.ForKind.SERIAL, store)
    return tir.PrimFunc(params, loop, None, dict(zip(params, (x, y), strict=True)))


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_vectors_are_rounded_by_the_instruction(lanes: int) -> None:
    register()
    code = compile_kernel(_func(lanes), resolve_target(TARGET.format("neoverse-n2")), "kernel")
    found = code.get_source("asm")
    assert "bfcvtn" in found
    assert "bsl" not in found


def test_a_core_without_it_rounds_by_whole_numbers() -> None:
    register()
    code = compile_kernel(_func(4), resolve_target(TARGET.format("cortex-a76")), "kernel")
    assert "bfcvtn" not in code.get_source("asm")


def test_elements_stay_as_they_are() -> None:
    module = tvm.IRModule({"main": _func(1)})
    assert tvm.ir.structural_equal(round_brains()(module), module)


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_other_casts_are_none(dtype: str) -> None:
    words = tir.Var("words", "uint32")
    one = tir.const(1, "uint32")
    for value in (words, tir.Select(words <= one, words, one)):
        assert single_of(tir.Cast(dtype, value)) is None


@pytest.mark.parametrize("core", ["neoverse-n2", "cortex-a76"])
def test_an_error_function_before_it_is_one_of_vectors(core: str) -> None:
    register()
    x = tir.decl_buffer((LENGTH,), "float32", "x")
    y = tir.decl_buffer((LENGTH,), "bfloat16", "y")
    i, lane = tir.Var("i", "int32"), tir.Var("lane", "int32")
    place = i * 4 + lane
    store = tir.BufferStore(y, narrowed(tir.erf(tir.BufferLoad(x, [place]))), [place])
    vector = tir.For(lane, 0, 4, tir.ForKind.VECTORIZED, store)
    loop = tir.For(i, 0, LENGTH // 4, tir.ForKind.SERIAL, vector)
    params = [tir.Var("a", "handle"), tir.Var("b", "handle")]
    func = tir.PrimFunc(params, loop, None, dict(zip(params, (x, y), strict=True)))
    code = compile_kernel(func, resolve_target(TARGET.format(core)), "kernel")
    assert "erff" not in code.get_source("asm")
