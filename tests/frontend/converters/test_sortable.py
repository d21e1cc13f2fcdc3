from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_fusionx as fx
from tests.frontend.onnx_nodes import Case, ints, model_of, run
from tests.relay_modules import TARGET
from tvm_fusionx.frontend.converters.sortable import SORTABLE, WIDER, can_sort

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
K = 4


def _with_ends(dtype: str) -> Any:
    """Return integers of the whole range, both ends and equal ones among them."""
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    x = rng.integers(limits.min, limits.max, (3, 7), dtype, endpoint=True)
    x[0, 2], x[0, 5], x[1, 3] = limits.max, limits.min, x[1, 6]
    return x


def test_the_best_of_integers_of_every_type() -> None:
    cases, expected = [], []
    for dtype in INTEGERS:
        for largest in (0, 1):
            x = _with_ends(dtype)
            cases.append(Case("TopK", [x, ints(K)], {"largest": largest}, known=[1], outputs=2))
            # Python's integers do not wrap; of equal ones the first comes first.
            sign = -1 if largest else 1
            order = [sorted(range(7), key=lambda i: (sign * int(row[i]), i))[:K] for row in x]
            expected += [np.take_along_axis(x, np.array(order), 1), np.array(order)]
    for found, wanted in zip(run(*model_of(cases)), expected, strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_types_without_an_order_of_theirs_have_a_wider_one() -> None:
    assert all(can_sort(dtype) for dtype in [*INTEGERS, *SORTABLE, *WIDER])
    assert all(np.can_cast(narrow, wide) for narrow, wide in WIDER.items())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_nan_takes_no_other_value_away(dtype: str) -> None:
    x = np.array([3, np.nan, -np.inf, 1, np.nan, -0.0, 0, -2, np.inf, -1, 3], dtype)
    x[4] = -x[4]
    model, feeds = model_of([Case("Unique", [x], outputs=4)])
    mod, params = fx.from_onnx(model)
    found = fx.build(mod, TARGET, params=params).run(**feeds)
    values, firsts, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    assert found[0].dtype == dtype
    for one, other in zip(found, (values, firsts, inverse, counts), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_each_value_of_64_bits_without_a_sign_once() -> None:
    x = np.array([2**63, 1, 2**64 - 1, 1, 2**63, 0], "uint64")
    model, feeds = model_of([Case("Unique", [x])])
    mod, params = fx.from_onnx(model)
    (found,) = fx.build(mod, TARGET, params=params).run(**feeds)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, np.unique(x))
