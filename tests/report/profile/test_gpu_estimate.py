from __future__ import annotations

import json
from typing import Any

import pytest
from tvm import relay

from tests.relay_modules import const, module, var
from tvm_fusionx.errors import TargetError
from tvm_fusionx.processors.gpu_rates import GpuRates
from tvm_fusionx.report.profile.gpu_estimate import count_on_gpu, variants

GPU = GpuRates("example", alus=64, mhz=100, memory_gb_a_second=1, half_rate=2)

LAYERS, CHANNELS, SIDE = 3, 32, 32


def _net() -> Any:
    """Return three convolutions of one shape and what lies between."""
    value: relay.Expr = var("x", 1, CHANNELS, SIDE, SIDE)
    for seed in range(LAYERS):
        kernel = const(CHANNELS, CHANNELS, 3, 3, seed=seed)
        value = relay.nn.relu(relay.nn.conv2d(value, kernel, padding=(1, 1)))
    return module(value)


@pytest.fixture(scope="module", name="counted")
def fixture_counted() -> dict[str, Any]:
    return {name: count_on_gpu(_net(), **choices) for name, choices in variants().items()}


@pytest.mark.parametrize("name", variants())
def test_a_convolution_multiplies_as_often_as_its_shape_says(
    counted: dict[str, Any], name: str
) -> None:
    products = sum(
        each.launches * (each.work.multiply_adds + each.work.half_multiply_adds)
        for each in counted[name].kernels
    )
    assert products == LAYERS * SIDE * SIDE * CHANNELS * CHANNELS * 9


def test_halves_move_half_as_much(counted: dict[str, Any]) -> None:
    whole, half = (counted[name].on(GPU) for name in ("buffers", "buffers of halves"))
    assert whole.launches >= LAYERS
    # The input and the output stay single, between them and in weights all is half.
    assert 0.4 * whole.moved_bytes < half.moved_bytes < whole.moved_bytes


def test_images_are_read_where_buffers_were(counted: dict[str, Any]) -> None:
    loads = {name: sum(k.work.image_loads for k in counted[name].kernels) for name in counted}
    assert loads["images"] > loads["buffers"]


def test_the_least_time_is_the_longer_of_arithmetic_and_memory(counted: dict[str, Any]) -> None:
    estimate = counted["buffers"].on(GPU)
    expected = sum(
        each.launches * max(each.least_us(GPU).values()) for each in counted["buffers"].kernels
    )
    assert estimate.least_ms == pytest.approx(expected / 1000)
    told = json.loads(json.dumps(estimate.to_json()))
    assert told["is_estimate"] is True
    assert "gpu_tile" in {each["template"] for each in told["kernels"]}


def test_a_processor_is_no_gpu() -> None:
    with pytest.raises(TargetError, match="an OpenCL target; found llvm"):
        count_on_gpu(_net(), "llvm")
