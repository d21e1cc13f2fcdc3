from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import tir

from tvm_fusionx.tir.enumerated import NotKnownError, evaluated

X, Y = tir.Var("x", "int32"), tir.Var("y", "int32")
VALUES = {X: np.arange(-6, 7), Y: np.array([3, -2, 1, 5, -1, 2, 7, -3, 4, 1, 2, -5, 6])}


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (tir.truncdiv(X, tir.const(4, "int32")), [-1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1]),
        (tir.truncmod(X, tir.const(4, "int32")), [-2, -1, 0, -3, -2, -1, 0, 1, 2, 3, 0, 1, 2]),
        (tir.floordiv(X, tir.const(4, "int32")), [-2, -2, -1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1]),
        (tir.floormod(X, tir.const(4, "int32")), [2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2]),
        (tir.bitwise_and(X, tir.const(3, "int32")), [2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2]),
        (tir.shift_right(X, tir.const(1, "int32")), [-3, -3, -2, -2, -1, -1, 0, 0, 1, 1, 2, 2, 3]),
        (tir.Select(X < 0, tir.const(1, "int32"), Y), [1] * 6 + [7, -3, 4, 1, 2, -5, 6]),
        (tir.likely(tir.And(X > 2, tir.Not(X == 5))), [0] * 9 + [1, 1, 0, 1]),
        (tir.max(tir.min(X, Y), tir.Cast("int32", tir.Cast("int64", Y))), VALUES[Y].tolist()),
    ],
)
def test_one_number_an_iteration(expr: Any, expected: list[int]) -> None:
    assert evaluated(expr, VALUES).astype("int64").ravel().tolist() == expected


@given(st.integers(-50, 50), st.integers(1, 9))
def test_division_is_that_of_tensorir(one: int, two: int) -> None:
    values = {X: np.array([one]), Y: np.array([two])}
    quotient, rest = evaluated(tir.Div(X, Y), values), evaluated(tir.Mod(X, Y), values)
    assert (quotient.item(), rest.item()) == (int(one / two), one - int(one / two) * two)


def test_a_vector_has_lanes() -> None:
    ramp = tir.Ramp(X * 4, tir.const(2, "int32"), 3) + tir.Broadcast(Y, 3)
    found = evaluated(ramp, {X: np.array([0, 1]), Y: np.array([10, 20])})
    assert found.tolist() == [[10, 12, 14], [24, 26, 28]]


def test_what_depends_on_more_is_told() -> None:
    buffer = tir.decl_buffer((4,), "int32")
    for expr in (
        tir.BufferLoad(buffer, [X]),
        tir.Var("z", "int32"),
        tir.call_extern("int32", "f", X),
        tir.truncdiv(X, X),
        tir.Cast("int8", X),
        tir.const(1.0, "float32"),
    ):
        with pytest.raises(NotKnownError):
            evaluated(expr, VALUES)
