"""How recurrent layers are divided: registers are enough, units are covered, cores have work."""

from __future__ import annotations

import pytest

from tests.recurrent_layers import USUAL
from tests.schedules.blocked_blocks import AVX2, AVX512, NEON
from tvm_fusionx.operators.recurrent_layer import GRU, LSTM, RNN, Layer
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.recurrent.tiling import (
    chains_of,
    default_tile,
    group_count,
    most_slices,
    row_choices,
    unit_choices,
)


def _layer(kind: str, batch: int, hidden: int, directions: int = 1) -> Layer:
    return Layer(kind, 4, batch, hidden, (False, True)[:directions], USUAL[kind])


@pytest.mark.parametrize("cpu", [AVX2, AVX512, NEON], ids=["AVX2", "AVX512", "NEON"])
@pytest.mark.parametrize("kind", [LSTM, GRU, RNN])
@pytest.mark.parametrize("batch", [1, 2, 7, 64])
def test_a_tile_fits_the_registers(cpu: Cpu, kind: str, batch: int) -> None:
    for hidden in (5, 64, 100, 256):
        layer = _layer(kind, batch, hidden)
        rows, units = default_tile(layer, cpu)
        assert rows in row_choices(layer)
        assert units in unit_choices(layer, cpu)
        sums = rows * units // cpu.lanes * max(map(len, layer.phases))
        assert sums + 2 <= cpu.registers
        assert sums * chains_of(sums, cpu) <= max(sums, cpu.sums_to_hide_latency)


def test_units_are_parts_of_a_panel_or_panels_that_divide_all() -> None:
    assert unit_choices(_layer(LSTM, 1, 256), AVX2) == (8, 16, 32, 64)
    assert unit_choices(_layer(LSTM, 1, 80), AVX512) == (16,)
    assert unit_choices(_layer(LSTM, 1, 96), NEON) == (4, 8, 16, 32, 48)


def test_one_sequence_takes_panels_side_by_side_where_gates_are_few() -> None:
    assert (
        default_tile(_layer(RNN, 1, 256), AVX512)[1] > default_tile(_layer(LSTM, 8, 256), AVX512)[1]
    )


@pytest.mark.parametrize(
    ("batch", "directions", "slices"), [(1, 1, 1), (8, 1, 2), (8, 2, 1), (1, 2, 1)]
)
def test_cores_share_directions_then_sequences(batch: int, directions: int, slices: int) -> None:
    assert most_slices(_layer(LSTM, batch, 64, directions), AVX2) == slices


def test_groups_cover_the_units_without_an_empty_one() -> None:
    for hidden in (16, 100, 512, 1000):
        layer = _layer(LSTM, 1, hidden)
        groups = group_count(layer, 16, AVX2)
        blocks = -(-hidden // 16)
        share = -(-blocks // groups)
        assert (groups - 1) * share < blocks <= groups * share


@pytest.mark.parametrize("cpu", [AVX2, AVX512, NEON], ids=["AVX2", "AVX512", "NEON"])
def test_sequences_share_weights_that_no_first_level_cache_holds(cpu: Cpu) -> None:
    assert default_tile(_layer(LSTM, 8, 320), cpu)[0] > 1
