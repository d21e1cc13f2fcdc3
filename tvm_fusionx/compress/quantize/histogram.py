"""How often a tensor takes which values, over any number of samples, in bounded memory."""

from __future__ import annotations

import numpy as np

# On both sides of zero together. Doubling the range leaves at least half of them in use.
BINS = 8192
# The least power of two that a range ends at: below it numbers are denormal in float32.
LEAST_EXPONENT = -126


class Histogram:
    """Counts in equal bins over ``[-R, R]``, where R is a power of two that doubles when needed.

    Doubling adds two bins to one, whose edges are exact, so the counts are those of one histogram
    over all the data with the last range. Zeros are counted apart: they are never rounded.

    Attributes
    ----------
    low, high
        Smallest and largest value so far.
    zeros, count
        Zeros, and all values.
    limit
        R.
    counts
        ``(BINS,)`` int64; a bin holds its lower edge. Zeros are in none.
    """

    def __init__(self) -> None:
        self.low = self.high = 0.0
        self.zeros = self.count = 0
        self.limit = 0.0
        self.counts = np.zeros(BINS, np.int64)

    def add(self, values: np.ndarray) -> None:
        """Count the numbers of an array."""
        flat = np.asarray(values, np.float32).reshape(-1)
        if not flat.size:
            return
        low, high = float(flat.min()), float(flat.max())
        self.low, self.high = (
            (low, high)
            if not self.count
            else (
                min(self.low, low),
                max(self.high, high),
            )
        )
        self.count += flat.size
        used = flat[flat != 0]
        self.zeros += flat.size - used.size
        if used.size:
            self._grow(max(-low, high))
            # Exact: the limit is a power of two.
            places = np.floor(used * np.float32(BINS / 2 / self.limit)).astype(np.int64)
            self.counts += np.bincount(np.minimum(places + BINS // 2, BINS - 1), minlength=BINS)

    def _grow(self, largest: float) -> None:
        exponent = max(int(np.ceil(np.log2(largest))), LEAST_EXPONENT)
        wanted = float(2.0**exponent)
        if not self.limit:
            self.limit = wanted
        while self.limit < wanted:
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.zeros(BINS, np.int64)
            self.counts[BINS // 4 : BINS // 4 * 3] = pairs
            self.limit *= 2

    @property
    def edges(self) -> np.ndarray:
        """Return the ``BINS + 1`` edges, ascending."""
        return np.linspace(-self.limit, self.limit, BINS + 1)

    @property
    def centers(self) -> np.ndarray:
        """Return the middle of each bin."""
        edges = self.edges
        middles: np.ndarray = (edges[:-1] + edges[1:]) / 2
        return middles
