"""What is stored gives the matrix back, and takes far fewer bytes than compressed rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedules.sparse_blocks import pruned
from tvm_fusionx.expressions.sparse_products import Index
from tvm_fusionx.sparse import as_words, csr_bytes, find_lists, store_lists


@pytest.mark.parametrize("rows", [32, 21])
def test_the_matrix_comes_back(rows: int) -> None:
    matrix = pruned(rows, 30, 8, 0.4)
    stored = store_lists(matrix, find_lists(matrix, 16), 8)
    parts = Index.of(stored.values.shape, stored.index.shape, rows)
    starts, firsts = stored.index[: parts.groups + 1], stored.index[parts.firsts : parts.places]
    assert starts[-1] == len(stored.values)
    found = np.zeros_like(matrix)
    for group, first in enumerate(firsts):
        for entry in range(starts[group], starts[group + 1]):
            column = stored.index[parts.offsets + entry]
            found[first : first + 16, column] = stored.values[entry].reshape(-1)
    assert (found == matrix).all()


def test_offsets_stand_in_the_place_of_columns() -> None:
    matrix = pruned(8, 10, 8, 0.5)
    lists = find_lists(matrix, 8)
    stored = store_lists(matrix, lists, 8, np.arange(10, dtype="int32") * 7)
    assert (stored.index[-lists.entries :] == lists.columns * 7).all()


def test_words_lie_side_by_side() -> None:
    matrix = np.arange(16 * 12).reshape(16, 12).astype("int16")
    matrix[:8, 4:8] = 0
    lists = find_lists(as_words(matrix, 4), 8)
    assert lists.entries == 2 + 3
    stored = store_lists(matrix, lists, 8, depth=4)
    assert stored.values.shape == (5, 1, 32)
    # Group 0, its second word: columns 8 to 11 of rows 0, 1, ...
    assert stored.values[1, 0].tolist() == matrix[:8, 8:].reshape(-1).tolist()


def test_bytes_beside_compressed_rows() -> None:
    matrix = pruned(64, 256, 16, 0.125)
    stored = store_lists(matrix, find_lists(matrix, 16), 16)
    numbers = np.count_nonzero(matrix) * 4
    assert stored.bytes - numbers < (csr_bytes(matrix) - numbers) / 8
