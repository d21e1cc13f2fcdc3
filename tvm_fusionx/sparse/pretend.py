"""A weight as pruning would leave it, so that its speed is known before anybody trains."""

from __future__ import annotations

import numpy as np


def pretend_pruned(matrix: np.ndarray, width: int, rate: float) -> np.ndarray:
    """Return a weight of which each group of rows keeps its largest columns.

    Parameters
    ----------
    matrix
        ``[O, K]``.
    width
        Rows of a group.
    rate
        How many times fewer numbers stay, 1 or more.

    Returns
    -------
    matrix
        A copy: of each `width` neighbouring rows (the last ones may be fewer) the columns with the
        largest sums of squares, ``K / rate`` of them and at least one.

    Raises
    ------
    ValueError
        The rate is below 1.
    """
    if not rate >= 1:
        raise ValueError(f"rate of pruning: expected 1 or more; found {rate}.")
    rows, columns = matrix.shape
    kept = max(1, round(columns / rate))
    found = np.zeros_like(matrix)
    for first in range(0, rows, width):
        group = matrix[first : first + width]
        largest = np.argsort(-np.square(group).sum(axis=0), kind="stable")[:kept]
        found[first : first + width, largest] = group[:, largest]
    return found
