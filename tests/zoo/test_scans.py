"""Scans are as they say, and the same each time."""

from __future__ import annotations

import numpy as np

from tvm_fusionx.zoo.scans import occupied_cells, pillars


def test_cells_are_empty_or_not_and_reflect_where_they_are_not() -> None:
    cells = occupied_cells(5, 40, 30)
    assert cells.shape == (1, 5, 40, 30)
    assert cells.dtype == np.float32
    assert set(np.unique(cells[:, :-1])) == {0.0, 1.0}
    assert ((cells[:, -1] > 0) <= (cells[:, :-1].max(1) > 0)).all()
    np.testing.assert_array_equal(cells, occupied_cells(5, 40, 30))


def test_pillars_stand_apart_and_end_in_zeros() -> None:
    points, places = pillars(50, 8, 9, 60)
    assert points.shape == (50, 8, 9)
    assert points.dtype == np.float32
    assert len(set(places.tolist())) == 50
    assert 0 <= places.min() <= places.max() < 60
    is_there = points.any(-1)
    assert is_there[:, 0].all()
    assert not (is_there[:, 1:] & ~is_there[:, :-1]).any()
    np.testing.assert_array_equal(points, pillars(50, 8, 9, 60)[0])
