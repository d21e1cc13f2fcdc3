"""Knobs of windows that keep channels apart."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import var
from tests.schedules.blocked_blocks import AVX2, AVX512, depthwise, describe
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.template import Knobs
from tvm_fusionx.schedules.windows.channelwise import channelwise_knobs
from tvm_fusionx.schedules.windows.structure import Window, find_window


def _knobs(body: relay.Expr, cpu: Cpu) -> Knobs:
    info = describe(body, cpu)
    window = find_window(info)
    assert isinstance(window, Window)
    return channelwise_knobs(info, window, cpu)


def test_every_knob_offers_its_default() -> None:
    for name, knob in _knobs(depthwise(48, (14, 14), (3, 3), padding=(1,) * 4), AVX2).items():
        assert knob.default in knob.choices, name


@pytest.mark.slow
def test_more_registers_hold_more_columns() -> None:
    body = depthwise(16, (10, 20), (3, 3), padding=(1, 1, 1, 1))
    assert _knobs(body, AVX2)["tile_columns"].default == 5
    assert _knobs(body, AVX512)["tile_columns"].default == 10


def test_a_global_pooling_sums_several_chunks_at_once() -> None:
    pooled = relay.nn.global_avg_pool2d(var("x", 1, 12, 7, 7, 8), layout="NCHW8c")
    knobs = _knobs(pooled, AVX2)
    assert (knobs["tile_columns"].default, knobs["tile_chunks"].default) == (1, 6)
