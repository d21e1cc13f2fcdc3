"""Filters whose zeros are their own: kernels sorted by pattern, and how they are stored.

A weight ``[O, C, window]`` is looked at kernel by kernel: the numbers of one filter for one input
channel. Where its kernels have few patterns, a kernel is stored as a word and the numbers of its
pattern; else each number is stored by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_fusionx.expressions.sparse_filters import FilterPlanes
from tvm_fusionx.sparse.lists import dealt_out
from tvm_fusionx.sparse.storage import Storage

# More patterns make more code than the caches of instructions hold.
MOST_PATTERNS = 16

# Of a window, places that one integer tells.
MOST_PLACES = 63

Pattern = tuple[int, ...]


@dataclass(frozen=True)
class Filters:
    """Kernels of filters, filter by filter, sorted by pattern and then by channel.

    Parameters
    ----------
    shape
        Of the weight: filters, channels, places of the window.
    patterns
        Of each its taps; none where each number is a kernel of its own.
    starts
        Where the kernels of each filter's each pattern begin, and where the last end,
        int32 ``[filters * patterns + 1]``.
    channels, taps
        Of each kernel, its input channel; without patterns its place of the window, else its
        pattern.
    values
        ``[kernels, numbers of a pattern]``.
    touched
        Different kernels: of those that are single numbers, several are of one channel.
    """

    shape: tuple[int, int, int]
    patterns: tuple[Pattern, ...]
    starts: np.ndarray
    channels: np.ndarray
    taps: np.ndarray
    values: np.ndarray
    touched: int

    @property
    def kernels(self) -> int:
        """How many are stored."""
        return len(self.values)

    @property
    def numbers(self) -> int:
        """Words and numbers that are stored."""
        return self.kernels + self.values.size

    @property
    def density(self) -> float:
        """Share of the weight that is multiplied: what is stored, zeros of patterns included."""
        return float(self.values.size / max(1, int(np.prod(self.shape))))


def find_filters(weight: np.ndarray) -> list[Filters]:
    """Return the ways in which a weight ``[O, C, window]`` can be stored, patterns last.

    None where it has no number at all.
    """
    filters, channels, values = _numbers(weight)
    if not len(values):
        return []
    rows, places = filters, channels % weight.shape[2]
    starts = _starts(rows, weight.shape[0])
    inputs = channels // weight.shape[2]
    touched = len(np.unique(rows.astype("int64") * weight.shape[1] + inputs))
    single = Filters(
        weight.shape,
        (),
        starts,
        inputs.astype("int32"),
        places.astype("int32"),
        values[:, None],
        touched,
    )
    patterns = find_patterns(weight)
    return [single] if patterns is None else [single, _by_pattern(weight, patterns)]


def find_patterns(weight: np.ndarray) -> tuple[Pattern, ...] | None:
    """Return the patterns of a weight's kernels, one in which each fits; None where there are many.

    All have as many taps as the largest: the places of smaller ones are filled up.
    """
    window = weight.shape[2]
    if not 1 < window <= MOST_PLACES:
        return None
    masks = np.unique(_masks(weight))
    masks = masks[masks != 0]
    # Of patterns, those that lie in no other; with many different ones nobody had a few in mind.
    if not 0 < len(masks) <= MOST_PATTERNS**2:
        return None
    largest = [mask for mask in masks if not np.any(((masks & mask) == mask) & (masks != mask))]
    if len(largest) > MOST_PATTERNS:
        return None
    bits = [[place for place in range(window) if mask >> place & 1] for mask in largest]
    size = max(map(len, bits))
    filled = []
    for pattern in bits:
        others = [place for place in range(window) if place not in pattern]
        filled.append(tuple(sorted(pattern + others[: size - len(pattern)])))
    return tuple(dict.fromkeys(filled))


def store_filters(filters: Filters, planes: FilterPlanes, chunks: int, tasks: int = 1) -> Storage:
    """Return filters as their kernel reads them.

    Parameters
    ----------
    filters
        What is stored.
    planes
        Where it reads.
    chunks
        Of filters, each stored together.
    tasks
        Parts that chunks are dealt out to, each with about as many numbers as any other.

    Returns
    -------
    storage
        Its values ``[kernels, taps]``; its index as
        :class:`~tvm_fusionx.expressions.sparse_filters.FilterIndex` tells.
    """
    at = filters.channels.astype("int64") * planes.plane
    if filters.patterns:
        words = (at << planes.bits) | filters.taps
    else:
        distances = np.asarray([planes.distance(tap) for tap in range(filters.shape[2])])
        words = at + distances[filters.taps]
    each = filters.shape[0] // chunks * planes.pattern_count
    lengths = np.diff(filters.starts[::each])
    order = dealt_out([int(length) for length in lengths], tasks)
    told = [filters.starts, order, np.concatenate(planes.distances()), words]
    index = np.concatenate([np.asarray(part).astype("int32") for part in told])
    return Storage(np.ascontiguousarray(filters.values), index)


def most_word(filters: Filters, planes: FilterPlanes) -> int:
    """Return the largest word that filters would have."""
    return filters.shape[1] * planes.plane << planes.bits


def _numbers(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    flat = weight.reshape(weight.shape[0], -1)
    rows, columns = np.nonzero(flat)
    return rows, columns, flat[rows, columns]


def _starts(rows: np.ndarray, count: int) -> np.ndarray:
    lengths = np.bincount(rows, minlength=count)
    return np.concatenate([[0], np.cumsum(lengths)]).astype("int32")


def _masks(weight: np.ndarray) -> np.ndarray:
    bits = np.left_shift(np.int64(1), np.arange(weight.shape[2], dtype="int64"))
    return np.asarray(((weight != 0) * bits).sum(axis=2))


def _by_pattern(weight: np.ndarray, patterns: tuple[Pattern, ...]) -> Filters:
    masks = _masks(weight)
    whole = np.asarray([sum(1 << tap for tap in pattern) for pattern in patterns], "int64")
    fits = (masks[..., None] & whole) == masks[..., None]
    which = fits.argmax(axis=2)
    rows, inputs = np.nonzero(masks)
    taken = which[rows, inputs]
    order = np.lexsort((inputs, taken, rows))
    rows, inputs, taken = rows[order], inputs[order], taken[order]
    places = np.asarray(patterns)[taken]
    return Filters(
        weight.shape,
        patterns,
        _starts(rows * len(patterns) + taken, weight.shape[0] * len(patterns)),
        inputs.astype("int32"),
        taken.astype("int32"),
        weight[rows[:, None], inputs[:, None], places],
        len(rows),
    )
