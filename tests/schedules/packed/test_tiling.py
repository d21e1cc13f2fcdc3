"""How products with packed weights are divided: registers are enough, cores end together."""

from __future__ import annotations

import pytest

from tests.schedules.blocked_blocks import AVX2, AVX512, NEON
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.packed.tiling import (
    FLOATS,
    ROUNDED,
    Held,
    chains_of,
    default_panels,
    default_rows,
    most_rows,
    panel_choices,
)


@pytest.mark.parametrize(("panels", "choices"), [(36, (1, 2, 4)), (6, (1, 2)), (7, (1,))])
def test_a_task_has_whole_panels(panels: int, choices: tuple[int, ...]) -> None:
    assert panel_choices(panels) == choices


@pytest.mark.parametrize(
    ("held", "panels", "rows", "expected"),
    [
        *[(FLOATS, 3072, 1, 4), (FLOATS, 36, 1, 2), (FLOATS, 3072, 16, 2), (FLOATS, 3, 1, 1)],
        *[(FLOATS, 4, 1, 2), (ROUNDED, 3072, 1, 1), (ROUNDED, 36, 16, 2), (ROUNDED, 3, 16, 1)],
        (ROUNDED, 2, 16, 1),
    ],
)
def test_more_panels_where_cores_end_together(
    held: Held, panels: int, rows: int, expected: int
) -> None:
    assert default_panels(panels, rows, AVX512, held) == expected


@pytest.mark.parametrize("held", [FLOATS, ROUNDED], ids=["floats", "rounded"])
@pytest.mark.parametrize("cpu", [AVX2, AVX512, NEON], ids=["AVX2", "AVX512", "NEON"])
@pytest.mark.parametrize("rows", [1, 2, 5, 16, 64])
def test_sums_and_weights_fit_registers(cpu: Cpu, rows: int, held: Held) -> None:
    for panels in {1, 2, default_panels(64, rows, cpu, held)}:
        height = default_rows(rows, panels, cpu, held)
        assert 1 <= height <= min(rows, most_rows(panels, cpu, held))
        sums = height * panels * chains_of(height, panels, cpu)
        assert sums <= max(cpu.sums_to_hide_latency, height * panels)
        used = held.sums * height * panels + held.a_panel * panels + held.others
        assert used <= cpu.registers


def test_tiles_are_alike() -> None:
    assert most_rows(2, AVX512, FLOATS) == 12
    assert default_rows(16, 2, AVX512, FLOATS) == 8
    assert default_rows(64, 2, AVX512, FLOATS) == 11
    assert most_rows(2, AVX512, ROUNDED) == 6
    assert default_rows(64, 2, AVX512, ROUNDED) == 6


def test_a_lone_row_has_sums_that_take_turns() -> None:
    assert AVX512.sums_to_hide_latency == 8
    assert chains_of(1, 2, AVX512) == 4
    assert chains_of(1, 4, AVX512) == 2
    assert chains_of(8, 2, AVX512) == 1
