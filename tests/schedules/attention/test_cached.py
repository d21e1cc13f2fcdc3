"""One token's attention as the template serves it: numpy's numbers, knobs, and refusals."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.cached_attentions import attention_call, drawn, expected
from tests.relay_modules import REASSOCIATING, TARGET, var
from tests.schedules.blocked_blocks import AVX2, AVX512, NEON, describe, unscheduled
from tests.schedules.matching import matched, why_not
from tests.verified_kernels import assert_kernel
from tvm_fusionx.expressions.cached_attention import cached_attention
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.attention.cached import CACHED_ATTENTION, tiling_of

SHAPES = [(1, 1, 64, 512), (3, 3, 64, 512), (2, 9, 32, 96), (12, 1, 64, 64), (4, 8, 128, 256)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("text", [TARGET, "llvm -mcpu=haswell -num-cores=2"])
def test_numpys_numbers(shape: tuple[int, ...], text: str) -> None:
    target = resolve_target(text)
    call = attention_call(*shape)
    scheduled = schedule(unscheduled(call, target), target)
    assert (scheduled.template, scheduled.fallback_reason) == ("cached_attention", None)
    for position in (0, 1, shape[3] // 2 + 3, shape[3]):
        operands = drawn(call, position)
        assert_kernel(scheduled.func, target, operands, [expected(operands)], REASSOCIATING)


@pytest.mark.parametrize("chunk", [32, 64, 128, 256])
def test_any_chunk(chunk: int) -> None:
    target = resolve_target(TARGET)
    call = attention_call(3, 3, 64, 256)
    scheduled = schedule(unscheduled(call, target), target, {"chunk": chunk})
    for position in (31, 32, 33, 129, 256):
        operands = drawn(call, position)
        assert_kernel(scheduled.func, target, operands, [expected(operands)], REASSOCIATING)


@pytest.mark.parametrize("cpu", [AVX2, AVX512, NEON], ids=["AVX2", "AVX-512", "NEON"])
def test_sums_fit_the_registers(cpu: Cpu) -> None:
    for shape in SHAPES:
        match = matched(CACHED_ATTENTION, describe(attention_call(*shape), cpu))
        chunk = match.knobs()["chunk"]
        assert shape[3] % chunk.default == 0
        tiling = tiling_of(match.operands, cpu, chunk.default)
        most = max(tiling.key_vectors, tiling.value_vectors)
        assert tiling.rows * most + 2 <= cpu.registers
        assert chunk.default % (tiling.key_vectors * tiling.lanes) == 0
        assert shape[2] % (tiling.value_vectors * tiling.lanes) == 0


def test_refusals() -> None:
    odd = describe(attention_call(2, 3, 12, 64), AVX512)
    assert why_not(CACHED_ATTENTION, odd) == "12 features and 64 places are no whole vectors of 16"
    other = describe(relay.nn.softmax(var("x", 2, 64, 64)), AVX2)
    assert why_not(CACHED_ATTENTION, other) == "it is no attention over a cache"


def test_one_array_may_be_two_operands() -> None:
    target = resolve_target(TARGET)
    call = attention_call(2, 3, 16, 64)
    query, keys, values, key, _, position = call.args
    same = cached_attention([query, keys, values, key, key, position])
    scheduled = schedule(unscheduled(same, target), target)
    assert scheduled.template == "cached_attention"
    operands = drawn(call, 40)
    operands[4] = operands[3]
    given = [*operands[:4], operands[5]]
    assert_kernel(scheduled.func, target, given, [expected(operands)], REASSOCIATING)
