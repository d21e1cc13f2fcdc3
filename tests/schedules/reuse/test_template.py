"""Convolutions that reuse products as the template serves them: numpy's numbers, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import te

from tests.relay_modules import REASSOCIATING, TARGET
from tests.reuse_layers import Numbers, drawn, unscheduled
from tests.schedules.blocked_blocks import AVX2, AVX512, NEON
from tests.schedules.matching import knobs_of, why_not
from tests.verified_kernels import assert_kernel
from tvm_fusionx.expressions.similar_products import expression
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.reuse.layer import ReuseLayer
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.reuse.template import REUSE
from tvm_fusionx.tir.block import describe_block

A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"


def _assert_serves(layer: ReuseLayer, target_text: str) -> None:
    target = resolve_target(target_text)
    numbers = Numbers.drawn(layer)
    scheduled = schedule(unscheduled(layer, numbers), target)
    assert (scheduled.template, scheduled.fallback_reason) == ("reuse", None)
    operands, result = numbers.operands(layer), numbers.expected(layer)
    assert_kernel(scheduled.func, target, operands, [result], REASSOCIATING)


@pytest.mark.parametrize("seed", range(100, 106))
def test_random_layers(seed: int) -> None:
    _assert_serves(drawn(seed), TARGET)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(110, 122))
def test_more_random_layers(seed: int) -> None:
    _assert_serves(drawn(seed), TARGET)


def test_knobs_of_no_default_change_no_number() -> None:
    layer = drawn(31)
    target, numbers = resolve_target(TARGET), Numbers.drawn(layer)
    knobs = {"hash_rows": 1, "product_rows": 1, "product_vectors": 1, "sum_vectors": 1}
    scheduled = schedule(unscheduled(layer, numbers), target, knobs)
    assert (scheduled.template, scheduled.knobs) == ("reuse", knobs)
    operands, result = numbers.operands(layer), numbers.expected(layer)
    assert_kernel(scheduled.func, target, operands, [result], REASSOCIATING)


@pytest.mark.parametrize("cpu", [AVX2, AVX512, NEON], ids=["AVX2", "AVX512", "NEON"])
def test_defaults_are_choices(cpu: Cpu) -> None:
    for seed in (0, 3):
        layer = drawn(seed)
        func = unscheduled(layer, Numbers.drawn(layer))
        for name, knob in knobs_of(REUSE, describe_block(func, cpu)).items():
            assert knob.default in knob.choices, name


def test_neon_adds_the_bits_of_a_code_in_registers() -> None:
    layer = drawn(100)
    target = tvm.target.Target(A76)
    scheduled = schedule(unscheduled(layer, Numbers.drawn(layer)), target)
    assert scheduled.template == "reuse"
    assembly = compile_kernel(scheduled.func, target, "kernel").get_source("asm")
    assert "addv\ts" in assembly
    assert "fcmgt\tv" in assembly


def _with_relu() -> Any:
    layer = drawn(1)
    operands = [
        te.placeholder(each.shape, str(each.dtype), f"p{at}")
        for at, each in enumerate(Numbers.drawn(layer).operands(layer))
    ]
    made = expression(layer, operands)
    result = te.compute(made.shape, lambda *at: te.max(made(*at), 0.0), name="relu")
    return te.create_prim_func([*operands, result])


def test_what_it_does_not_serve() -> None:
    assert why_not(REUSE, describe_block(_with_relu(), AVX2)) is not None
    x = te.placeholder((4, 4), "float32", "x")
    func = te.create_prim_func([x, te.compute((4, 4), lambda i, j: x[i, j] + 1.0, name="y")])
    assert why_not(REUSE, describe_block(func, AVX2)) == "it reuses no products"
