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
from tvm_fusionx.rewrite.quantized import IntegerTypes, NoIntegersError, QuantizedData
from tvm_fusionx.rewrite.quantized_pairs import multiply_activations, sides_of

TYPES = {
    "unsigned": IntegerTypes("uint8", "int8"),
    "signed": IntegerTypes("int8", "int8"),
    "wide": IntegerTypes("int16", "int16"),
}

LEFT_SCALE, RIGHT_SCALE = 0.5, 0.25


def _dequantized(name: str, dtype: str, zero: int, scale: float, *shape: int) -> Any:
    x = var(name, *shape, dtype=dtype)
    return relay.qnn.op.dequantize(x, relay.const(scale), relay.const(zero, "int32"))


def _batch(left: tuple[str, int], right: tuple[str, int]) -> Any:
    """Return a product of batches, its sides turned from other shapes."""
    x = _dequantized("x", *left, LEFT_SCALE, 2, 3, 8)
    y = relay.transpose(_dequantized("y", *right, RIGHT_SCALE, 2, 8, 5), (0, 2, 1))
    return relay.nn.batch_matmul(x, y)


def _as_it_lies(left: tuple[str, int], right: tuple[str, int]) -> Any:
    """Return a product whose right side, of one batch for all, has its terms in columns."""
    x = _dequantized("x", *left, LEFT_SCALE, 2, 3, 8)
    y = _dequantized("y", *right, RIGHT_SCALE, 1, 8, 5)
    return relay.nn.batch_matmul(x, y, transpose_b=False)


def _matrix(left: tuple[str, int], right: tuple[str, int]) -> Any:
    x = _dequantized("x", *left, LEFT_SCALE, 3, 8)
    return relay.nn.dense(x, _dequantized("y", *right, RIGHT_SCALE, 5, 8))


def _fast(graph: Any, node: Any, data: QuantizedData) -> None:
    """Find integers the faster way always."""


def _any(node: Any) -> None:
    """Find a kernel for everything."""


def _run(function: Any, feeds: dict[str, np.ndarray]) -> np.ndarray:
    library = relay.build(tvm.IRModule.from_expr(function), "llvm")
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.set_input(**feeds)
    executor.run()
    result: np.ndarray = executor.get_output(0).numpy()
    return result


def _inputs(expr: Any) -> list[Any]:
    return list(relay.analysis.free_vars(expr))


def _feeds(expr: Any) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    found = {}
    for each in _inputs(expr):
        kind = each.type_annotation
        limits = np.iinfo(kind.dtype)
        shape = tuple(int(extent) for extent in kind.shape)
        found[each.name_hint] = generator.integers(limits.min, limits.max + 1, shape, kind.dtype)
    return found


def _expected(make: Any, sides: Any, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """Return the product of what the bytes mean, in doubles, which hold it exactly."""
    (_, left), (_, right) = sides
    x = (feeds["x"].astype("float64") - left) * LEFT_SCALE
    y = (feeds["y"].astype("float64") - right) * RIGHT_SCALE
    return x @ (y.T if make is _matrix else y)


SIDES = [
    (("uint8", 7), ("int8", -3)),
    (("int8", -3), ("uint8", 120)),
    (("uint8", 0), ("int8", 0)),
    (("int8", 0), ("int8", 0)),
    (("uint8", 255), ("uint8", 1)),
]


@pytest.mark.parametrize(
    ("types", "make", "sides"),
    few_fast_rows(product(TYPES.values(), [_batch, _as_it_lies, _matrix], SIDES)),
)
def test_products_are_the_same_to_the_last_bit(types: IntegerTypes, make: Any, sides: Any) -> None:
    expr = make(*sides)
    changed = graph(expr)
    (choice,) = multiply_activations(changed, types, _any, _fast)
    assert choice.reason is None
    (found,) = (node for node in changed.calls() if node.op == "nn.batch_matmul")
    assert [value.dtype for value in found.operands] == [types.data, types.weights]
    assert found.outputs[0].dtype == "int32"
    feeds = _feeds(expr)
    assert np.array_equal(_run(to_relay(changed), feeds), _expected(make, sides, feeds))
    assert multiply_activations(changed, types, _any, _fast) == []


def test_zero_points_of_zero_are_not_summed() -> None:
    changed = graph(_batch(("uint8", 0), ("int8", 0)))
    multiply_activations(changed, TYPES["unsigned"], _any, _fast)
    assert "sum" not in [node.op for node in changed.calls()]


@pytest.mark.parametrize(
    ("expr", "because"),
    [
        (
            relay.nn.batch_matmul(
                _dequantized("x", "uint8", 0, 1.0, 1, 2, 8192),
                _dequantized("y", "int8", 0, 1.0, 1, 2, 8192),
            ),
            "sums of 8192 products may not fit 32 bits",
        ),
    ],
)
def test_reasons_to_stay_a_product_of_floats(expr: Any, because: str) -> None:
    found = graph(expr)
    (choice,) = multiply_activations(found, TYPES["unsigned"], _any, _fast)
    assert choice.reason == because
    assert found.calls()[-1].outputs[0].dtype == "float32"


def test_kernels_and_times_are_asked_for() -> None:
    seen = []

    def slower(graph: Any, node: Any, data: QuantizedData) -> str:
        seen.append(data)
        return "floats are faster"

    for why_not, reason in ((_any, "floats are faster"), (lambda node: "no kernel", "no kernel")):
        found = graph(_batch(("uint8", 7), ("int8", 0)))
        (choice,) = multiply_activations(found, TYPES["unsigned"], why_not, slower)
        assert choice.reason == reason
    assert seen == [QuantizedData("uint8", 7)]


def test_sides_that_are_no_integers(caplog: pytest.LogCaptureFixture) -> None:
    floats = relay.nn.batch_matmul(
        var("x", 2, 3, 8), _dequantized("y", "int8", 0, RIGHT_SCALE, 2, 5, 8)
    )
    found = graph(floats)
    with caplog.at_level("DEBUG", "tvm_fusionx.rewrite.quantized_pairs"):
        assert multiply_activations(found, TYPES["unsigned"], _any, _fast) == []
    assert "its left side is not dequantized" in caplog.text
    scales = relay.const(np.full(8, 0.5, "float32"))
    zeros = relay.const(np.zeros(8, "int32"))
    rows = relay.qnn.op.dequantize(var("x", 3, 8, dtype="uint8"), scales, zeros)
    many = relay.nn.dense(rows, _dequantized("y", "int8", 0, RIGHT_SCALE, 5, 8))
    with pytest.raises(NoIntegersError, match="a scale for each channel"):
        sides_of(graph(many).calls()[-1])
