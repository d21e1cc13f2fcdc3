from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.ecg.graph import Graph
from tvm_fusionx.ecg.numpy_operators import evaluate
from tvm_fusionx.rewrite.integer_operators import multiply_bytes
from tvm_fusionx.rewrite.quantized import PRODUCTS, IntegerTypes

TYPES = {
    "unsigned": IntegerTypes("uint8", "int8"),
    "signed": IntegerTypes("int8", "int8"),
    "wide": IntegerTypes("int16", "int16"),
}


def _weights(*shape: int, low: int = -128) -> Any:
    array = np.random.default_rng(0).integers(low, 128, shape)
    return relay.const(array.astype("int32"))


def _less(x: Any, zero: Any) -> Any:
    wide = relay.cast(x, "int32")
    return wide if zero is None else wide - zero


def _zero(value: int) -> Any:
    return relay.const(np.array(value, "int32"))


def _dense(dtype: str, zero: Any) -> Any:
    data = relay.reshape(_less(var("x", 1, 3, 8, dtype=dtype), zero), (3, 8))
    return relay.nn.dense(data, _weights(4, 8), out_dtype="int32")


def _conv(dtype: str, zero: Any, **how: Any) -> Any:
    image = _less(var("x", 1, 8, 5, 5, dtype=dtype), zero)
    weights = _weights(8, 8 // how.get("groups", 1), 3, 3)
    return relay.nn.conv2d(image, weights, out_dtype="int32", **how)


def _run(found: Graph, x: np.ndarray, zero: int) -> np.ndarray:
    """Return the result of a graph in numpy, operator by operator."""
    made: dict[Any, np.ndarray] = {}

    def array(value: Any) -> np.ndarray:
        if value.is_constant:
            return value.array
        return made[value] if value in made else (x if value.shape else np.array(zero, "int32"))

    for node in found.calls():
        operands = [array(value) for value in node.operands]
        if node.op in PRODUCTS:
            # NumPy would add bytes up in bytes.
            operands = [each.astype("int64") for each in operands]
        made[node[0]] = evaluate(node, operands)[0].astype(node.outputs[0].dtype)
    return made[node[0]]


PAD = {"padding": (1, 0, 1, 2)}
CASES = {
    "dense": lambda dtype: _dense(dtype, _zero(5)),
    "dense without a zero point": lambda dtype: _dense(dtype, None),
    "dense whose zero point is computed": lambda dtype: _dense(dtype, var("z", dtype="int32")),
    "convolution": lambda dtype: _conv(dtype, _zero(5), **PAD),
    "convolution whose zero point is computed": lambda dtype: _conv(dtype, var("z", dtype="int32")),
    "channels apart": lambda dtype: _conv(dtype, _zero(5), groups=8, **PAD),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dtype", "types"), [("uint8", "unsigned"), ("int8", "unsigned")])
def test_the_sums_are_the_same(case: str, dtype: str, types: str) -> None:
    _assert_same_sums(CASES[case](dtype), dtype, TYPES[types])


@pytest.mark.parametrize("case", ["dense", "convolution"])
@pytest.mark.parametrize("types", ["signed", "wide"])
def test_other_instructions_take_their_types(case: str, types: str) -> None:
    _assert_same_sums(CASES[case]("uint8"), "uint8", TYPES[types])


def _assert_same_sums(expr: Any, dtype: str, types: IntegerTypes) -> None:
    found, original = graph(expr), graph(expr)
    (choice,) = multiply_bytes(found, types, lambda node: None)
    assert choice.reason is None
    (product,) = (node for node in found.calls() if node.op in PRODUCTS)
    apart = "groups" in product.attrs and int(product.attrs["groups"]) > 1
    expected = ("int16", "int16") if apart else (types.data, types.weights)
    assert tuple(value.dtype for value in product.operands) == expected
    shape = (1, 3, 8) if product.op == "nn.dense" else (1, 8, 5, 5)
    limits = np.iinfo(dtype)
    x = np.random.default_rng(1).integers(limits.min, limits.max + 1, shape).astype(dtype)
    assert np.array_equal(_run(found, x, 7), _run(original, x, 7))


@pytest.mark.parametrize(
    ("expr", "because"),
    [
        (
            relay.nn.dense(
                _less(var("x", 3, 8, dtype="uint8"), None),
                var("w", 4, 8, dtype="int32"),
                out_dtype="int32",
            ),
            "not constant",
        ),
        (
            relay.nn.dense(
                _less(var("x", 3, 8, dtype="uint8"), None),
                relay.const(np.full((4, 8), 200, "int32")),
                out_dtype="int32",
            ),
            "are no int8",
        ),
        (_conv("uint8", var("z", dtype="int32"), **PAD), "border"),
    ],
)
def test_reasons(expr: Any, because: str) -> None:
    (choice,) = multiply_bytes(graph(expr), TYPES["unsigned"], lambda node: None)
    assert because in str(choice.reason)


def test_a_product_without_a_kernel_stays() -> None:
    found = graph(_dense("uint8", None))
    (choice,) = multiply_bytes(found, TYPES["unsigned"], lambda node: "no kernel")
    assert choice.reason == "no kernel"
    assert [value.dtype for value in found.calls()[-1].operands] == ["int32", "int32"]


def test_products_of_other_integers_are_none_of_ours() -> None:
    wide = relay.nn.dense(var("x", 3, 8, dtype="int32"), _weights(4, 8), out_dtype="int32")
    assert multiply_bytes(graph(wide), TYPES["unsigned"], lambda node: None) == []
    rows = _less(var("x", 3, 8, dtype="uint8"), relay.const(np.zeros((3, 1), "int32")))
    each = relay.nn.dense(rows, _weights(4, 8), out_dtype="int32")
    assert multiply_bytes(graph(each), TYPES["unsigned"], lambda node: None) == []


@pytest.mark.parametrize(("least", "reason"), [(1, None), (2, "2 weights of -128")])
def test_weights_leave_room_where_products_are_added_in_words(
    least: int, reason: str | None
) -> None:
    array = np.full((4, 8), 127, "int32")
    array[:, :least] = -128
    weights = relay.const(array)
    product = relay.nn.dense(
        _less(var("x", 3, 8, dtype="int8"), _zero(5)), weights, out_dtype="int32"
    )
    types = IntegerTypes("int8", "int8", adds_in_words=True)
    (choice,) = multiply_bytes(graph(product), types, lambda node: None)
    assert choice.reason is None if reason is None else reason in str(choice.reason)
