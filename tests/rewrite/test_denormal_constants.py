"""Denormal elements of constants become zeros; what has none is neither changed nor copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.rewrite.denormal_constants import (
    flush_constants,
    has_denormals,
    without_denormals,
)

SPECIAL = (0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan)
# More than one piece of what is looked at in one go.
MANY = 3 << 16


def _edges(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest and smallest denormals of both signs, and the smallest normal numbers."""
    facts = np.finfo(dtype)
    below = np.nextafter(facts.tiny, np.zeros(1, dtype))[0]
    denormal = [below, -below, facts.smallest_subnormal, -facts.smallest_subnormal]
    return np.array(denormal, dtype), np.array([facts.tiny, -facts.tiny], dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_denormals_alone_become_zeros_of_their_sign(dtype: str) -> None:
    denormal, smallest = _edges(dtype)
    others = np.concatenate([np.array(SPECIAL, dtype), smallest])
    found = without_denormals(np.concatenate([denormal, others]).reshape(1, -1))
    assert found.dtype == dtype
    assert found.shape == (1, len(denormal) + len(others))
    np.testing.assert_array_equal(found[0, :4], 0)
    np.testing.assert_array_equal(np.signbit(found[0, :4]), np.signbit(denormal))
    assert found[0, 4:].tobytes() == others.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("place", [0, 1, MANY // 2, MANY - 1])
def test_one_denormal_is_found_wherever_it_is(dtype: str, place: int) -> None:
    array = np.resize(np.array(SPECIAL, dtype), MANY)
    assert not has_denormals(array)
    for denormal in _edges(dtype)[0]:
        array[place] = denormal
        assert has_denormals(array)
        assert not has_denormals(without_denormals(array))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(0, "float32"),
        np.float32(2.0).reshape(()),
        np.full(4, 6e-8, "float16"),
        np.full(4, 3, "int32"),
        np.full(4, True),
    ],
    ids=["empty", "a scalar", "halves", "integers", "truth values"],
)
def test_other_arrays_have_none(array: np.ndarray) -> None:
    assert not has_denormals(array)


def test_an_array_that_is_not_in_one_piece_is_looked_at_as_well() -> None:
    array = np.ones((4, 6), "float32")
    array[3, 5] = 1e-40
    assert has_denormals(array.T)
    assert not has_denormals(array.T[:5])
    np.testing.assert_array_equal(without_denormals(array.T), np.where(array.T == 1, 1, 0))


def _constants(found: Any) -> list[np.ndarray]:
    return [node.payload for node in found.topological() if node.op == "constant"]


def test_constants_that_need_nothing_are_not_copied() -> None:
    weights = np.ones((4, 8), "float32")
    worn = np.full((4, 8), 1e-39, "float32")
    x = var("x", 2, 8)
    products = [relay.nn.dense(x, relay.const(each)) for each in (weights, worn)]
    found = graph(*products)
    kept = next(each for each in _constants(found) if each.all())
    assert flush_constants(found) == 1
    assert [each for each in _constants(found) if each is kept]
    assert sorted(float(each.max()) for each in _constants(found)) == [0.0, 1.0]
    assert flush_constants(found) == 0


def test_older_constants_can_be_left_out() -> None:
    found = graph(var("x", 4) * relay.const(np.full(4, 1e-39, "float32")))
    assert flush_constants(found, since=found.mark()) == 0
    assert flush_constants(found) == 1


def test_constants_that_become_equal_are_one() -> None:
    x = var("x", 4)
    worn = [relay.const(np.full(4, value, "float32")) for value in (1e-39, 2e-39)]
    found = graph(x * worn[0], x * worn[1])
    assert len(found.calls()) == 2
    assert flush_constants(found) == 2
    assert len(found.calls()) == 1
