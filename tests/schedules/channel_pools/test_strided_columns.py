"""Columns under windows that are some columns apart: each is found, and each vector loaded once."""

from __future__ import annotations

import itertools

import pytest

from tvm_fusionx.schedules.channel_pools.strided_columns import (
    Columns,
    parts_of,
    row_lanes,
    runs_of,
)

SIZES = [
    (2, 3, 1),
    (5, 3, 1),
    (14, 2, 0),
    (28, 3, 1),
    (33, 3, 0),
    (34, 2, 0),
    (112, 3, 1),
    (130, 2, 0),
    (517, 5, 2),
]


def _columns(size: int, kernel: int, padding: int) -> Columns:
    # A column is added behind the row where a window would not fit.
    out = max(2, (size + 2 * padding - kernel) // 2 + 1)
    return Columns(size, out, kernel, 2, padding)


@pytest.mark.parametrize(("size", "kernel", "padding"), SIZES)
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_every_column_under_a_window_is_found(
    size: int, kernel: int, padding: int, lanes: int
) -> None:
    columns = _columns(size, kernel, padding)
    loaded = row_lanes(columns, lanes)
    found: dict[int, list[int]] = {}
    for run in runs_of(columns, lanes):
        for number in range(run.number):
            first = run.first + number * run.size
            starts = [first * columns.step + load for load in run.chunk.loads]
            assert all(0 <= start <= size - loaded for start in starts)
            assert len(set(starts)) == len(starts)
            for vector, lane in itertools.product(run.chunk.vectors, range(lanes)):
                if lane < vector.count:
                    found[first + vector.start + lane] = [
                        starts[tap[lane][0]] + tap[lane][1] for tap in vector.taps
                    ]
    assert found == {
        place: [min(max(2 * place + tap - padding, 0), size - 1) for tap in range(kernel)]
        for place in range(columns.out_size)
    }


def test_chunks_inside_a_row_are_a_loop() -> None:
    runs = runs_of(_columns(1000, 3, 1), 8)
    assert [(run.first, run.number) for run in runs] == [(0, 1), (32, 14), (480, 1)]


def test_a_short_row_is_loaded_in_vectors_that_overlap() -> None:
    (run,) = runs_of(_columns(14, 2, 0), 16)
    assert run.chunk.loads == (0, 6)
    assert [vector.count for vector in run.chunk.vectors] == [7]


@pytest.mark.parametrize(
    ("count", "parts"), [(2, ((0,), 2)), (3, ((0, 1), 2)), (7, ((0, 3), 4)), (16, ((0,), 16))]
)
def test_lanes_are_stored_in_parts_that_are_powers_of_two(
    count: int, parts: tuple[tuple[int, ...], int]
) -> None:
    assert parts_of(count) == parts
