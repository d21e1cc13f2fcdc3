from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.report.verify.difference import Difference, measure_difference, worst


def test_equal_arrays_do_not_differ() -> None:
    value = np.array([1.0, -2.0, np.inf, np.nan], "float32")
    found = measure_difference(value, value.copy())
    assert found.is_within(0.0)
    assert (found.max_abs, found.nans, found.infs, found.misplaced) == (0.0, 1, 1, 0)


def test_the_relative_difference_is_relative_to_the_largest_reference() -> None:
    found = measure_difference(np.array([1.5, 100.0]), np.array([1.0, 100.0]))
    assert found.max_abs == 0.5
    assert found.max_rel == 0.005
    assert found.is_within(0.005)
    assert not found.is_within(0.004)


@pytest.mark.parametrize(
    ("computed", "reference"),
    [(np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0), (np.inf, -np.inf), (np.nan, np.inf)],
)
def test_a_value_that_is_not_finite_on_one_side_is_never_within(
    computed: float, reference: float
) -> None:
    found = measure_difference(np.array([computed]), np.array([reference]))
    assert found.misplaced == 1
    assert not found.is_within(1e9)


def test_integers_must_be_equal_even_where_float64_cannot_tell_them_apart() -> None:
    large = 2**60
    found = measure_difference(np.array([large + 1]), np.array([large]))
    assert found.exact
    assert not found.is_within(1.0)


def test_booleans_must_be_equal() -> None:
    assert measure_difference(np.array([True]), np.array([True])).is_within(0.0)
    assert not measure_difference(np.array([True]), np.array([False])).is_within(1e9)


@pytest.mark.parametrize(
    ("computed", "problem"),
    [(np.zeros((2, 1), "float32"), "shape"), (np.zeros(2, "float64"), "dtype")],
)
def test_another_shape_or_dtype_is_a_difference(computed: np.ndarray, problem: str) -> None:
    found = measure_difference(computed, np.zeros(2, "float32"))
    assert problem in found.problem
    assert not found.is_within(1e9)


def test_the_cosine_of_opposite_arrays_is_minus_one_and_of_zeros_one() -> None:
    assert measure_difference(np.ones(3), -np.ones(3)).cosine == pytest.approx(-1.0)
    assert measure_difference(np.zeros(3), np.zeros(3)).cosine == 1.0
    assert measure_difference(np.full(3, 1e300), np.full(3, 1e300)).cosine == pytest.approx(1.0)


def test_empty_arrays_do_not_differ() -> None:
    assert measure_difference(np.zeros((0, 3)), np.zeros((0, 3))).is_within(0.0)


def test_the_worst_is_the_incomparable_then_the_misplaced_then_the_largest() -> None:
    small, large = Difference(0, 0.1, 1, 0, 0, 0), Difference(0, 0.2, 1, 0, 0, 0)
    misplaced = Difference(0, 0, 1, 1, 0, 1)
    incomparable = Difference(0, 0, 1, 0, 0, 0, problem="shape")
    assert worst([small, large]) is large
    assert worst([small, misplaced, large]) is misplaced
    assert worst([incomparable, misplaced]) is incomparable
    assert worst([]).is_within(0.0)
