"""What pretended pruning keeps: the largest columns of each group."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedules.sparse_blocks import pruned
from tvm_fusionx.sparse import as_words, find_lists, pretend_pruned


@pytest.mark.parametrize("rate", [1.0, 2.5, 8.0, 1000.0])
def test_each_group_keeps_its_largest_columns(rate: float) -> None:
    matrix = pruned(20, 40, 8, 1.0)
    found = pretend_pruned(matrix, 8, rate)
    kept = max(1, round(40 / rate))
    for first in (0, 8, 16):
        before, after = (np.square(each[first : first + 8]).sum(axis=0) for each in (matrix, found))
        assert np.count_nonzero(after) == kept
        assert after[after > 0].min() >= before[after == 0].max(initial=0)
    assert (found[found != 0] == matrix[found != 0]).all()
    assert find_lists(found[:16], 8).entries == 2 * kept


def test_neighbouring_integers_stay_together() -> None:
    draw = np.random.default_rng(3)
    # As a transposed constant comes: its rows do not lie in one piece.
    matrix = np.asfortranarray(draw.integers(-128, 128, (16, 24)).astype("int8"))
    found = pretend_pruned(matrix, 8, 3, depth=4)
    assert find_lists(as_words(found, 4), 8).entries == 2 * 2
    assert (found[found != 0] == matrix[found != 0]).all()
    with pytest.raises(ValueError, match="multiple of 5"):
        pretend_pruned(matrix, 8, 3, depth=5)


@pytest.mark.parametrize("rate", [0.5, float("nan")])
def test_a_rate_is_one_or_more(rate: float) -> None:
    with pytest.raises(ValueError, match="expected 1 or more"):
        pretend_pruned(np.ones((2, 2)), 1, rate)
