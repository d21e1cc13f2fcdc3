from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.ecg import Value
from tvm_fusionx.rewrite.conditions import (
    is_non_negative,
    why_not_both_constant,
    why_not_float,
    why_not_float_constants,
    why_not_float_scalar,
    why_not_non_negative,
    why_not_scalar,
)

x, y = var("x", 4, 8), var("y", 4, 8)
CHAIN = 20


def _value(expr: relay.Expr) -> Value:
    return graph(expr).outputs[0]


def _deep(expr: relay.Expr) -> relay.Expr:
    for _ in range(CHAIN):
        expr = relay.reshape(relay.reshape(expr, (32,)), (4, 8)) + relay.abs(x)
    return expr


NON_NEGATIVE: dict[str, Callable[[], relay.Expr]] = {
    "absolute value": lambda: relay.abs(x),
    "square": lambda: x * x,
    "sum of squares": lambda: relay.sum(x * x, axis=1) + relay.const(1e-5),
    "variance": lambda: relay.variance(x, axis=1),
    "constant": lambda: relay.const(np.array([0.0, 2.0], "float32")),
    "moved": lambda: relay.transpose(relay.reshape(relay.exp(x), (8, 4))),
    "maximum of both": lambda: relay.maximum(relay.abs(x), relay.nn.relu(y)),
}
UNKNOWN: dict[str, Callable[[], relay.Expr]] = {
    "input": lambda: x,
    "product of two": lambda: x * y,
    "difference": lambda: relay.abs(x) - relay.abs(y),
    "negative constant": lambda: relay.abs(x) + relay.const(-1.0),
    "one operand unknown": lambda: relay.abs(x) + y,
    "further back than is looked": lambda: _deep(relay.abs(x)),
}


@pytest.mark.parametrize("kind", NON_NEGATIVE)
def test_never_negative(kind: str) -> None:
    value = _value(NON_NEGATIVE[kind]())
    assert is_non_negative(value)
    assert why_not_non_negative(value, value) is None


@pytest.mark.parametrize("kind", UNKNOWN)
def test_maybe_negative(kind: str) -> None:
    value = _value(UNKNOWN[kind]())
    assert not is_non_negative(value)
    assert why_not_non_negative(value, value) == "the operand of the square root may be negative"


def test_integers_wrap_around() -> None:
    whole, real = _value(var("n", 4, dtype="int32")), _value(x)
    number = _value(relay.const(2))
    assert why_not_float(real) is None
    assert why_not_float(whole) == "int32 wraps around"
    assert why_not_float_scalar(whole, number) == "int32 wraps around"
    assert why_not_float_constants(whole, number, number) == "int32 wraps around"


def test_a_factor_must_be_one_known_number() -> None:
    real, number = _value(x), _value(relay.const(2.0))
    wide = _value(relay.const(np.ones(8, "float32")))
    deep = _value(relay.const(np.ones((1, 1, 1), "float32")))
    assert why_not_scalar(number) is None
    assert why_not_float_scalar(real, number) is None
    assert why_not_scalar(real) == "the factor is not a constant"
    assert why_not_scalar(wide) == "the factor has 8 elements"
    assert why_not_float_scalar(real, deep) == "the factor has more axes than what it scales"


def test_both_must_be_known() -> None:
    real, number = _value(x), _value(relay.const(2.0))
    assert why_not_both_constant(number, number) is None
    assert why_not_both_constant(number, real) == "an operand is not a constant"
    assert why_not_float_constants(real, number, number) is None
