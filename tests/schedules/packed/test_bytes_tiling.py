"""How products of bytes are divided: registers are enough, cores end together."""

from __future__ import annotations

import pytest

from tests.schedules.blocked_blocks import AVX2, AVX512, NEON
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.packed.bytes_tiling import (
    default_panels,
    default_rows,
    most_rows,
    panel_choices,
)


@pytest.mark.parametrize(("panels", "choices"), [(36, (1, 2, 4)), (6, (1, 2)), (7, (1,))])
def test_a_task_has_whole_panels(panels: int, choices: tuple[int, ...]) -> None:
    assert panel_choices(panels) == choices


@pytest.mark.parametrize(
    ("panels", "rows", "expected"), [(3072, 1, 1), (36, 16, 2), (3, 16, 1), (2, 16, 1)]
)
def test_more_panels_where_rows_share_them(panels: int, rows: int, expected: int) -> None:
    assert default_panels(panels, rows, AVX512) == expected


@pytest.mark.parametrize("cpu", [AVX2, AVX512, NEON], ids=["AVX2", "AVX512", "NEON"])
@pytest.mark.parametrize("rows", [1, 2, 5, 16, 64])
def test_sums_and_words_fit_registers(cpu: Cpu, rows: int) -> None:
    for panels in {1, 2, default_panels(64, rows, cpu)}:
        height = default_rows(rows, panels, cpu)
        assert 1 <= height <= min(rows, most_rows(panels, cpu))
        assert 2 * height * panels + 2 * panels + 2 <= cpu.registers


def test_tiles_are_alike() -> None:
    assert most_rows(2, AVX512) == 6
    assert default_rows(64, 2, AVX512) == 6
    assert default_rows(16, 2, AVX512) == 6
