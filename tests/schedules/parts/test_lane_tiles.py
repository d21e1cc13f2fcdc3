"""Tiles whose multiply-adds take the shared operand from lanes fit the registers."""

from __future__ import annotations

import pytest

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.lane_tiles import (
    TURN_INSTRUCTIONS,
    cost,
    fits,
    most_rows,
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
