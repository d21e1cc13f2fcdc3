from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from tests.relay_modules import graph, var
from tests.sampled import few_fast_rows
from tvm_fusionx.ecg import to_relay
from tvm_fusionx.rewrite.quantized import (
    IntegerTypes,
    QuantizedData,
    is_of_activations,
    keeps_channels_apart,
    multiply_integers,
)

TYPES = {
    "unsigned": IntegerTypes("uint8", "int8"),
    "signed": IntegerTypes("int8", "int8"),
    "wide": IntegerTypes("int16", "int16"),
}

IN_WORDS = IntegerTypes("int8", "int8", adds_in_words=True)
WITH_WORDS = IntegerTypes("uint8", "int8", has_words=True)

SCALE = 0.5


def _integers(dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    generator = np.random.default_rng(0)
    return generator.integers(limits.min, limits.max + 1, shape).astype(dtype)


def _dequantized(x: Any, scale: Any, zero: Any, axis: int = -1) -> Any:
    parameters = (
        relay.const(np.asarray(scale, "float32")),
        relay.const(np.asarray(zero, "int32")),
    )
    return relay.qnn.op.dequantize(x, *parameters, axis=axis)


def _weights(*shape: int, dtype: str = "int8", zero: int = 0) -> Any:
    # Powers of two: products of scales are exact, so the whole result is.
    scales = np.exp2(-np.arange(shape[0], dtype="float32"))
    integers = relay.const(_integers(dtype, *shape) // (2 if zero else 1))
    return _dequantized(integers, scales, [zero] * shape[0], axis=0)


def _dense(dtype: str, zero: int) -> Any:
    return relay.nn.dense(_dequantized(var("x", 3, 8, dtype=dtype), SCALE, zero), _weights(4, 8))


def _conv(dtype: str, zero: int) -> Any:
    image = _dequantized(var("x", 1, 8, 5, 5, dtype=dtype), SCALE, zero)
    return relay.nn.conv2d(image, _weights(4, 8, 3, 3), padding=(1, 0, 1, 2))


def _depthwise(dtype: str, zero: int) -> Any:
    image = _dequantized(var("x", 1, 8, 5, 5, dtype=dtype), SCALE, zero)
    return relay.nn.conv2d(image, _weights(8, 1, 3, 3), padding=(1, 0, 1, 2), groups=8)


def _moved(dtype: str, zero: int) -> Any:
    x = relay.reshape(_dequantized(var("x", 1, 8, 3, dtype=dtype), SCALE, zero), (8, 3))
    scales = np.exp2(-np.arange(4, dtype="float32"))
    weights = _dequantized(relay.const(_integers("int8", 8, 4)), scales, [0] * 4, axis=1)
    return relay.nn.dense(relay.transpose(x), relay.transpose(weights))


def _run(function: Any, x: np.ndarray) -> np.ndarray:
    library = relay.build(tvm.IRModule.from_expr(function), "llvm")
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.set_input("x", x)
    executor.run()
    result: np.ndarray = executor.get_output(0).numpy()
    return result


def _replaced(expr: Any, types: IntegerTypes = TYPES["unsigned"]) -> tuple[int, Any]:
    found = graph(expr)
    choices = multiply_integers(found, types, lambda node: None)
    return sum(choice.reason is None for choice in choices), found


@pytest.mark.parametrize(
    ("types", "make", "given"),
    few_fast_rows(
        product(TYPES.values(), [_dense, _conv, _moved], [("uint8", 7), ("int8", -3), ("uint8", 0)])
    ),
)
def test_products_are_the_same_to_the_last_bit(
    types: IntegerTypes, make: Any, given: tuple[str, int]
) -> None:
    expr = make(*given)
    count, changed = _replaced(expr, types)
    assert count == 1
    (found,) = (node for node in changed.calls() if node.op in ("nn.dense", "nn.conv2d"))
    assert [value.dtype for value in found.operands] == [types.data, types.weights]
    assert found.outputs[0].dtype == "int32"
    (variable,) = relay.analysis.free_vars(expr)
    x = _integers(given[0], *(int(extent) for extent in variable.type_annotation.shape))
    assert np.array_equal(_run(to_relay(changed), x), _run(relay.Function([variable], expr), x))
    assert multiply_integers(changed, types, lambda node: None) == []


@pytest.mark.parametrize("given", [("uint8", 7), ("int8", -3), ("uint8", 0)])
def test_channels_kept_apart_multiply_short_integers(given: tuple[str, int]) -> None:
    expr = _depthwise(*given)
    count, changed = _replaced(expr)
    assert count == 1
    (found,) = (node for node in changed.calls() if node.op == "nn.conv2d")
    assert [value.dtype for value in found.operands] == ["int16", "int16"]
    # Zero is zero again once the zero point is taken away: nothing is padded by another number.
    assert tuple(found.attrs["padding"]) == (1, 0, 1, 2)
    (variable,) = relay.analysis.free_vars(expr)
    x = _integers(given[0], *(int(extent) for extent in variable.type_annotation.shape))
    assert np.array_equal(_run(to_relay(changed), x), _run(relay.Function([variable], expr), x))


@pytest.mark.parametrize(
    ("make", "given"),
    few_fast_rows(
        product([_dense, _conv, _moved], [("int16", 0), ("int16", -300), ("uint16", 32768)]), 3
    ),
)
def test_words_are_multiplied_beside_bytes(make: Any, given: tuple[str, int]) -> None:
    expr = make(*given)
    count, changed = _replaced(expr, WITH_WORDS)
    assert count == 1
    (found,) = (node for node in changed.calls() if node.op in ("nn.dense", "nn.conv2d"))
    assert [value.dtype for value in found.operands] == ["int16", "int16"]
    (variable,) = relay.analysis.free_vars(expr)
    x = _integers(given[0], *(int(extent) for extent in variable.type_annotation.shape))
    exact = _run(relay.Function([variable], expr), x)
    # Sums of floats round where they take more than 24 bits.
    largest = np.abs(exact).max()
    assert np.abs(_run(to_relay(changed), x) - exact).max() <= 1e-6 * largest


@pytest.mark.parametrize(
    ("expr", "types", "because"),
    [
        (_dense("int16", 0), TYPES["unsigned"], "no instruction multiplies int16"),
        (_depthwise("int16", 0), WITH_WORDS, "keeps channels of int16 apart"),
        (
            relay.nn.dense(
                _dequantized(var("x", 3, 2000, dtype="int16"), SCALE, 0), _weights(4, 2000)
            ),
            WITH_WORDS,
            "may not fit 32 bits",
        ),
    ],
)
def test_words_that_stay_floats(expr: Any, types: IntegerTypes, because: str) -> None:
    (choice,) = multiply_integers(graph(expr), types, lambda node: None)
    assert choice.reason is not None
    assert because in choice.reason


def _bytes(*shape: int) -> Any:
    return _dequantized(var("x", *shape, dtype="uint8"), SCALE, 0)


@pytest.mark.parametrize(
    ("expr", "because"),
    [
        (relay.nn.dense(var("x", 3, 8), _weights(4, 8)), "data is not dequantized"),
        (relay.nn.dense(_bytes(3, 8), var("w", 4, 8)), "weights are not dequantized"),
        (
            relay.nn.dense(
                _dequantized(var("x", 3, 8, dtype="uint8"), [SCALE] * 8, [0] * 8), _weights(4, 8)
            ),
            "scale for each channel",
        ),
        (
            relay.nn.dense(_bytes(3, 8), _weights(4, 8, dtype="uint8", zero=200)),
            "less their zero point",
        ),
        (
            relay.nn.dense(
                _bytes(3, 8),
                _dequantized(relay.const(_integers("int8", 4, 8)), range(1, 9), [0] * 8, axis=1),
            ),
            "several scales for one output channel",
        ),
        (
            relay.nn.dense(_dequantized(var("x", 3, 8, dtype="int32"), SCALE, 0), _weights(4, 8)),
            "dequantized from int32",
        ),
        (relay.nn.dense(_bytes(3, 40000), _weights(4, 40000)), "may not fit"),
        (
            relay.nn.dense(
                relay.qnn.op.dequantize(
                    var("x", 3, 8, dtype="uint8"), var("s"), relay.const(0, "int32")
                ),
                _weights(4, 8),
            ),
            "scale is not constant",
        ),
    ],
)
def test_reasons_to_stay_a_product_of_floats(
    expr: Any, because: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG", "tvm_fusionx.rewrite.quantized"):
        assert _replaced(expr)[0] == 0
    assert because in caplog.text


def test_products_of_two_activations_are_left_to_others() -> None:
    right = _dequantized(var("w", 4, 8, dtype="int8"), 1, 0)
    found = graph(relay.nn.dense(_bytes(3, 8), right))
    assert is_of_activations(found.calls()[-1])
    assert multiply_integers(found, TYPES["unsigned"], lambda node: None) == []
    assert not is_of_activations(graph(_dense("uint8", 0)).calls()[-1])


def test_a_product_without_a_kernel_stays(caplog: pytest.LogCaptureFixture) -> None:
    found = graph(_dense("uint8", 0))
    with caplog.at_level("DEBUG", "tvm_fusionx.rewrite.quantized"):
        (choice,) = multiply_integers(found, TYPES["unsigned"], lambda node: "no kernel")
    assert (choice.op, choice.reason) == ("nn.dense", "no kernel")
    assert "no kernel" in caplog.text


def test_each_product_is_judged_by_what_it_reads() -> None:
    both = relay.nn.dense(_dequantized(var("x", 3, 8, dtype="int8"), SCALE, -3), _weights(4, 8))
    found = graph(relay.nn.dense(both, relay.const(_integers("int8", 2, 4).astype("float32"))))
    seen = []

    def slower(graph: Any, node: Any, data: QuantizedData) -> str:
        seen.append((node.op, data, keeps_channels_apart(node)))
        return "floats are faster"

    (choice,) = multiply_integers(found, TYPES["signed"], lambda node: None, slower)
    # The second product reads floats: nobody asks of it.
    assert seen == [("nn.dense", QuantizedData("int8", -3), False)]
    assert choice.reason == "floats are faster"
    assert [node.op for node in found.calls()] == ["qnn.dequantize"] * 2 + ["nn.dense"] * 2


@pytest.mark.parametrize(("least", "count"), [(1, 1), (2, 0)])
def test_weights_leave_room_where_products_are_added_in_words(least: int, count: int) -> None:
    integers = np.maximum(_integers("int8", 4, 8), -127)
    integers[:, :least] = -128
    scales = np.exp2(-np.arange(4, dtype="float32"))
    weights = _dequantized(relay.const(integers), scales, [0] * 4, axis=0)
    expr = relay.nn.dense(_dequantized(var("x", 3, 8, dtype="int8"), SCALE, 3), weights)
    assert _replaced(expr, TYPES["signed"])[0] == 1
    found, changed = _replaced(expr, IN_WORDS)
    assert found == count
    (choice,) = multiply_integers(graph(expr), IN_WORDS, lambda node: None)
    assert choice.reason is None if count else "2 weights of -128" in str(choice.reason)
    x = _integers("int8", 3, 8)
    (variable,) = relay.analysis.free_vars(expr)
    assert np.array_equal(_run(to_relay(changed), x), _run(relay.Function([variable], expr), x))
