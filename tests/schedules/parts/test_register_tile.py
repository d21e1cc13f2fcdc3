"""The register tile leaves room for the weights and the broadcast element."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.schedules.blocked_blocks import AVX2, AVX512
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.register_tile import (
    RegisterTile,
    max_rows,
    panel_width,
    sum_parts,
    tile_for,
    tile_rows,
    tile_steps,
)

NEON = Cpu(lanes=4, registers=32, cores=4)


@pytest.mark.parametrize("cpu", [AVX2, AVX512, NEON])
@pytest.mark.parametrize("rows", [1, 7, 13, 128])
@pytest.mark.parametrize("columns", [16, 50, 384])
def test_a_tile_fits_the_registers(cpu: Cpu, rows: int, columns: int) -> None:
    tile = tile_for(rows, columns, cpu)
    assert tile.rows * tile.vectors + tile.vectors + 1 <= cpu.registers
    assert 1 <= tile.rows <= max(1, rows)


def test_a_divisor_is_preferred_to_a_taller_tile() -> None:
    assert 128 % tile_rows(128, 3, AVX2) == 0
    assert tile_rows(128, 2, AVX512) == max_rows(2, AVX512) == 8


def test_a_prime_number_of_rows_wastes_little() -> None:
    rows = tile_rows(127, 2, AVX512)
    assert -127 % rows <= 1


@pytest.mark.parametrize(
    ("columns", "rows", "width"),
    [
        # 125 panels of one vector each would add to one sum at a time.
        (1000, 1, 40),
        (1024, 1, 32),
        (768, 2, 32),
        # Two tiles would read the weights twice.
        (1000, 3, 24),
        (8, 1, 32),
    ],
)
def test_few_rows_take_panels_of_several_sums(columns: int, rows: int, width: int) -> None:
    assert panel_width(columns, rows, AVX2) == width


@pytest.mark.parametrize(("columns", "width"), [(384, 24), (64, 16), (16, 16)])
def test_panels_pad_little(columns: int, width: int) -> None:
    found = panel_width(columns, 128, AVX2)
    assert -columns % found <= -columns % width


# Padding alone would make panels of one vector, or of two in tiles of four rows: eight sums.
@pytest.mark.parametrize(
    ("columns", "rows", "width"),
    [(50257, 128, 24), (6625, 40, 24), (512, 128, 24), (2048, 128, 24), (128, 128, 16)],
)
def test_a_little_padding_is_less_than_waiting(columns: int, rows: int, width: int) -> None:
    assert panel_width(columns, rows, AVX2) == width


def test_three_vectors_where_two_multiply_adds_begin_in_a_cycle() -> None:
    assert tile_for(128, 768, AVX512) == RegisterTile(8, 3)
    assert tile_for(128, 768, NEON) == RegisterTile(8, 3)
    assert tile_for(128, 768, replace(AVX512, multiply_add_bits=256)) == RegisterTile(8, 2)
    # A little core begins one as well, and has no loads to spare beside it.
    little = replace(NEON, multiply_add_bits=64, loads_a_cycle=0.5)
    assert tile_for(128, 768, little) == RegisterTile(8, 3)
    # 128 columns would pad to 144.
    assert tile_for(128, 128, AVX512) == RegisterTile(8, 2)


@pytest.mark.parametrize(("terms", "vectors"), [(2048, 3), (3072, 2), (4096, 2)])
def test_two_panels_fit_a_cache_whose_next_is_far(terms: int, vectors: int) -> None:
    far = replace(AVX512, exchanges_slowly=True, l2_bytes=1 << 21)
    assert panel_width(2304, 128, far, terms) == vectors * far.lanes
    assert panel_width(2304, 128, AVX512, terms) == 3 * far.lanes


@pytest.mark.parametrize(
    ("rows", "terms", "parts"),
    [
        (128, 3072, 1),
        (128, 5632, 8),
        (128, 8192, 8),
        (100, 12544, 14),
        (1, 8192, 1),
        (128, 8191, 1),
    ],
    ids=[
        "fits",
        "5,632 terms",
        "8,192 terms",
        "12,544 terms",
        "one row",
        "a prime number of terms",
    ],
)
def test_long_sums_are_cut_where_the_next_cache_is_far(rows: int, terms: int, parts: int) -> None:
    far = replace(AVX512, exchanges_slowly=True, l2_bytes=1 << 21)
    assert sum_parts(rows, terms, far) == parts
    assert sum_parts(rows, terms, AVX512) == 1
    if parts > 1:
        # Parts fit, so panels are as wide as those of short sums.
        assert panel_width(2304, rows, far, terms) == 3 * far.lanes


def test_sums_are_unrolled_where_registers_are_many() -> None:
    assert [tile_steps(8, 2, cpu) for cpu in (AVX2, AVX512, NEON)] == [1, 4, 4]


def test_rows_without_a_divisor_fill_the_registers() -> None:
    assert tile_for(197, 3072, AVX2) == RegisterTile(4, 3)
    assert tile_rows(197, 2, AVX2) == 6
