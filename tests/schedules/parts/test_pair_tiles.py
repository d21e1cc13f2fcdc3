from __future__ import annotations

import pytest

from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.parts.pair_tiles import (
    PAIR_REGISTERS,
    fits,
    pairs_of_word,
    rows_of_pairs,
    word_instructions,
)

ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu="


def _cpu(core: str) -> Cpu:
    return describe_cpu(resolve_target(ARM + core))


PAIRS, WORDS = _cpu("cortex-a72"), _cpu("cortex-a76")


def test_a_word_is_two_pairs_where_products_are_added_in_words() -> None:
    assert (pairs_of_word(PAIRS), pairs_of_word(WORDS)) == (2, 1)


def test_instructions_of_a_word() -> None:
    # Two products and an addition of neighbours for each vector of sums, two copies a pixel.
    assert word_instructions(16, 4, PAIRS) == 16 * 3 + 4 * 2
    assert word_instructions(16, 4, WORDS) == 16


@pytest.mark.parametrize("vectors", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("rows", [1, 4, 7, 13, 128])
def test_tiles_of_matrices_fit(rows: int, vectors: int) -> None:
    height = rows_of_pairs(rows, vectors, PAIRS)
    assert 1 <= height <= rows
    assert fits(height, vectors, PAIRS)
    assert height * vectors + 2 * vectors + height + PAIR_REGISTERS <= PAIRS.registers


def test_the_tallest_tile_is_not_taken_where_rows_are_left() -> None:
    """Eight rows are two tiles of four: one of seven would be followed by another for one row."""
    assert fits(7, 2, PAIRS)
    assert not fits(8, 2, PAIRS)
    assert rows_of_pairs(8, 2, PAIRS) == 4
    assert rows_of_pairs(14, 2, PAIRS) == 7
