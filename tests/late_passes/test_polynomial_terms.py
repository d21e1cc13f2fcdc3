"""Sums of powers give what numpy's do, whichever way they are added."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tir

from tests.late_passes.test_polynomials import values
from tvm_fusionx.late_passes.polynomial_terms import (
    bits_of,
    constant,
    estrin,
    horner,
    integer_type,
    or_nan,
)

X = np.linspace(-2, 2, 41, dtype="float32")


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7])
def test_both_schemes_are_the_polynomial(count: int) -> None:
    coefficients = [0.5 - place for place in range(count)]
    expected = np.polyval(coefficients, X.astype("float64"))
    for scheme in (
        lambda x, hold: estrin(coefficients, x, hold),
        lambda x, _: horner(coefficients, x),
    ):
        np.testing.assert_allclose(values(scheme, X), expected, rtol=1e-5, atol=1e-5)


def test_bits_and_back_are_the_number() -> None:
    found = values(lambda x, _: tir.reinterpret("float32", bits_of(x)), X)
    np.testing.assert_array_equal(found, X)
    assert integer_type("float32x4") == "int32x4"
    assert integer_type("float32") == "int32"


def test_what_is_no_number_is_chosen_by_a_comparison_with_itself() -> None:
    # TVM's simplifier would take it away: the passes that write it run behind.
    x = tir.Var("x", "float32")
    chosen = or_nan(x, constant(3.0, x))
    assert chosen.condition.a.same_as(x)
    assert chosen.condition.b.same_as(x)
    assert (chosen.true_value.value, chosen.false_value) == (3.0, x)
