"""A weight as pruning would leave it, so that its speed is known before anybody trains."""

from __future__ import annotations

import numpy as np


def pretend_pruned(matrix: np.ndarray, width: int, rate: float, depth: int = 1) -> np.ndarray:
    """Return a weight of which each group of rows keeps its largest columns.

    Parameters
    ----------
    matrix
        ``[O, K]``.
    width
        Rows of a group.
    rate
        How many times fewer numbers stay, 1 or more.
    depth
        Neighbouring columns that stay or go together.

    Returns
    -------
    matrix
        A copy: of each `width` neighbouring rows (the last ones may be fewer) the columns with the
        largest sums of squares, ``K / rate`` of them and at least `depth`.

    Raises
    ------
    ValueError
        The rate is below 1, or `depth` does not divide the columns.
    """
    if not rate >= 1:
        raise ValueError(f"rate of pruning: expected 1 or more; found {rate}.")
    rows, columns = matrix.shape
    if columns % depth:
        raise ValueError(f"columns: expected a multiple of {depth}; found {columns}.")
    words = columns // depth
    kept = max(1, round(words / rate))
    found = np.zeros(matrix.shape, matrix.dtype)
    for first in range(0, rows, width):
        group = matrix[first : first + width].reshape(-1, words, depth)
        energy = np.square(group, dtype="float32").sum(axis=(0, 2))
        largest = np.argsort(-energy, kind="stable")[:kept]
        found[first : first + width].reshape(-1, words, depth)[:, largest] = group[:, largest]
    return found
