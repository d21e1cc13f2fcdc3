"""How sparse products are divided: registers are enough, and fewer entries cost less."""

from __future__ import annotations

import pytest

from tests.schedules.blocked_blocks import AVX2, AVX512, NEON
from tests.schedules.sparse_blocks import Window
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.sparse.product_of import dense_product, window_product
from tvm_fusionx.sparse.tiling import (
    Tiling,
    best_tiling,
    chains_of,
    cycles,
    entry_cycles,
    gathering_cycles,
    most_places,
    turning_cycles,
)


@pytest.mark.parametrize("cpu", [AVX2, AVX512, NEON], ids=["AVX2", "AVX512", "NEON"])
@pytest.mark.parametrize("rows", [1, 5, 128])
@pytest.mark.parametrize("vectors", [1, 2, 4])
def test_sums_fit_registers(cpu: Cpu, rows: int, vectors: int) -> None:
    product = dense_product(rows, 256, 8, 400, vectors, cpu.lanes)
    tiling = best_tiling(product, cpu)
    sums = tiling.places * vectors
    assert sums + vectors + 1 <= cpu.registers
    assert tiling.columns <= tiling.task_columns <= rows
    assert product.groups % tiling.group_parts == 0


def test_a_lone_row_has_sums_that_take_turns() -> None:
    assert chains_of(1, 1, AVX512) == 4
    assert chains_of(1, 4, AVX512) == 2
    assert chains_of(12, 2, AVX512) == 1
    assert entry_cycles(1, 4, AVX512) < entry_cycles(12, 2, AVX512)


def test_cycles_follow_entries() -> None:
    def cost(entries: int, rows: int = 128) -> float:
        product = dense_product(rows, 768, 24, entries, 2, 16)
        return cycles(product, best_tiling(product, AVX512), AVX512)

    assert cost(2000) < cost(4000) < 2.2 * cost(2000)
    assert cost(2000, rows=128) > cost(2000, rows=32)


def test_far_places_are_turned_where_lists_are_many() -> None:
    def tiling(columns: int) -> Tiling:
        return best_tiling(dense_product(128, 3072, columns // 16, 24 * columns, 1, 16), AVX512)

    assert tiling(768).is_turned
    assert not tiling(16).is_turned
    assert turning_cycles(dense_product(8, 64, 1, 1, 1, 16), 8) < turning_cycles(
        dense_product(8, 64, 1, 1, 1, 16), 24
    )


def test_large_images_are_gathered_in_pieces() -> None:
    window = Window(1, 256, 256, 56, 56, lanes=16)
    product = window_product(1, window.geometry, 16, 16 * 288, 1, 16)
    best = best_tiling(product, AVX512)
    assert product.gathered(best.task_rows) * 4 <= AVX512.l2_for_kernel_bytes
    assert gathering_cycles(product, 56, AVX512) > 3 * gathering_cycles(product, 14, AVX512)


def test_most_places() -> None:
    assert most_places(2, AVX512) == 14
    assert most_places(1, AVX2) == 14
    assert most_places(4, AVX2) == 2
