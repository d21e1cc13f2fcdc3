"""The divisions chosen for the layers of a depthwise-separable net."""

from __future__ import annotations

import math
from functools import cache

import pytest

from tests.depthwise_pairs import pair
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import AVX2, AVX512, describe
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.windows.depthwise_pointwise_structure import Pair, find_pair
from tvm_fusionx.schedules.windows.depthwise_pointwise_tiling import (
    best_pair_rows,
    best_pair_tiling,
    buffer_bytes,
    pair_pixel_tiles,
    pair_row_choices,
    task_pixels,
)
from tvm_fusionx.schedules.windows.tiling import depthwise_columns

LAYERS = [(32, 112, 64, 1), (64, 112, 128, 2), (128, 56, 128, 1), (512, 14, 512, 1)]


@cache
def _pair(channels: int, size: int, outputs: int, stride: int) -> Pair:
    body = pair(channels, (size, size), outputs, block=16, out_block=16, stride=stride)
    found = find_pair(describe(body, AVX512))
    assert isinstance(found, Pair)
    return found


@pytest.mark.parametrize("layer", few_fast(LAYERS, 1))
@pytest.mark.parametrize("cpu", [AVX2, AVX512])
def test_the_depthwise_result_of_a_task_stays_in_cache(
    layer: tuple[int, int, int, int], cpu: Cpu
) -> None:
    found = _pair(*layer)
    window = found.depthwise
    row = window.out_blocks * window.columns * window.block_out * FLOAT_BYTES
    for rows in pair_row_choices(found, cpu):
        assert rows * row <= buffer_bytes(cpu)


@pytest.mark.parametrize("layer", LAYERS)
def test_cores_get_equal_shares(layer: tuple[int, int, int, int]) -> None:
    found = _pair(*layer)
    assert math.ceil(found.depthwise.rows / best_pair_rows(found, AVX512)) % AVX512.cores == 0


def test_a_row_too_large_for_the_cache_is_a_task() -> None:
    small = Cpu(lanes=16, registers=32, cores=2, l2_bytes=2048)
    assert pair_row_choices(_pair(128, 56, 128, 1), small) == [1]


@pytest.mark.parametrize("layer", few_fast(LAYERS, 1))
@pytest.mark.parametrize("cpu", [AVX2, AVX512])
def test_tiles_fit_the_registers(layer: tuple[int, int, int, int], cpu: Cpu) -> None:
    found = _pair(*layer)
    tiling = best_pair_tiling(found, cpu)
    assert tiling.columns + found.depthwise.kernel[1] < cpu.registers
    assert tiling.tile.sums + tiling.tile.chunks < cpu.registers
    assert tiling.columns == depthwise_columns(found.depthwise, cpu)[0]
    assert tiling.tile == pair_pixel_tiles(found, tiling.rows, cpu)[0]


def test_pixels_are_counted_across_rows() -> None:
    assert pair_pixel_tiles(_pair(512, 14, 512, 1), 7, AVX512)[0].columns == 14


def test_odd_rows_are_shared_pixel_by_pixel() -> None:
    found = _pair(512, 19, 512, 1)
    assert task_pixels(found, 5, AVX512) == (91, 6)
    assert task_pixels(found, 10, AVX512) == (181, 10)
    # Fewer tasks read the weights of all channels less often.
    assert best_pair_rows(found, AVX512) == 10
    # Rows that divide evenly stay whole, and so do those of which a few pixels would be saved.
    assert task_pixels(_pair(512, 14, 512, 1), 7, AVX512) == (98, 7)
    assert task_pixels(_pair(128, 75, 128, 1), 2, AVX512) == (150, 2)
    # Nor does a buffer grow out of the cache.
    small = Cpu(lanes=16, registers=32, cores=2, l2_bytes=1 << 18)
    assert task_pixels(found, 5, small) == (95, 5)


def test_weights_from_the_second_level_cache_meet_several_pixels() -> None:
    found = _pair(128, 75, 256, 2)
    tiling = best_pair_tiling(found, AVX512)
    assert tiling.tile.columns >= 4
    assert tiling.pixels * math.ceil(38 / tiling.rows) < 38 * 38 + tiling.rows * 38
