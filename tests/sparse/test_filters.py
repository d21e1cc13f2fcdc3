"""Filters with zeros of their own: patterns are found, and what is stored is the weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.schedules.filter_blocks import patterned, scattered
from tests.schedules.sparse_blocks import Window
from tvm_fusionx.expressions.sparse_filters import FilterIndex, FilterPlanes
from tvm_fusionx.layout.sparse_filters import by_kernel
from tvm_fusionx.sparse import csr_bytes
from tvm_fusionx.sparse.filters import (
    MOST_PATTERNS,
    Filters,
    find_filters,
    find_patterns,
    most_word,
    store_filters,
)

CASE = Window(1, 8, 16, 6, 6, lanes=4)


def _weight(*, by_pattern: bool) -> Any:
    found = patterned(CASE, 0.6) if by_pattern else scattered(CASE, 0.3)
    return by_kernel(found, CASE.geometry)


def _unpacked(filters: Filters) -> Any:
    found = np.zeros(filters.shape, "float32")
    runs = max(1, len(filters.patterns))
    for place in range(len(filters.starts) - 1):
        number, pattern = divmod(place, runs)
        for kernel in range(filters.starts[place], filters.starts[place + 1]):
            taps = filters.patterns[pattern] if filters.patterns else (filters.taps[kernel],)
            found[number, filters.channels[kernel], list(taps)] = filters.values[kernel]
    return found


@pytest.mark.parametrize("by_pattern", [False, True])
def test_filters_are_the_weight(by_pattern: bool) -> None:
    weight = _weight(by_pattern=by_pattern)
    for filters in find_filters(weight):
        assert np.array_equal(_unpacked(filters), weight)
        assert filters.touched == np.count_nonzero(weight.any(axis=2))


def test_patterns_that_are_few_are_found() -> None:
    weight = _weight(by_pattern=True)
    single, by_pattern = find_filters(weight)
    assert single.patterns == ()
    assert len(by_pattern.patterns) == 4
    assert by_pattern.kernels == by_pattern.touched
    assert by_pattern.density == pytest.approx(np.count_nonzero(weight) / weight.size)
    # A kernel that lost one more number still has its pattern.
    weight[0, np.flatnonzero(weight[0].any(axis=1))[0], 4] = 0
    assert find_patterns(weight) == by_pattern.patterns


def test_smaller_patterns_are_filled_up() -> None:
    weight = np.zeros((4, 2, 9), "float32")
    weight[0, 0, [0, 4, 8]] = 1
    weight[1, 1, [2, 3]] = 2
    assert find_patterns(weight) == ((0, 2, 3), (0, 4, 8))
    assert np.array_equal(_unpacked(find_filters(weight)[-1]), weight)


def test_zeros_without_patterns_have_none() -> None:
    many = Window(1, 32, 64, 6, 6)
    assert find_patterns(by_kernel(scattered(many, 0.3), many.geometry)) is None
    assert find_patterns(np.ones((4, 4, 1), "float32")) is None
    assert find_filters(np.zeros((4, 4, 9), "float32")) == []
    # Each tap is a pattern of its own here.
    taps = np.zeros((MOST_PATTERNS + 1, 1, 25), "float32")
    taps[np.arange(len(taps)), 0, np.arange(len(taps))] = 1
    assert find_patterns(taps) is None


def test_storage_is_far_below_compressed_rows() -> None:
    weight = _weight(by_pattern=True)
    filters = find_filters(weight)[-1]
    planes = FilterPlanes(CASE.geometry, 3, filters.patterns)
    stored = store_filters(filters, planes, 4, tasks=2)
    parts = FilterIndex(16, 4, 4, 4)
    assert sorted(stored.index[parts.chunks_at : parts.distances_at]) == [0, 1, 2, 3]
    words = stored.index[parts.words_at :]
    assert np.array_equal(words >> planes.bits, filters.channels * planes.plane)
    assert words.max() < most_word(filters, planes)
    index = 4 * len(words)
    assert index * 4 == filters.values.nbytes
    assert index < csr_bytes(weight.reshape(16, -1)) / 4
