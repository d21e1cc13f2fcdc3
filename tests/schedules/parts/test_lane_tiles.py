"""Tiles whose multiply-adds take the shared operand from lanes fit the registers."""

from __future__ import annotations

import pytest

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.lane_tiles import (
    LEAST_COLUMNS_OF_ROWS,
    TURN_INSTRUCTIONS,
    cost,
    cost_by_rows,
    fits,
    lays_rows,
    most_rows,
    pays_to_lay_rows,
    tallest_by_rows,
    turn_terms,
)

NEON = Cpu(lanes=4, registers=32, cores=1, multiplies_by_lane=True)


@pytest.mark.parametrize(("vectors", "rows"), [(1, 14), (2, 9), (3, 6), (4, 5), (5, 4), (6, 3)])
def test_the_tallest_tile_fits_and_a_taller_one_does_not(vectors: int, rows: int) -> None:
    assert most_rows(vectors, NEON) == rows
    assert fits(rows, vectors, NEON)
    assert not fits(rows + 1, vectors, NEON)


def test_a_tile_of_many_vectors_has_a_row() -> None:
    assert most_rows(40, NEON) == 1


def test_cost_counts_instructions() -> None:
    # A turn of 7 x 3: 7 vectors of shared elements and 12 of weights for 84 multiply-adds.
    assert cost(7, 3, NEON, 4) == pytest.approx((84 + 7 + 12 + TURN_INSTRUCTIONS) / 84)
    # Two multiply-adds of 4 cycles begin in each, so four sums wait half of the time.
    assert cost(2, 2, NEON, 4) == pytest.approx(2 * (16 + 2 + 8 + TURN_INSTRUCTIONS) / 16)


def test_full_registers_take_a_jump_more_often() -> None:
    assert [turn_terms(9, 2, NEON), turn_terms(5, 4, NEON)] == [4, 4]
    assert [turn_terms(8, 2, NEON), turn_terms(6, 3, NEON)] == [8, 8]
    assert cost(6, 3, NEON, 8) < cost(6, 3, NEON, 4)


@pytest.mark.parametrize(("vectors", "rows"), [(1, 20), (2, 12), (3, 8), (4, 4), (5, 4), (9, 0)])
def test_the_tallest_tile_of_rows_side_by_side(vectors: int, rows: int) -> None:
    assert tallest_by_rows(vectors, NEON) == rows
    assert not rows or lays_rows(rows, vectors, NEON) or fits(rows, vectors, NEON)


def test_rows_side_by_side_take_fewer_loads() -> None:
    # A turn of 8 x 3: two vectors of rows and three of weights for each of eight terms.
    assert cost_by_rows(8, 3, NEON) == pytest.approx((192 + 40 + TURN_INSTRUCTIONS) / 192)
    assert lays_rows(8, 3, NEON)
    assert not lays_rows(6, 3, NEON)
    assert not lays_rows(12, 3, NEON)


def test_rows_are_laid_where_many_columns_use_them() -> None:
    few = LEAST_COLUMNS_OF_ROWS - 1
    wide = LEAST_COLUMNS_OF_ROWS
    assert pays_to_lay_rows(8, wide, NEON)
    assert not pays_to_lay_rows(8, few, NEON)
    assert not pays_to_lay_rows(3, wide, NEON)
    assert not pays_to_lay_rows(8, wide, Cpu(lanes=8, registers=16, cores=1))
