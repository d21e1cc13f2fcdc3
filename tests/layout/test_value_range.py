"""What a block gives lies between numbers that its operators tell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.passes.assert_pass import block
from tests.relay_modules import module, var
from tvm_fusionx.layout.value_range import ValueRanges, largest_in

X = var("x", 2, 3)


def _stored(value: Any) -> Any:
    return relay.cast(
        relay.minimum(relay.const(9.0), relay.maximum(relay.const(-7.0), value)), "float16"
    )


@pytest.mark.parametrize(
    ("body", "largest"),
    [
        (relay.clip(X, 0, 6), 6),
        (relay.cast(relay.clip(X, -8, 6), "float16"), 8),
        (_stored(X), 9),
        (_stored(relay.nn.relu(relay.clip(X, -8, 6))), 6),
        (relay.minimum(relay.sigmoid(X), relay.const(0.25)), 0.25),
        (relay.tanh(X), 1),
        (relay.reshape(relay.nn.softmax(X), (6,)), 1),
        (relay.nn.relu(X), math.inf),
        (relay.minimum(X, relay.const(1.0)), math.inf),
        (relay.minimum(X, X), math.inf),
        (relay.clip(X, 0, 6) + X, math.inf),
        (relay.clip(X, 0, 6) + relay.clip(X, -9, 1), 9),
        (relay.exp(X), math.inf),
        (relay.maximum(relay.clip(X, 0, 6), relay.const(float("nan"))), math.inf),
    ],
)
def test_the_largest_number_of_a_block(body: Any, largest: float) -> None:
    assert _largest(block("a", [X], body)) == pytest.approx(largest, rel=SLACK)


# What a range is wider than it need be, for numbers that are rounded on the way.
SLACK = 0.2


def _largest(function: relay.Function, index: int = 0) -> float:
    call = module(function(var("y", 2, 3)))["main"].body
    ranges = ValueRanges()
    ranges.add(call)
    result = call if index == 0 else relay.TupleGetItem(call, index)
    return largest_in(ranges.of(result))


def test_results_are_told_apart() -> None:
    body = relay.Tuple([relay.tanh(X), relay.clip(X, 0, 6)])
    assert [_largest(block("a", [X], body), each) for each in range(2)] == [1, 6]


def test_of_an_input_nothing_is_known_and_of_a_constant_all() -> None:
    assert ValueRanges().of(X) == (-math.inf, math.inf)
    assert ValueRanges().of(relay.const(np.float32([1, -5]))) == (-5, 1)
    assert ValueRanges().of(relay.const(np.float32([1, np.inf]))) == (-math.inf, math.inf)


@pytest.mark.parametrize("seed", range(3))
def test_no_sum_of_products_leaves_its_range(seed: int) -> None:
    generator = np.random.default_rng(seed)
    weights = generator.standard_normal((2, 1, 1, 1, 8, 8)).astype("float32")
    bias = generator.standard_normal((1, 2, 1, 1, 8)).astype("float32")
    q, w, b = var("q", 1, 1, 3, 3, 8), var("w", *weights.shape), var("b", *bias.shape)
    made = relay.nn.contrib_conv2d_nchwc(
        relay.clip(q, -2, 6), w, (1, 1), (0,) * 4, (1, 1), 1, 16, (1, 1),
        "NCHW8c", "OIHW8i8o", "NCHW8c",
    )  # fmt: skip
    data = var("x", 1, 1, 3, 3, 8)
    function = block("a", [q, w, b], made + b)
    call = module(function(data, relay.const(weights), relay.const(bias)))["main"].body
    ranges = ValueRanges()
    ranges.add(call)
    # The worst operands: each of its weight's sign, for each channel of the result.
    rows = np.moveaxis(weights.astype("float64"), -1, 1).reshape(16, 8)
    least = np.minimum(rows * 6, rows * -2).sum(axis=1) + bias.ravel()
    most = np.maximum(rows * 6, rows * -2).sum(axis=1) + bias.ravel()
    low, high = ranges.of(call)
    assert low <= least.min()
    assert most.max() <= high <= 4 * most.max()


def test_no_sum_of_a_matrix_product_leaves_its_range() -> None:
    weights = np.random.default_rng(0).standard_normal((2, 5, 8)).astype("float32")
    q, w = var("q", 3, 5), var("w", *weights.shape)
    made = relay.nn.contrib_dense_pack(relay.clip(q, -2, 6), w, weight_layout="NC8n")
    call = module(block("a", [q, w], made)(var("x", 3, 5), relay.const(weights)))["main"].body
    ranges = ValueRanges()
    ranges.add(call)
    heaviest = 6 * np.abs(weights).sum(axis=1).max()
    assert heaviest <= largest_in(ranges.of(call)) <= (1 + SLACK) * heaviest
