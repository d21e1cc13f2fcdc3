from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from tests.relay_modules import graph, var
from tvm_fusionx.ecg import to_relay
from tvm_fusionx.expressions.round_even import register_rounding
from tvm_fusionx.frontend.converters.elementwise import round_half_even
from tvm_fusionx.rewrite.quantized import ROUND_EVEN
from tvm_fusionx.rewrite.requantized import (
    drop_requantizations,
    drop_scales,
    pool_integers,
    round_by_instruction,
)

SCALE = 0.5


def _dequantized(x: Any, scale: float, zero: int) -> Any:
    return relay.qnn.op.dequantize(x, relay.const(scale), relay.const(zero, "int32"))


def _run(function: Any, x: np.ndarray, opt_level: int = 2) -> np.ndarray:
    with tvm.transform.PassContext(opt_level=opt_level):
        library = relay.build(tvm.IRModule.from_expr(function), "llvm")
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.set_input("x", x)
    executor.run()
    result: np.ndarray = executor.get_output(0).numpy()
    return result


def test_roundings_that_are_spelled_out_become_one_operator() -> None:
    register_rounding()
    found = graph(round_half_even(var("x", 4), "float32"))
    assert round_by_instruction(found) == 1
    assert [node.op for node in found.calls()] == [ROUND_EVEN]
    assert round_by_instruction(found) == 0


def test_other_choices_are_no_roundings() -> None:
    x = var("x", 4)
    low = relay.floor(x)
    half = relay.const(0.5)
    found = graph(relay.where(relay.greater(x - low, half), low + relay.const(1.0), low))
    before = [node.op for node in found.calls()]
    assert round_by_instruction(found) == 0
    assert [node.op for node in found.calls()] == before


def _quantized(x: Any, scale: float, zero: int) -> Any:
    register_rounding()
    rounded = relay.Call(relay.op.get(ROUND_EVEN), [x / relay.const(scale)])
    return relay.cast(relay.clip(rounded + relay.const(float(zero)), 0, 255), "uint8")


def _pooled(zero: int) -> Any:
    image = _dequantized(var("x", 1, 2, 4, 4, dtype="uint8"), SCALE, zero)
    return relay.nn.max_pool2d(image, (3, 3), padding=(1, 1))


def test_maxima_are_of_integers() -> None:
    expr = _pooled(5)
    found = graph(expr)
    assert pool_integers(found) == 1
    assert [node.op for node in found.calls()] == ["nn.max_pool2d", "qnn.dequantize"]
    assert pool_integers(found) == 0
    x = np.random.default_rng(0).integers(0, 256, (1, 2, 4, 4)).astype("uint8")
    (variable,) = relay.analysis.free_vars(expr)
    assert np.array_equal(_run(to_relay(found), x), _run(relay.Function([variable], expr), x))


@pytest.mark.parametrize(("name", "axes"), [("max_pool1d", 1), ("max_pool3d", 3)])
def test_maxima_over_sequences_and_volumes_are_of_integers(name: str, axes: int) -> None:
    shape = (1, 2, *(4,) * axes)
    data = _dequantized(var("x", *shape, dtype="uint8"), SCALE, 5)
    expr = getattr(relay.nn, name)(data, (3,) * axes, padding=(1,) * axes)
    found = graph(expr)
    assert pool_integers(found) == 1
    assert [node.op for node in found.calls()] == [f"nn.{name}", "qnn.dequantize"]
    # What lies outside is below every byte.
    x = np.random.default_rng(0).integers(0, 3, shape).astype("uint8")
    (variable,) = relay.analysis.free_vars(expr)
    assert np.array_equal(_run(to_relay(found), x), _run(relay.Function([variable], expr), x))


def _mean_of(zero: int) -> Any:
    image = _dequantized(var("x", 1, 2, 4, 4, dtype="uint8"), 0.1, zero)
    return relay.nn.avg_pool2d(image, (2, 2), strides=(2, 2), padding=(1, 1))


@pytest.mark.parametrize("zero", [0, 5])
def test_means_are_of_integers_and_exact_where_the_scale_stays(zero: int) -> None:
    found = graph(_quantized(_mean_of(zero), 0.1, 7))
    assert pool_integers(found) == 1
    assert drop_scales(found) == 1
    assert "qnn.dequantize" not in [node.op for node in found.calls()]
    assert (pool_integers(found), drop_scales(found)) == (0, 0)
    x = np.random.default_rng(0).integers(0, 256, (1, 2, 4, 4)).astype("uint8")
    inner = np.zeros((1, 2, 6, 6))
    inner[:, :, 1:-1, 1:-1] = x.astype("int64") - zero
    # What lies outside the image is not counted.
    counts = np.outer([1, 2, 1], [1, 2, 1])
    means = inner.reshape(1, 2, 3, 2, 3, 2).sum(axis=(3, 5)) / counts
    # Halves are among them, and go to the even neighbour.
    assert (means % 1 == 0.5).any()
    # Each operator alone: TVM's schedules of pools serve nothing behind them.
    made = _run(to_relay(found), x, opt_level=0)
    assert np.array_equal(made, np.clip(np.rint(means) + 7, 0, 255))


def test_means_of_channels_with_scales_of_their_own_stay() -> None:
    scales = relay.const(np.array([0.1, 0.2], "float32"))
    x = var("x", 1, 2, 4, 4, dtype="uint8")
    each = relay.qnn.op.dequantize(x, scales, relay.const(0, "int32"), axis=1)
    assert pool_integers(graph(relay.nn.avg_pool2d(each, (2, 2)))) == 0


@pytest.mark.parametrize(("by", "dropped"), [(0.1, 1), (0.2, 0)])
def test_only_the_same_number_undoes_a_multiplication(by: float, dropped: int) -> None:
    assert drop_scales(graph(var("x", 4) * relay.const(0.1) / relay.const(by))) == dropped


def test_other_maxima_stay() -> None:
    assert pool_integers(graph(relay.nn.max_pool2d(var("x", 1, 2, 4, 4), (2, 2)))) == 0


@pytest.mark.parametrize(
    ("scale", "zero", "dropped"), [(SCALE, 5, 1), (2 * SCALE, 5, 0), (SCALE, 4, 0)]
)
def test_quantizations_of_the_same_scale_are_dropped(scale: float, zero: int, dropped: int) -> None:
    x = _dequantized(var("x", 4, dtype="uint8"), SCALE, 5)
    found = graph(_quantized(x, scale, zero))
    assert drop_requantizations(found) == dropped
    assert (found.calls() == []) == bool(dropped)


def test_quantizations_of_what_was_only_moved_move_integers() -> None:
    x = _dequantized(var("x", 2, 6, dtype="uint8"), SCALE, 5)
    moved = relay.transpose(relay.reshape(x, (3, 4)), (1, 0))
    expr = _quantized(moved, SCALE, 5)
    found = graph(expr)
    assert drop_requantizations(found) == 1
    assert [node.op for node in found.calls()] == ["reshape", "transpose"]
    bytes_in = np.random.default_rng(0).integers(0, 256, (2, 6)).astype("uint8")
    assert np.array_equal(_run(to_relay(found), bytes_in), bytes_in.reshape(3, 4).T)
    computed = _quantized(relay.transpose(relay.nn.relu(x), (1, 0)), SCALE, 5)
    assert drop_requantizations(graph(computed)) == 0
