"""Rows are summed side by side as far as that saves time on the core that has most of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.rows.side_by_side import rows_side_by_side

CPU = Cpu(lanes=8, registers=16, cores=2)


@pytest.mark.parametrize(
    ("rows", "cores", "most", "together"),
    [
        (1, 2, 8, 1),
        (2, 2, 8, 1),
        (4, 2, 8, 2),
        (3, 2, 8, 3),
        (144, 2, 8, 6),
        (144, 2, 4, 4),
        (144, 2, 1, 1),
        (13, 1, 8, 1),
        (13, 1, 16, 13),
    ],
)
def test_groups(rows: int, cores: int, most: int, together: int) -> None:
    assert rows_side_by_side(rows, cores, most, CPU) == together


@given(st.integers(1, 500), st.integers(1, 16), st.integers(1, 16))
def test_groups_divide_the_rows_and_never_hold_too_many(rows: int, cores: int, most: int) -> None:
    together = rows_side_by_side(rows, cores, most, CPU)
    assert rows % together == 0
    assert 1 <= together <= most
