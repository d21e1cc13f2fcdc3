from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.compress.quantize.histogram import BINS, Histogram


@pytest.mark.parametrize("sizes", [(1.0, 1.0), (0.01, 30.0, 2.0), (5e4, 1e-3)])
def test_counts_are_numpys_of_all_the_data(sizes: tuple[float, ...]) -> None:
    generator = np.random.default_rng(0)
    parts = [(generator.normal(size=3000) * size).astype("float32") for size in sizes]
    parts[0][::7] = 0
    histogram = Histogram()
    for part in parts:
        histogram.add(part)
    everything = np.concatenate(parts)
    used = everything[everything != 0]
    counts, _ = np.histogram(used, BINS, (-histogram.limit, histogram.limit))
    assert (histogram.counts == counts).all()
    assert histogram.zeros == len(everything) - len(used)
    assert histogram.count == len(everything)
    assert (histogram.low, histogram.high) == (everything.min(), everything.max())


def test_at_least_a_quarter_of_the_bins_is_in_use() -> None:
    histogram = Histogram()
    for largest in (0.3, 7.0, 4.1):
        histogram.add(np.linspace(-largest, largest, 100_000, dtype="float32"))
    assert histogram.limit == 8
    assert (histogram.counts > 0).sum() > BINS / 4 * 3


def test_zeros_and_nothing() -> None:
    histogram = Histogram()
    histogram.add(np.zeros((0, 3)))
    histogram.add(np.zeros(5))
    assert (histogram.count, histogram.zeros, histogram.limit) == (5, 5, 0)
    histogram.add(np.full(2, -4.0))
    assert (histogram.low, histogram.high) == (-4, 0)
    assert histogram.counts[0] == 2
