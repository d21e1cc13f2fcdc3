"""Biases of whole steps begin sums of integers; others stay floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph
from tvm_fusionx.ecg.graph import Graph
from tvm_fusionx.ecg.numpy_operators import evaluate
from tvm_fusionx.rewrite.integer_bias import biases_into_sums

CHANNELS, INPUTS = 6, 5
SCALES = np.linspace(0.001, 0.02, CHANNELS).astype("float32")
STEPS = np.array([0, 1, -7, 1000, -123456, 3_000_000])
DATA = np.random.default_rng(0).integers(0, 256, (3, INPUTS)).astype("uint8")
EXCESS = np.arange(CHANNELS, dtype="int32") * 31 - 40


def _product(
    bias: np.ndarray, *, excess: bool = True, weight: int = 127, scales: np.ndarray = SCALES
) -> Any:
    x = relay.var("x", shape=(3, INPUTS), dtype="uint8")
    weights = np.full((CHANNELS, INPUTS), weight, "int8")
    total = relay.nn.dense(x, relay.const(weights), out_dtype="int32")
    if excess:
        total = relay.subtract(total, relay.const(EXCESS))
    scaled = relay.multiply(relay.cast(total, "float32"), relay.const(scales))
    return relay.add(scaled, relay.const(bias))


def _value(found: Graph) -> np.ndarray:
    """Return the result of a graph of one input, by numpy."""
    values: dict[Any, np.ndarray] = {}
    for node in found.topological():
        if node.op == "input":
            values[node[0]] = DATA
        elif node.op == "constant":
            values[node[0]] = node[0].array
        elif node.op == "nn.dense":
            left, right = (values[each].astype("int64") for each in node.operands)
            values[node[0]] = (left @ right.T).astype("int32")
        else:
            values[node[0]] = evaluate(node, [values[each] for each in node.operands])[0]
    return values[found.outputs[0]]


@pytest.mark.parametrize("excess", [True, False])
def test_whole_steps_begin_the_sum(excess: bool) -> None:
    bias = STEPS.astype("float32") * SCALES
    found = graph(_product(bias, excess=excess))
    assert biases_into_sums(found) == 1
    assert [node.op for node in found.calls()] == ["nn.dense", "subtract", "cast", "multiply"]
    excess_of_sum = found.calls()[1].operands[1].array
    assert np.array_equal(excess_of_sum, (EXCESS if excess else 0) - STEPS)
    # Exact but for the roundings of a sum to floats and of one product.
    sums = DATA.astype("int64") @ np.full((INPUTS, CHANNELS), 127) - excess_of_sum
    np.testing.assert_allclose(_value(found), sums * SCALES.astype("float64"), rtol=2.0**-23)
    assert biases_into_sums(found) == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"bias": (STEPS + 0.25).astype("float32") * SCALES},
        {"bias": np.full(CHANNELS, np.inf, "float32")},
        {"bias": (STEPS.astype("float32") * SCALES), "scales": -SCALES},
        # One sum of this and what the product may add does not fit 32 bits.
        {"bias": np.float32(2.0**31 - 1000) * SCALES},
        {"bias": (STEPS.astype("float32") * SCALES)[None, None]},
    ],
    ids=["no whole steps", "infinite", "negative scale", "too large", "more axes"],
)
def test_other_biases_stay(changed: dict[str, Any]) -> None:
    found = graph(_product(**changed))
    before = [node.op for node in found.calls()]
    assert biases_into_sums(found) == 0
    assert [node.op for node in found.calls()] == before


def test_what_another_reads_stays() -> None:
    bias = relay.const(STEPS.astype("float32") * SCALES)
    x = relay.var("x", shape=(3, INPUTS), dtype="uint8")
    weights = relay.const(np.ones((CHANNELS, INPUTS), "int8"))
    total = relay.nn.dense(x, weights, out_dtype="int32")
    scaled = relay.multiply(relay.cast(total, "float32"), relay.const(SCALES))
    found = graph(relay.multiply(relay.add(scaled, bias), scaled))
    assert biases_into_sums(found) == 0
