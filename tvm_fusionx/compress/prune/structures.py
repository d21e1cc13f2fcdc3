"""Which weights of a layer stay, in a structure that kernels can use, at a given sparsity.

A layer's weights come as ``(outputs, inputs, *window)``: a matrix has no window. Each structure is
a set of arrays with zeros at certain places, and :meth:`Structure.mask` finds the places that stay
in the *nearest* point of that set: what is kept has the largest sum of squares that the structure
allows. So one function serves magnitude pruning and the projections of ADMM alike.

Two choices make up every structure. Within a kernel or a row some entries are fixed by a pattern or
by N:M; and *tiles* (a number of rows by a number of columns of the unfolded matrix) are kept or cut
whole, those with the most energy first. The energy of a tile is counted on what its pattern leaves,
so both together are nearest too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvm_fusionx.compress.prune.patterns import (
    Patterns,
    choose_patterns,
    grouped_energy,
    pattern_mask,
)

PATTERN, CONNECTIVITY, BLOCK = "pattern", "connectivity", "block"
N_M, UNSTRUCTURED, FILTER = "n_m", "unstructured", "filter"
KINDS = (PATTERN, CONNECTIVITY, BLOCK, N_M, UNSTRUCTURED, FILTER)

# What stays of a window in a pattern, as PatDNN has it: 4 of 9.
PATTERN_DENSITY = 4 / 9
LEAST_WINDOW = 2

# Channels that share a pattern or a cut when nothing is said: floats in a vector of 512 bits.
GROUP_SIZE = 16
COUNT_OF_PATTERNS = 8


@dataclass(frozen=True)
class Structure:
    """A set of weights with zeros at places that kernels can leave out.

    Attributes
    ----------
    kind
        One of :data:`KINDS`.
    target_sparsity
        Share of a layer's weights that are zero, 0 to below 1. ``"pattern"`` cuts entries of
        kernels up to the share that a pattern leaves out, and whole kernels for the rest.
    group_size
        Output channels that share a pattern (``"pattern"``; 1: each kernel has its own) and that
        whole kernels are cut from together (``"pattern"``, ``"connectivity"``).
    block_size
        Rows (outputs) by columns (inputs by window, unfolded) of ``"block"``.
    n_m_ratio
        ``"n_m"``: of each m weights along the columns n are zero, as in coremltools.
    patterns
        How many patterns a layer has at most.
    entries
        How many entries of a window a pattern keeps; by default 4 of 9, in proportion.
    balanced
        Whether each group of rows keeps the same number of tiles, so that threads get equal work;
        otherwise the layer as a whole keeps those with the most energy.
    """

    kind: str
    target_sparsity: float
    group_size: int = GROUP_SIZE
    block_size: tuple[int, int] = (GROUP_SIZE, 1)
    n_m_ratio: tuple[int, int] | None = None
    patterns: int = COUNT_OF_PATTERNS
    entries: int | None = None
    balanced: bool = False

    def at(self, sparsity: float) -> Structure:
        """Return the structure at another sparsity, as a schedule goes through."""
        return replace(self, target_sparsity=sparsity)

    def why_not(self, shape: Sequence[int]) -> str | None:
        """Return why weights of this shape cannot have the structure, or None."""
        window = math.prod(shape[2:])
        if self.kind in (PATTERN, CONNECTIVITY) and window < LEAST_WINDOW:
            return "its kernels have one entry"
        if self.kind == PATTERN and shape[1] == 1:
            return "it has a window for each channel (depthwise)"
        if self.kind == N_M and math.prod(shape[1:]) < self._ratio()[1]:
            return "its rows are shorter than m"
        return None

    def kept_entries(self, window: int) -> int:
        """Return how many of a window's entries a pattern keeps at this sparsity."""
        least = self.entries or max(1, round(PATTERN_DENSITY * window))
        # A smaller rate than a pattern's own keeps more entries before it cuts any kernel.
        return min(window, max(least, round((1 - self.target_sparsity) * window)))

    def choose(self, weights: np.ndarray, parts: int = 1) -> Patterns | None:
        """Return the patterns for a layer's weights; None for other structures.

        Parameters
        ----------
        weights
            ``(outputs, inputs, *window)``.
        parts
            Equal parts of the outputs that no group crosses: groups of a convolution, gates.
        """
        if self.kind != PATTERN:
            return None
        squares = np.square(weights.astype("float64"))
        energy = grouped_energy(squares, self.group_size, parts)
        entries = self.kept_entries(math.prod(weights.shape[2:]))
        return choose_patterns(energy, weights.shape[2:], entries, self.patterns)

    def mask(
        self, weights: np.ndarray, parts: int = 1, patterns: Patterns | None = None
    ) -> np.ndarray:
        """Return which weights stay: those of the nearest point of the set.

        Parameters
        ----------
        weights
            ``(outputs, inputs, *window)`` floats.
        parts
            Equal parts of the outputs that no tile crosses.
        patterns
            Those of :meth:`choose`; by default chosen from these weights.

        Returns
        -------
        numpy.ndarray
            Booleans of the same shape. At least one tile stays.
        """
        outputs = weights.shape[0]
        squares = np.square(weights.astype("float64"))
        inner = self._inner(weights, squares, parts, patterns)
        matrix = np.where(inner, squares, 0).reshape(outputs, -1)
        tile = self._tile(weights.shape, parts)
        if tile is None:
            return inner
        energy = _tile_energy(matrix, tile, parts)
        share = float(inner.mean())
        kept = _largest(energy, (1 - self.target_sparsity) / share, self.balanced)
        spread = np.repeat(np.repeat(kept, tile[0], axis=1), tile[1], axis=2)
        spread = spread[:, : outputs // parts, : matrix.shape[1]].reshape(weights.shape)
        return inner & spread

    def _inner(
        self, weights: np.ndarray, squares: np.ndarray, parts: int, patterns: Patterns | None
    ) -> np.ndarray:
        if self.kind == PATTERN:
            patterns = self.choose(weights, parts) if patterns is None else patterns
            assert patterns is not None
            return pattern_mask(squares, patterns, self.group_size, parts)
        if self.kind == N_M:
            return _n_m_mask(squares.reshape(len(squares), -1), self._ratio()).reshape(
                squares.shape
            )
        return np.ones(weights.shape, bool)

    def _tile(self, shape: Sequence[int], parts: int) -> tuple[int, int] | None:
        """Return the rows and columns that are kept or cut together; None where no tile is cut."""
        columns, window = math.prod(shape[1:]), math.prod(shape[2:])
        rows = shape[0] // parts
        sizes = {
            PATTERN: (self.group_size, window),
            CONNECTIVITY: (self.group_size, window),
            BLOCK: self.block_size,
            UNSTRUCTURED: (1, 1),
            FILTER: (1, columns),
        }
        if self.kind not in sizes:
            return None
        return min(sizes[self.kind][0], rows), min(sizes[self.kind][1], columns)

    def _ratio(self) -> tuple[int, int]:
        assert self.n_m_ratio is not None
        full, size = self.n_m_ratio
        # On the way to the ratio, as many of m as the sparsity allows.
        return min(full, math.floor(self.target_sparsity * size + 1e-9)), size


def _tile_energy(matrix: np.ndarray, tile: tuple[int, int], parts: int) -> np.ndarray:
    """Return sums of squares ``(parts, rows of tiles, columns of tiles)``."""
    rows, columns = matrix.shape[0] // parts, matrix.shape[1]
    high, wide = -(-rows // tile[0]), -(-columns // tile[1])
    padded = np.zeros((parts, high * tile[0], wide * tile[1]))
    padded[:, :rows, :columns] = matrix.reshape(parts, rows, columns)
    return padded.reshape(parts, high, tile[0], wide, tile[1]).sum(axis=(2, 4))


def _largest(energy: np.ndarray, share: float, balanced: bool) -> np.ndarray:
    """Return which tiles have the most energy: `share` of them, at least one; ties by place."""
    rows = energy.reshape(-1, energy.shape[2] if balanced else energy.size)
    count = min(rows.shape[1], max(1, round(share * rows.shape[1])))
    order = np.argsort(-rows, axis=1, kind="stable")[:, :count]
    kept = np.zeros(rows.shape, bool)
    np.put_along_axis(kept, order, True, axis=1)
    return kept.reshape(energy.shape)


def _n_m_mask(matrix: np.ndarray, ratio: tuple[int, int]) -> np.ndarray:
    """Return a mask with `n` zeros of each `m` weights of a row; a rest of a row stays whole."""
    cut, size = ratio
    mask = np.ones(matrix.shape, bool)
    whole = matrix.shape[1] // size * size
    groups = matrix[:, :whole].reshape(len(matrix), -1, size)
    least = np.argsort(groups, axis=2, kind="stable")[..., :cut]
    inner = np.ones(groups.shape, bool)
    np.put_along_axis(inner, least, False, axis=2)
    mask[:, :whole] = inner.reshape(len(matrix), whole)
    return mask


def sparsity_of(array: Any) -> float:
    """Return the share of an array's elements that are zero."""
    values = np.asarray(array)
    return 1 - np.count_nonzero(values) / max(1, values.size)
