"""The nearest point of a structure by trying every choice: for weights of a few entries."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from tvm_fusionx.compress.prune.structures import BLOCK, CONNECTIVITY, FILTER, Structure


def tiles_of(structure: Structure, shape: Sequence[int], parts: int = 1) -> list[np.ndarray]:
    """Return a mask for each tile that a structure keeps or cuts whole."""
    columns, window = int(np.prod(shape[1:])), int(np.prod(shape[2:]))
    high, wide = {
        BLOCK: structure.block_size,
        CONNECTIVITY: (structure.group_size, window),
        FILTER: (1, columns),
    }.get(structure.kind, (1, 1))
    found = []
    rows = shape[0] // parts
    for part in range(parts):
        for row in range(0, rows, high):
            for column in range(0, columns, wide):
                mask = np.zeros((parts, rows, columns), bool)
                mask[part, row : row + high, column : column + wide] = True
                found.append(mask.reshape(shape))
    return found


def best_of_tiles(structure: Structure, weights: np.ndarray, count: int, parts: int = 1) -> float:
    """Return the largest sum of squares that `count` tiles keep."""
    energies = [
        float(np.square(weights[mask]).sum()) for mask in tiles_of(structure, weights.shape, parts)
    ]
    return max(sum(chosen) for chosen in itertools.combinations(energies, count))


def choices_of_patterns(patterns: np.ndarray, kernels: int) -> Iterator[list[np.ndarray]]:
    """Yield every way to give each kernel a pattern, or to cut it."""
    none = np.zeros(patterns.shape[1], bool)
    for chosen in itertools.product([none, *patterns], repeat=kernels):
        yield list(chosen)
