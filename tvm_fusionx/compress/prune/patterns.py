"""Patterns of kernels: which entries of a window stay, a few sets of places for a whole layer.

They are chosen from the weights, as in PatDNN (ASPLOS 2020, section 4.1): each kernel's own best
pattern is the centre and its largest others; the patterns that are best most often are taken. Where
windows are large hardly any two kernels agree, and counting says nothing; so the choice is then
improved until it no longer changes: kernels go to the pattern that keeps most of them, and each
pattern becomes the best one of its kernels together. What is kept never falls in such a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

# ``(patterns, entries of a window)`` booleans.
Patterns: TypeAlias = np.ndarray

MOST_ROUNDS = 20


def centre_of(window: Sequence[int]) -> int:
    """Return the place of a window's middle entry, counted row by row."""
    return int(np.ravel_multi_index(tuple(size // 2 for size in window), tuple(window)))


def grouped_energy(squares: np.ndarray, group_size: int, parts: int = 1) -> np.ndarray:
    """Return sums of squares over groups of output channels: ``(groups, inputs, entries)``.

    Parameters
    ----------
    squares
        Squares of weights, ``(outputs, inputs, *window)``.
    group_size
        Output channels of a group; the last one of a part may be smaller.
    parts
        Equal parts of the outputs that no group crosses.
    """
    outputs, inputs = squares.shape[:2]
    entries, rows = math.prod(squares.shape[2:]), outputs // parts
    size = min(group_size, rows)
    groups = -(-rows // size)
    padded = np.zeros((parts, groups * size, inputs, entries))
    padded[:, :rows] = squares.reshape(parts, rows, inputs, entries)
    return padded.reshape(parts * groups, size, inputs, entries).sum(axis=1)


def choose_patterns(
    energy: np.ndarray, window: Sequence[int], entries: int, count: int
) -> Patterns:
    """Return at most `count` patterns of `entries` places, the centre among them.

    Parameters
    ----------
    energy
        Sums of squares ``(groups, inputs, entries of the window)``.
    window
        Its extents.
    entries
        How many places a pattern keeps.
    count
        How many patterns there may be.

    Returns
    -------
    numpy.ndarray
        ``(patterns, entries of the window)`` booleans, no two alike, in the order of how often they
        are the best.
    """
    kernels = energy.reshape(-1, energy.shape[-1])
    centre = centre_of(window)
    own = _best(kernels, centre, entries)
    found, which, times = np.unique(own, axis=0, return_inverse=True, return_counts=True)
    worth = np.bincount(which.reshape(-1), weights=(kernels * own).sum(axis=1))
    order = np.lexsort((-worth, -times))[:count]
    patterns = np.asarray(found[order])
    kept = -1.0
    for _ in range(MOST_ROUNDS):
        scores = kernels @ patterns.T.astype("float64")
        chosen = scores.argmax(axis=1)
        total = float(scores.max(axis=1).sum())
        if total <= kept:
            break
        kept = total
        sums = np.zeros(patterns.shape)
        np.add.at(sums, chosen, kernels)
        is_used = sums.any(axis=1, keepdims=True)
        moved = np.where(is_used, _best(sums, centre, entries), patterns)
        if len(np.unique(moved, axis=0)) == len(patterns):
            patterns = moved
    often = np.bincount((kernels @ patterns.T.astype("float64")).argmax(1), minlength=len(patterns))
    return patterns[np.argsort(-often, kind="stable")]


def pattern_mask(
    squares: np.ndarray, patterns: Patterns, group_size: int, parts: int = 1
) -> np.ndarray:
    """Return which weights stay when each kernel (of a group) takes the pattern that keeps most.

    Parameters
    ----------
    squares
        Squares of weights, ``(outputs, inputs, *window)``.
    patterns
        ``(patterns, entries)``.
    group_size, parts
        As for :func:`grouped_energy`.
    """
    outputs, inputs = squares.shape[:2]
    energy = grouped_energy(squares, group_size, parts)
    chosen = (energy @ patterns.T.astype("float64")).argmax(axis=2)
    masks = patterns[chosen]
    size = min(group_size, outputs // parts)
    rows = np.repeat(masks, size, axis=0).reshape(parts, -1, inputs, masks.shape[2])
    return rows[:, : outputs // parts].reshape(squares.shape)


def _best(kernels: np.ndarray, centre: int, entries: int) -> Patterns:
    """Return each kernel's best pattern: the centre and its largest others, ties by place."""
    ranked = kernels.copy()
    ranked[:, centre] = np.inf
    order = np.argsort(-ranked, axis=1, kind="stable")[:, :entries]
    own = np.zeros(kernels.shape, bool)
    np.put_along_axis(own, order, True, axis=1)
    return own
