"""How sparse products are divided: registers are enough, and fewer entries cost less."""

from __future__ import annotations

import pytest

from tests.schedules.blocked_blocks import AVX2, AVX512, NEON
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.sparse.product_of import dense_product
from tvm_fusionx.sparse.tiling import best_tiling, chains_of, cycles, entry_cycles, most_places


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


def test_most_places() -> None:
    assert most_places(2, AVX512) == 14
    assert most_places(1, AVX2) == 14
    assert most_places(4, AVX2) == 2
