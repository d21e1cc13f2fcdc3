from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.compress.quantize.affine import affine_of
from tvm_fusionx.compress.quantize.histogram import BINS, Histogram
from tvm_fusionx.compress.quantize.ranges import (
    METHODS,
    divergence,
    entropy_range,
    minmax_range,
    mse_range,
    percentile_range,
    squared_error,
)


def _histogram(values: np.ndarray) -> Histogram:
    histogram = Histogram()
    histogram.add(values.astype("float32"))
    return histogram


def _normal(count: int = 200_000) -> np.ndarray:
    return np.random.default_rng(2).normal(size=count).astype("float32")


def _with_outliers() -> np.ndarray:
    values = _normal()
    values[:3] = 100, -90, 80
    return values


def test_minmax_holds_zero() -> None:
    assert minmax_range(_histogram(np.array([2.0, 5.0]))) == (0, 5)
    assert minmax_range(_histogram(np.array([-2.0, -1.0]))) == (-2, 0)


@pytest.mark.parametrize("percentile", [90.0, 99.0, 99.9])
def test_percentiles_are_numpys_to_a_bin(percentile: float) -> None:
    values = _normal()
    histogram = _histogram(values)
    low, high = percentile_range(histogram, percentile)
    half = (100 - percentile) / 200
    width = 2 * histogram.limit / BINS
    # Between two values of the tail lie several bins: the one above or below will do.
    near = [max(int(half * len(values)) + step, 0) for step in (-1, 0, 1)]
    ordered = np.sort(values)
    assert np.abs(ordered[near] - low).min() <= width
    assert np.abs(ordered[::-1][near] - high).min() <= width


def test_the_squared_error_is_that_of_rounding() -> None:
    values = _normal()
    histogram = _histogram(values)
    for bounds in ((-2.0, 2.0), (-4.0, 4.0), (-1.0, 3.0)):
        rounded = affine_of(bounds, "uint8").rounded(values)
        true = np.square(rounded - values).mean()
        assert squared_error(histogram, bounds) == pytest.approx(true, rel=0.05)


def test_the_least_squares_are_found() -> None:
    values = _with_outliers()
    histogram = _histogram(values)
    found = squared_error(histogram, mse_range(histogram))
    low, high = minmax_range(histogram)
    shares = np.linspace(0.01, 1, 60)
    tried = [squared_error(histogram, (low * a, high * b)) for a in shares for b in shares]
    assert found <= min(tried) * 1.05
    assert found < squared_error(histogram, (low, high))


def test_divergence_is_none_where_each_value_has_a_level() -> None:
    width = 2 / BINS
    values = 1 - (np.arange(256) + 0.5) * width
    histogram = _histogram(np.append(values, 1.0))
    assert histogram.limit == 1
    assert divergence(histogram, (1 - 256 * width, 1.0)) == pytest.approx(0, abs=1e-9)
    # Half of the values are clipped into the last of 128 bins, which then holds more than half.
    share = np.full(128, 1 / 257)
    share[-1] = 130 / 257
    told = np.full(128, 1 / 128)
    expected = (share * np.log(share / told)).sum()
    assert divergence(histogram, (1 - 256 * width, 1 - 128 * width)) == pytest.approx(expected)


def test_the_divergence_is_scipys_where_nothing_is_clipped() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = np.abs(_normal())
    histogram = _histogram(values)
    high = histogram.limit
    counts = histogram.counts[BINS // 2 :].astype(float)
    levels = counts.reshape(256, -1)
    holding = (levels > 0).sum(axis=1, keepdims=True)
    spread = np.where(levels > 0, levels.sum(axis=1, keepdims=True) / np.maximum(holding, 1), 0)
    used = counts > 0
    expected = stats.entropy(counts[used], spread.reshape(-1)[used])
    assert divergence(histogram, (0.0, high)) == pytest.approx(expected, rel=1e-6)


def test_entropy_and_percentile_cut_outliers_off() -> None:
    histogram = _histogram(_with_outliers())
    for find in (entropy_range, percentile_range):
        low, high = find(histogram)
        assert -20 < low < 0 < high < 20


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_tensor_of_zeros_has_no_range(name: str) -> None:
    assert METHODS[name](_histogram(np.zeros(9))) == (0, 0)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_what_a_relu_leaves_has_no_negative_side(name: str) -> None:
    low, high = METHODS[name](_histogram(np.maximum(_normal(), 0)))
    assert low == 0
    assert 1 < high < 6
