"""Tiles whose instruction multiplies two rows by two columns: pairs of rows that fit."""

from __future__ import annotations

import pytest

from tvm_fusionx.schedules import describe_cpu, resolve_target
from tvm_fusionx.schedules.parts.matrix_tiles import (
    FREE_REGISTERS,
    MOST_VECTORS,
    most_rows,
    rows_of,
    vectors_of,
)

CPU = describe_cpu(resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n2"))


@pytest.mark.parametrize("vectors", range(1, MOST_VECTORS + 1))
@pytest.mark.parametrize("rows", [2, 3, 7, 13, 128, 197])
def test_tiles_are_pairs_of_rows_and_fit(rows: int, vectors: int) -> None:
    height = rows_of(rows, vectors, CPU)
    assert height % 2 == 0
    assert height <= min(rows, most_rows(vectors, CPU))
    held = height * vectors + height // 2 + 2 * vectors
    assert held + FREE_REGISTERS <= CPU.registers


def test_one_row_is_a_tile() -> None:
    assert rows_of(1, 4, CPU) == 1


def test_a_height_that_divides_the_rows_lays_them_side_by_side() -> None:
    # Rows that lie apart take three loads a pair, those side by side half of one.
    assert rows_of(128, 2, CPU) == 8
    assert 12 % rows_of(12, 2, CPU) == 0


@pytest.mark.parametrize("columns", [4, 24, 40, 384, 1000, 1536])
@pytest.mark.parametrize("rows", [1, 6, 128])
def test_panels_are_whole(rows: int, columns: int) -> None:
    vectors = vectors_of(rows, columns, CPU)
    assert 1 <= vectors <= MOST_VECTORS
    assert columns % (vectors * CPU.lanes) == 0


def test_a_panel_leaves_room_for_rows() -> None:
    assert vectors_of(128, 384, CPU) == 2
