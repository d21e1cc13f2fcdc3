"""Recurrent layers as the template serves them: numpy's numbers, knobs, and refusals."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.recurrent_layers import USUAL, Numbers, drawn, expected, unscheduled
from tests.relay_modules import REASSOCIATING, TARGET, var
from tests.schedules.blocked_blocks import AVX2, AVX512, NEON, describe
from tests.schedules.matching import matched, why_not
from tests.verified_kernels import assert_kernel
from tvm_fusionx.operators.recurrent_layer import GRU, LSTM, RNN, Layer
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.recurrent.template import RECURRENT, Recurrent, tiling_of
from tvm_fusionx.tir.block import describe_block

WIDE = "llvm -mcpu=skylake-avx512 -num-cores=2"


def _assert_serves(layer: Layer, target_text: str, knobs: dict[str, int] | None = None) -> None:
    target = resolve_target(target_text)
    numbers = Numbers.drawn(layer)
    scheduled = schedule(unscheduled(layer, numbers), target, knobs)
    assert (scheduled.template, scheduled.fallback_reason) == ("recurrent", None)
    operands = numbers.operands(layer)
    assert_kernel(scheduled.func, target, operands, expected(layer, numbers), REASSOCIATING)


@pytest.mark.parametrize("seed", range(100, 112))
def test_random_layers(seed: int) -> None:
    _assert_serves(drawn(seed), TARGET)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(112, 140))
def test_more_random_layers(seed: int) -> None:
    _assert_serves(drawn(seed), TARGET)


@pytest.mark.parametrize("kind", [LSTM, GRU])
@pytest.mark.parametrize("reverse", [(False,), (False, True)])
def test_cores_that_share_each_step(kind: str, reverse: tuple[bool, ...]) -> None:
    layer = Layer(kind, 4, 3, 72, reverse, USUAL[kind], has_lengths=True)
    _assert_serves(layer, TARGET, {"share_steps": 1, "tile_rows": 2})


@pytest.mark.parametrize("given", [(0,), (1,), (2,), (0, 2)], ids=str)
def test_results_that_nobody_reads_are_not_given(given: tuple[int, ...]) -> None:
    layer = Layer(LSTM, 3, 2, 20, (False, True), USUAL[LSTM], has_lengths=True)
    numbers = Numbers.drawn(layer)
    target = resolve_target(TARGET)
    scheduled = schedule(unscheduled(layer, numbers, given), target)
    assert (scheduled.template, scheduled.fallback_reason) == ("recurrent", None)
    results = [expected(layer, numbers)[at] for at in given]
    assert_kernel(scheduled.func, target, numbers.operands(layer), results, REASSOCIATING)


def _match(layer: Layer, cpu: Cpu) -> Recurrent:
    func = unscheduled(layer, Numbers.drawn(layer))
    found = matched(RECURRENT, describe_block(func, cpu))
    assert isinstance(found, Recurrent)
    return found


@pytest.mark.parametrize("cpu", [AVX2, AVX512, NEON], ids=["AVX2", "AVX512", "NEON"])
def test_large_states_are_shared_in_each_step(cpu: Cpu) -> None:
    small, large = (Layer(LSTM, 5, 1, hidden, (False,), USUAL[LSTM]) for hidden in (32, 512))
    assert _match(small, cpu).knobs()["share_steps"].default == 0
    assert _match(large, cpu).knobs()["share_steps"].default == 1


def test_two_directions_have_a_core_each() -> None:
    layer = Layer(LSTM, 5, 1, 64, (False, True), USUAL[LSTM])
    match = _match(layer, AVX512)
    values = {name: knob.default for name, knob in match.knobs().items()}
    assert values["share_steps"] == 0
    assert tiling_of(layer, AVX512, values).slices == 1


def test_refusals() -> None:
    assert why_not(RECURRENT, describe(relay.exp(var("x", 4, 4)), AVX512)) == (
        "it is no recurrent layer"
    )


def test_a_layer_with_one_core_has_no_choice() -> None:
    layer = Layer(RNN, 5, 1, 64, (False,), USUAL[RNN])
    alone = Cpu(lanes=8, registers=16, cores=1)
    assert _match(layer, alone).knobs()["share_steps"].choices == (0,)
