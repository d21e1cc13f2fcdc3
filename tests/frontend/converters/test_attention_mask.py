from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import module, run_plain
from tvm_fusionx.frontend.converters.attention_mask import Mask, at_least, at_most, causal, window
from tvm_fusionx.frontend.values import constant

LOWEST = float(np.finfo("float32").min)


def _numbers(expr: Any, **inputs: Any) -> Any:
    """Return what an expression computes."""
    return run_plain(module(expr), inputs)[0]


def _given(**arrays: Any) -> list[Any]:
    return [relay.var(k, shape=v.shape, dtype=str(v.dtype)) for k, v in arrays.items()]


def test_a_mask_that_forbids_and_adds_nothing_is_none() -> None:
    mask = Mask()
    assert mask.is_empty
    mask.keep(np.ones((2, 3), bool))
    mask.add(np.zeros((3,), "float32"), "float32")
    assert mask.is_empty
    assert mask.bias("float32") is None
    assert mask.rows_with_a_key() is None


def test_what_is_known_becomes_one_constant() -> None:
    mask = Mask()
    mask.keep(causal(2, 3, 0))
    mask.add(np.array([1, 2, -np.inf], "float32"), "float32")
    bias = mask.bias("float32")
    assert isinstance(bias, relay.Constant)
    np.testing.assert_array_equal(bias.data.numpy(), [[1, LOWEST, LOWEST], [1, 2, LOWEST]])
    shown = mask.bias("float32", -np.inf)
    np.testing.assert_array_equal(shown.data.numpy(), [[1, -np.inf, -np.inf], [1, 2, -np.inf]])
    assert mask.rows_with_a_key() is None


def test_a_row_without_a_key_is_found_while_compiling() -> None:
    mask = Mask()
    mask.keep(causal(2, 3, -1))
    seen = mask.rows_with_a_key()
    np.testing.assert_array_equal(seen.data.numpy(), [[False], [True]])


def test_computed_and_known_masks_combine() -> None:
    allowed = np.array([[True, True, False], [False, False, True]])
    added = np.array([[5, -np.inf, 7], [1, 1, 1]], "float32")
    keep, bias = _given(allowed=allowed, added=added)
    mask = Mask()
    mask.keep(keep)
    mask.add(bias, "float32")
    mask.keep(causal(2, 3, 0))
    mask.add(np.array([1, 1, 1], "float32"), "float32")
    feeds = {"allowed": allowed, "added": added}
    found = _numbers(mask.bias("float32"), **feeds)
    np.testing.assert_array_equal(found, [[6, LOWEST, LOWEST], [LOWEST, LOWEST, LOWEST]])
    shown = _numbers(mask.bias("float32", -np.inf), **feeds)
    np.testing.assert_array_equal(shown, [[6, -np.inf, -np.inf], [-np.inf] * 3])
    seen = _numbers(mask.rows_with_a_key(), **feeds)
    np.testing.assert_array_equal(seen, [[True], [False]])


def test_sums_of_biases_stay_finite() -> None:
    added = np.array([-np.inf, LOWEST, 0], "float32")
    (bias,) = _given(added=added)
    mask = Mask()
    mask.add(bias, "float32")
    mask.keep(np.array([False, False, True]))
    assert np.isfinite(_numbers(mask.bias("float32"), added=added)).all()


def test_two_computed_biases_are_added() -> None:
    added = np.array([1, 2], "float16")
    more = np.array([3, -np.inf], "float32")
    first, second = _given(added=added, more=more)
    mask = Mask()
    mask.add(second, "float32")
    mask.add(first, "float16")
    found = _numbers(mask.bias("float32"), added=added, more=more)
    np.testing.assert_array_equal(found, [4, LOWEST])


def test_another_filter_value() -> None:
    mask = Mask(filter_value=-10000.0)
    mask.keep(np.array([True, False]))
    np.testing.assert_array_equal(mask.bias("float32").data.numpy(), [0, -10000])


@pytest.mark.parametrize("offset", [0, 2, -1])
def test_causal_masks_count_from_the_offset(offset: int) -> None:
    expected = [[j <= i + offset for j in range(4)] for i in range(3)]
    np.testing.assert_array_equal(causal(3, 4, offset), expected)
    lengths = np.array([offset, 1]).reshape(2, 1, 1, 1)
    (given,) = _given(lengths=lengths)
    found = _numbers(causal(3, 4, given), lengths=lengths)
    np.testing.assert_array_equal(found[0, 0], expected)
    np.testing.assert_array_equal(found, causal(3, 4, lengths))


def test_windows_are_bounded_on_either_side() -> None:
    assert window(3, 4, 0, -1, -1) == []
    before, after = window(3, 4, 1, 1, 0)
    np.testing.assert_array_equal(before, [[j >= i for j in range(4)] for i in range(3)])
    np.testing.assert_array_equal(after, [[j <= i + 1 for j in range(4)] for i in range(3)])


def test_limits_of_known_and_computed_numbers_agree() -> None:
    limit = np.array([1, 2, 3])
    for compare in (at_least, at_most):
        found = _numbers(compare(constant(np.int64(2)), limit))
        np.testing.assert_array_equal(found, compare(2, limit))
