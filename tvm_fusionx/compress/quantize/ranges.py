"""Ranges to quantise a tensor in, out of its histogram: four ways, none of which is always best."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvm_fusionx.compress.quantize.histogram import Histogram

Range = tuple[float, float]

LEVELS = 256

# Of the values, outside of the range: one in ten thousand, on both sides together.
PERCENTILE = 99.99

# Ranges that are tried: shares of the whole.
SHARES = np.geomspace(0.02, 1.0, 80)

MINMAX, PERCENTILE_NAME, ENTROPY, SQUARES = "minmax", "percentile", "entropy", "mse"
AUTO = "auto"


def minmax_range(histogram: Histogram) -> Range:
    """Return the smallest and the largest value, and zero between them."""
    return min(histogram.low, 0.0), max(histogram.high, 0.0)


def percentile_range(histogram: Histogram, percentile: float = PERCENTILE) -> Range:
    """Return the range outside of which only ``100 - percentile`` per cent lie, half on each side.

    Bounds are edges of bins, outwards, and never beyond the extremes.
    """
    low, high = minmax_range(histogram)
    if not histogram.count:
        return low, high
    outside = histogram.count * (100 - percentile) / 200
    counts = histogram.counts.astype(float)
    counts[len(counts) // 2] += histogram.zeros
    edges = histogram.edges
    below = int(np.searchsorted(np.cumsum(counts), outside, side="right"))
    above = int(np.searchsorted(np.cumsum(counts[::-1]), outside, side="right"))
    first, last = edges[min(below, len(counts) - 1)], edges[max(len(counts) - above, 1)]
    return max(low, min(float(first), 0.0)), min(high, max(float(last), 0.0))


def squared_error(histogram: Histogram, bounds: Range) -> float:
    """Return the mean squared error of rounding to 256 levels of a range, of a value.

    Inside, a step's square over twelve; outside, the distance to the bound; zeros have none.
    """
    low, high = bounds
    step = (high - low) / (LEVELS - 1)
    if not histogram.count or step == 0:
        return 0.0
    used = histogram.counts > 0
    centers, counts = histogram.centers[used], histogram.counts[used]
    beyond = np.maximum(np.maximum(low - centers, centers - high), 0)
    each = np.where(beyond > 0, beyond**2, step**2 / 12)
    return float((each * counts).sum() / histogram.count)


def mse_range(histogram: Histogram) -> Range:
    """Return the range with the least squared error: each side narrowed in turn."""
    low, high = minmax_range(histogram)
    best = low, high
    for _ in range(2):
        sides = [(low * share, best[1]) for share in SHARES]
        best = min(sides, key=lambda bounds: squared_error(histogram, bounds))
        sides = [(best[0], high * share) for share in SHARES]
        best = min(sides, key=lambda bounds: squared_error(histogram, bounds))
    return best


def divergence(histogram: Histogram, bounds: Range) -> float:
    """Return the Kullback-Leibler divergence of the values from what 256 levels can tell of them.

    After Migacz, "8-bit inference with TensorRT" (GTC 2017): what lies outside is counted at the
    bound; each level's count is spread evenly over those of its bins that hold anything. Zeros,
    which a ReLU makes many of, are told exactly in any range and count nowhere.
    """
    low, high = bounds
    edges = histogram.edges
    counts = histogram.counts.astype(float)
    first = max(int(np.searchsorted(edges, low, side="right")) - 1, 0)
    last = min(int(np.searchsorted(edges, high, side="left")), len(counts))
    inside = counts[first:last]
    if not len(inside) or not inside.sum():
        return float("inf")
    truth = inside.copy()
    truth[0] += counts[:first].sum()
    truth[-1] += counts[last:].sum()
    levels = np.minimum(np.arange(len(inside)) * LEVELS // len(inside), LEVELS - 1)
    totals = np.bincount(levels, inside, LEVELS)
    holding = np.bincount(levels, inside > 0, LEVELS)
    spread = np.where(inside > 0, (totals / np.maximum(holding, 1))[levels], 0)
    truth, spread = truth / truth.sum(), spread / spread.sum()
    # What was clipped into a bin that holds nothing else cannot be told at all.
    told = np.maximum(spread, 1e-12)
    is_some = truth > 0
    return float((truth[is_some] * np.log(truth[is_some] / told[is_some])).sum())


def entropy_range(histogram: Histogram) -> Range:
    """Return the range, a share of the whole, whose levels tell most of the distribution."""
    low, high = minmax_range(histogram)
    ranges = [(low * share, high * share) for share in SHARES[::-1]]
    return min(ranges, key=lambda bounds: divergence(histogram, bounds))


METHODS: dict[str, Callable[[Histogram], Range]] = {
    MINMAX: minmax_range,
    PERCENTILE_NAME: percentile_range,
    ENTROPY: entropy_range,
    SQUARES: mse_range,
}
