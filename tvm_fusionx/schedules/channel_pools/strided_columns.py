"""Which columns of a row the windows of its result look at, where these are some columns apart.

A row is loaded in whole vectors, each once, and the columns of a window are picked from them by
shuffles. A column beyond the row stands for the nearest one, which is under the window as well, so
that nothing is padded and no column is masked. Vectors of the result that look at neighbouring
columns share a *chunk*; chunks inside a long row look alike, and are a loop.

    row 0 1 2 3 4 5 6 7 | 8 9 .. 15     windows of 3, 2 apart, 1 before the row
    tap 0: 0 1 3 5 7 9 11 13    tap 1: 0 2 4 6 8 10 12 14    tap 2: 1 3 5 7 9 11 13 15
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

# Vectors of the result, so that what they look at stays in registers: 9 of 16.
VECTORS_A_CHUNK = 4

# A column of its own would be no vector.
LEAST = 2

# Of each lane of a vector: a vector that was loaded, and the lane there.
Lanes = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Columns:
    """Windows over the columns of a row."""

    size: int
    """Columns of the row, and of the result: two or more."""
    out_size: int
    kernel: int
    step: int
    padding: int
    """Columns before the row."""


@dataclass(frozen=True)
class OutVector:
    """Some columns of the result: fewer than lanes where the row ends."""

    start: int
    """The first one, counted from the chunk's."""
    count: int
    taps: tuple[Lanes, ...]
    """Where each column under a window is found; lanes beyond `count` repeat the last one."""


@dataclass(frozen=True)
class Chunk:
    """Vectors of the result, and those of the row that they look at."""

    loads: tuple[int, ...]
    """Where vectors of the row start, counted from the chunk's first column times the step."""
    vectors: tuple[OutVector, ...]


@dataclass(frozen=True)
class Run:
    """Chunks that look alike, one after the other."""

    chunk: Chunk
    first: int
    """The first column of the result."""
    number: int
    size: int
    """Columns of the result from one to the next."""


def row_lanes(columns: Columns, lanes: int) -> int:
    """Return how many columns of a row are loaded at once: a power of two."""
    return _power_of_two(min(lanes, columns.size))


def runs_of(columns: Columns, lanes: int) -> list[Run]:
    """Return the chunks of a row, put together where they look alike."""
    size = VECTORS_A_CHUNK * lanes
    starts = range(0, columns.out_size, size)
    chunks = [(start, _chunk(columns, start, size, lanes)) for start in starts]
    runs = []
    for chunk, group in itertools.groupby(chunks, key=lambda each: each[1]):
        first, *more = [start for start, _ in group]
        runs.append(Run(chunk, first, 1 + len(more), size))
    return runs


def parts_of(count: int) -> tuple[tuple[int, ...], int]:
    """Return where `count` lanes are stored from, and how many at once: a power of two."""
    lanes = _power_of_two(count)
    return ((0,) if lanes == count else (0, count - lanes)), lanes


def _chunk(columns: Columns, first: int, size: int, lanes: int) -> Chunk:
    loaded = row_lanes(columns, lanes)
    base = first * columns.step
    loads: dict[int, int] = {}

    def found(column: int) -> tuple[int, int]:
        column = min(max(column, 0), columns.size - 1)
        start = min(column // loaded * loaded, columns.size - loaded)
        return loads.setdefault(start - base, len(loads)), column - start

    vectors = []
    for at in range(first, min(first + size, columns.out_size), lanes):
        start = min(at, columns.out_size - LEAST)
        count = min(lanes, columns.out_size - start)
        places = [start + min(lane, count - 1) for lane in range(_at_least(count))]
        taps = tuple(
            tuple(found(place * columns.step + tap - columns.padding) for place in places)
            for tap in range(columns.kernel)
        )
        vectors.append(OutVector(start - first, count, taps))
    return Chunk(tuple(loads), tuple(vectors))


def _power_of_two(most: int) -> int:
    return 1 << (most.bit_length() - 1)


def _at_least(count: int) -> int:
    """Return the least power of two that is not less than `count`."""
    return 1 << (count - 1).bit_length()
