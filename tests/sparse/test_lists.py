"""Lists of columns: all that is not zero is in them, and nothing that a whole group lacks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedules.sparse_blocks import pruned
from tvm_fusionx.sparse import find_lists


@pytest.mark.parametrize(("rows", "width"), [(32, 8), (21, 8), (8, 8)])
@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
def test_lists_hold_what_is_not_zero(rows: int, width: int, tasks: int, density: float) -> None:
    matrix = pruned(rows, 30, 4, density)
    lists = find_lists(matrix, width, tasks=tasks)
    covered = np.zeros(matrix.shape, bool)
    for group, first in enumerate(lists.firsts):
        columns = lists.columns[lists.starts[group] : lists.starts[group + 1]]
        assert (np.diff(columns) > 0).all()
        assert (matrix[first : first + width, columns] != 0).any(axis=0).all()
        covered[first : first + width, columns] = True
    assert covered[matrix != 0].all()
    assert lists.entries * width == round(lists.density * matrix.size)
    places = lists.places()
    group, lane = places // width, places % width
    assert (lists.firsts[group] + lane == np.arange(rows)).all()


def test_tasks_get_equal_shares_of_unequal_lists() -> None:
    matrix = np.zeros((8, 64), "float32")
    for row, length in enumerate([40, 38, 3, 4, 36, 2, 1, 39]):
        matrix[row, :length] = 1
    lengths = find_lists(matrix, 1, tasks=2).lengths
    assert sorted(lengths) == [1, 2, 3, 4, 36, 38, 39, 40]
    assert abs(lengths[:4].sum() - lengths[4:].sum()) <= 2
    in_order = find_lists(matrix, 1).lengths
    assert abs(in_order[:4].sum() - in_order[4:].sum()) > 2


@pytest.mark.parametrize("width", [0, 5])
def test_a_group_has_rows_of_the_matrix(width: int) -> None:
    with pytest.raises(ValueError, match=rf"expected 1 to 4.*found {width}"):
        find_lists(np.ones((4, 3)), width)
