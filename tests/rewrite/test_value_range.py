from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tests.rewrite.rule_examples import draw, evaluate
from tvm_fusionx.ecg import Value
from tvm_fusionx.rewrite.value_range import MONOTONE, Range, range_of

x, y = var("x", 4, 8), var("y", 4, 8)
n = var("n", 4, 8, dtype="int8")
CHAIN = 60


def _value(expr: relay.Expr) -> Value:
    return graph(expr).outputs[0]


def _deep(expr: relay.Expr) -> relay.Expr:
    for _ in range(CHAIN):
        expr = relay.reshape(relay.reshape(expr, (32,)), (4, 8)) + relay.abs(x)
    return expr


BOUNDS: dict[str, tuple[Callable[[], relay.Expr], float, float]] = {
    "input": (lambda: x, -math.inf, math.inf),
    "constant": (lambda: relay.const(np.array([-1.0, 2.0], "float32")), -1, 2),
    "absolute value": (lambda: relay.abs(x), 0, math.inf),
    "square": (lambda: x * x, 0, math.inf),
    "product": (lambda: x * y, -math.inf, math.inf),
    "sigmoid": (lambda: relay.sigmoid(x), 0, 1),
    "tanh": (lambda: relay.tanh(x), -1, 1),
    "scaled": (lambda: relay.sigmoid(x) * relay.const(-2.0), -2, 0),
    "shifted": (lambda: relay.sigmoid(x) + relay.const(1.0), 1, 2),
    "difference": (lambda: relay.sigmoid(x) - relay.sigmoid(y), -1, 1),
    "quotient": (lambda: relay.const(1.0) / (relay.sigmoid(x) + relay.const(1.0)), 0.5, 1),
    "quotient by zero": (lambda: relay.abs(x) / relay.abs(y), 0, math.inf),
    "quotient of any": (lambda: x / y, -math.inf, math.inf),
    "sum": (lambda: relay.sum(relay.sigmoid(x), axis=1), 0, 8),
    "mean": (lambda: relay.mean(relay.sigmoid(x), axis=1), 0, 1),
    "variance": (lambda: relay.variance(x, axis=1), 0, math.inf),
    "clip": (lambda: relay.clip(x, -1.0, 3.0), -1, 3),
    "clip of relu": (lambda: relay.clip(relay.nn.relu(x), -1.0, 3.0), 0, 3),
    "maximum": (lambda: relay.maximum(x, relay.const(0.5)), 0.5, math.inf),
    "minimum": (lambda: relay.minimum(relay.abs(x), relay.const(0.5)), 0, 0.5),
    "negative": (lambda: -relay.abs(x), -math.inf, 0),
    "softmax": (lambda: relay.nn.softmax(x), 0, 1),
    "joined": (lambda: relay.concatenate([relay.sigmoid(x), relay.tanh(y)], 0), -1, 1),
    "moved": (lambda: relay.transpose(relay.reshape(relay.exp(x), (8, 4))), 0, math.inf),
    "chosen": (lambda: relay.where(relay.less(x, y), relay.tanh(x), relay.sigmoid(y)), -1, 1),
    "taken": (lambda: relay.take(relay.sigmoid(x), relay.const([5, 1]), axis=0), 0, 1),
    "power": (lambda: relay.power(relay.abs(x), relay.const(2.5)), 0, math.inf),
    "unknown operator": (lambda: relay.cumsum(relay.abs(x)), -math.inf, math.inf),
    "whole numbers": (lambda: n, -128, 127),
    "whole numbers, cast": (lambda: relay.cast(n, "float32") * relay.const(0.5), -64, 63.5),
    "numbers, cast to whole ones": (
        lambda: relay.cast(relay.tanh(x) * relay.const(3.5), "int32"),
        -3,
        3,
    ),
    "truth": (lambda: relay.less(x, y), 0, 1),
    "truth, cast": (lambda: relay.const(1.0) - relay.cast(relay.less(x, y), "float32"), 0, 1),
    "absolute value that wraps around": (lambda: relay.abs(n), -128, 127),
    "sum that wraps around": (lambda: n + n, -128, 127),
    "cast that rounds to zero": (
        lambda: relay.cast(relay.maximum(x, relay.const(1e-10)), "float16"),
        0,
        math.inf,
    ),
    "cast that does not fit": (lambda: relay.cast(relay.exp(x), "int8"), -128, 127),
    "further back than is looked": (lambda: _deep(relay.abs(x)), -math.inf, math.inf),
}


@pytest.mark.parametrize("case", BOUNDS)
def test_bounds(case: str) -> None:
    make, low, high = BOUNDS[case]
    found = range_of(_value(make()))
    assert (found.low, found.high) == pytest.approx((low, high))


@pytest.mark.parametrize("case", [case for case in BOUNDS if case != "unknown operator"])
def test_bounds_hold_for_numbers(case: str) -> None:
    found = graph(BOUNDS[case][0]())
    known = range_of(found.outputs[0])
    (result,) = evaluate(found, draw(found))
    # Rounding may leave the bounds by a bit.
    assert np.all(result >= known.low - abs(known.low) * 1e-6)
    assert np.all(result <= known.high + abs(known.high) * 1e-6)


def test_only_what_cannot_be_nan_is_finite() -> None:
    number = relay.const(2.0)
    assert range_of(_value(relay.exp(number) * const(8))).is_finite
    assert not range_of(_value(relay.sigmoid(x))).is_finite
    assert not range_of(_value(relay.const(np.inf))).is_finite
    assert range_of(_value(relay.exp(relay.cast(n, "float64")))).is_finite
    assert not range_of(_value(relay.exp(relay.cast(n, "float32")))).is_finite
    assert not range_of(_value(relay.cast(x, "bfloat16"))).is_finite


def test_an_infinite_or_undefined_constant() -> None:
    found = range_of(_value(relay.const(np.array([np.nan, 1.0, -2.0], "float32"))))
    assert (found.low, found.high, found.is_finite) == (-2, 1, False)
    nothing = range_of(_value(relay.const(np.array([np.nan], "float32"))))
    assert nothing == Range()


def test_signs() -> None:
    assert Range(0.0).is_non_negative
    assert not Range(0.0).is_positive
    assert Range(0.5, 2.0).is_positive
    assert Range(-2.0, -0.5).is_negative
    assert Range(-2.0, 2.0).is_bounded
    assert not Range(-2.0).is_bounded
    assert Range(0, 1, True).hull(Range(-1, 0.5, True)) == Range(-1, 1, True)


@pytest.mark.parametrize("name", MONOTONE)
def test_monotone_functions_never_fall(name: str) -> None:
    points = [-math.inf, -1e3, -2.5, -0.5, 0.0, 0.5, 2.5, 1e3, math.inf]
    values = [MONOTONE[name](point) for point in points]
    assert values == sorted(values)
