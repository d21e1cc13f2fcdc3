from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.ecg import Value
from tvm_fusionx.rewrite.conditions import (
    constants,
    is_non_negative,
    negative,
    non_negative,
    nonzero,
    positive,
    same_shape,
    scalars,
    smaller,
    unreduced,
    why_not_varying,
)
from tvm_fusionx.rewrite.matching import Match, find_matches
from tvm_fusionx.rewrite.term import Term, op, variable

x, y = var("x", 4, 8), var("y", 4, 8)


def _value(expr: relay.Expr) -> Value:
    return graph(expr).outputs[0]


def _match(pattern: Term, expr: relay.Expr) -> Match:
    found = graph(expr)
    return next(find_matches(found, pattern, found.outputs[0]))


NON_NEGATIVE: dict[str, Callable[[], relay.Expr]] = {
    "absolute value": lambda: relay.abs(x),
    "sum of squares": lambda: relay.sum(x * x, axis=1) + relay.const(1e-5),
    "maximum of both": lambda: relay.maximum(relay.abs(x), relay.nn.relu(y)),
}
UNKNOWN: dict[str, Callable[[], relay.Expr]] = {
    "input": lambda: x,
    "difference": lambda: relay.abs(x) - relay.abs(y),
    "negative constant": lambda: relay.abs(x) + relay.const(-1.0),
}


@pytest.mark.parametrize("kind", NON_NEGATIVE)
def test_never_negative(kind: str) -> None:
    value = _value(NON_NEGATIVE[kind]())
    assert is_non_negative(value)
    assert non_negative("a")(a=value) is None


@pytest.mark.parametrize("kind", UNKNOWN)
def test_maybe_negative(kind: str) -> None:
    value = _value(UNKNOWN[kind]())
    assert not is_non_negative(value)
    assert non_negative("a")(a=value) == "an operand may be negative"


def test_signs() -> None:
    zero, above = relay.abs(x), relay.abs(x) + relay.const(1.0)
    assert positive("a")(a=_value(above)) is None
    assert positive("a")(a=_value(zero)) == "an operand may be zero or negative"
    assert negative("a")(a=_value(-above)) is None
    assert negative("a")(a=_value(-zero)) == "an operand may be zero or positive"


def test_a_condition_takes_the_variables_it_names() -> None:
    condition = constants("k", "m")
    assert list(inspect.signature(condition).parameters) == ["k", "m"]
    number, real = _value(relay.const(2.0)), _value(x)
    assert condition(k=number, m=number) is None
    assert condition(k=number, m=real) == "an operand is not a constant"


def test_a_factor_must_be_one_known_number() -> None:
    condition = scalars("s")
    wide = _value(relay.const(np.ones(8, "float32")))
    deep = _value(relay.const(np.ones((1, 1, 1), "float32")))
    assert condition(s=_value(relay.const(2.0))) is None
    assert condition(s=_value(x)) == "the factor is not a constant"
    assert condition(s=wide) == "the factor has 8 elements"
    assert condition(s=deep) == "the factor has axes of its own"


def test_constants_without_zeros() -> None:
    condition = nonzero("k")
    assert condition(k=_value(relay.const(2.0))) is None
    assert condition(k=_value(relay.const(np.array([1.0, 0.0])))) == "an operand has zeros"
    assert condition(k=_value(x)) == "an operand is not a constant"


def test_shapes() -> None:
    row, whole = _value(var("row", 8)), _value(x)
    assert same_shape("a", "b")(a=whole, b=whole) is None
    assert same_shape("a", "b")(a=whole, b=row) == "the shapes [(4, 8), (8,)] differ"
    assert smaller("s", "a")(s=row, a=whole) is None
    assert smaller("s", "a")(s=whole, a=whole) == "s has no fewer elements than a"


def test_constant_along_the_reduced_axes() -> None:
    match = _match(op.sum(variable("a")), relay.sum(x, axis=1))
    condition = unreduced("s", "x")
    data = match.values["a"]
    assert condition(s=_value(var("s", 4, 1)), x=data, match=match) is None
    assert condition(s=_value(var("s", 8)), x=data, match=match) == (
        "s varies along the reduced axes [1]"
    )
    assert condition(s=data, x=_value(var("row", 8)), match=match) == (
        "x is broadcast before it is reduced"
    )


def test_constant_along_the_axis_of_a_softmax() -> None:
    match = _match(op.nn.softmax(variable("a")), relay.nn.softmax(x, axis=-1))
    data = match.values["a"]
    assert why_not_varying(data, _value(var("s", 4, 1)), match) is None
    assert why_not_varying(data, _value(var("s", 8)), match) == "the summand varies along the axis"
    row = _value(var("row", 8))
    assert why_not_varying(row, data, match) == "the summand makes it larger"
