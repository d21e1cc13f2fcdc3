"""Scans of a street, as detectors that see it from above take them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SCAN_SEED = 883
# Of the cells of a slice, how many a laser meets; most of the air is empty.
OCCUPIED = 0.01
# A laser sees fewer points the further a pillar is away: so many in the mean, exponentially drawn.
MEAN_POINTS = 20.0


def occupied_cells(heights: int, length: int, width: int) -> npt.NDArray[np.float32]:
    """Return which cells are occupied, and behind them a reflectance: ``(1, heights, l, w)``."""
    generator = np.random.default_rng(SCAN_SEED)
    cells = (generator.random((1, heights, length, width), np.float32) < OCCUPIED).astype(
        np.float32
    )
    cells[:, -1] = generator.random((1, length, width), np.float32) * cells[:, :-1].max(1)
    return cells


def pillars(
    count: int, points: int, features: int, cells: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return pillars of points, and the cells that they stand on.

    Returns
    -------
    points
        ``(count, points, features)``; behind a pillar's last point there are zeros.
    places
        ``(count,)``: numbers below `cells`, no two alike.
    """
    generator = np.random.default_rng(SCAN_SEED)
    drawn = generator.standard_normal((count, points, features), np.float32)
    seen = np.clip(generator.exponential(MEAN_POINTS, count), 1, points).astype(np.int64)
    drawn *= (np.arange(points)[None] < seen[:, None])[..., None]
    return drawn, generator.permutation(cells)[:count].astype(np.int64)
