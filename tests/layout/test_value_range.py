"""What a block gives lies between numbers that its operators tell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.passes.assert_pass import block
from tests.relay_modules import module, var
from tvm_fusionx.layout.value_range import largest_of

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
        (relay.maximum(relay.clip(X, 0, 6), relay.const(float("nan"))), math.inf),
    ],
)
def test_the_largest_number_of_a_block(body: Any, largest: float) -> None:
    call = module(block("a", [X], body)(var("y", 2, 3)))["main"].body
    assert largest_of(call) == largest


def test_results_are_told_apart() -> None:
    body = relay.Tuple([relay.tanh(X), relay.clip(X, 0, 6)])
    call = module(block("a", [X], body)(var("y", 2, 3)))["main"].body
    assert [largest_of(relay.TupleGetItem(call, each)) for each in range(2)] == [1, 6]


def test_of_an_input_nothing_is_known_and_of_a_constant_all() -> None:
    assert largest_of(X) == math.inf
    assert largest_of(relay.const(np.float32([1, -5]))) == 5
