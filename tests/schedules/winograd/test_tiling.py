"""How minimal filtering is divided, and when it is estimated to pay."""

from __future__ import annotations

import dataclasses
import math

import pytest

from tests.schedules.blocked_blocks import AVX2, AVX512, NEON
from tests.schedules.winograd_convolution import problem
from tvm_fusionx.expressions.minimal_filtering import FILTERINGS
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.windows.output_vectors import joined_chunks
from tvm_fusionx.schedules.winograd.tiling import (
    Cut,
    best_cut,
    cached_bytes,
    column_choices,
    cut_cycles,
    depth_choices,
    direct_cycles,
    lanes_read,
    panel_channels,
    product_cycles,
    ready_bytes,
    tile_choices,
)


@pytest.mark.parametrize(
    ("outputs", "panel", "of_few_registers", "by_lanes"),
    [
        (64, 32, 16, 16),
        (96, 32, 24, 16),
        (24, 24, 24, 8),
        (16, 16, 16, 16),
        (40, 8, 8, 8),
        (56, 8, 8, 8),
    ],
)
def test_panels_divide_the_channels_and_leave_room_for_sums(
    outputs: int, panel: int, of_few_registers: int, by_lanes: int
) -> None:
    assert panel_channels(outputs, 8, AVX512) == panel
    assert panel_channels(outputs, 8, AVX2) == of_few_registers
    # A chunk of eight takes two of the 32 registers: four of weights load least for a product.
    assert panel_channels(outputs, 8, NEON) == by_lanes


@pytest.mark.parametrize("block", [2, 4, 8])
@pytest.mark.parametrize("outputs", [8, 16, 24, 32, 48])
def test_sums_weights_and_what_lanes_are_of_fit_the_registers(outputs: int, block: int) -> None:
    panel = panel_channels(outputs, block, NEON)
    sized = dataclasses.replace(problem(32, 56, 4, outputs, cpu=NEON), panel=panel)
    shape = (*sized.out_shape[:1], outputs // block, *sized.out_shape[2:4], block)
    sized = dataclasses.replace(
        sized, out_shape=shape, joined=joined_chunks(panel // block, block, NEON)
    )
    row = sized.panel_vectors.number * math.ceil(sized.panel_vectors.lanes / NEON.lanes)
    assert lanes_read(sized, NEON) == NEON.lanes
    columns = column_choices(sized, NEON)
    assert all(each * row + each + row < NEON.registers for each in columns)
    # As many as fit: another would leave no register free.
    most = max(columns) + 1
    assert most * (row + 1) + row >= NEON.registers - 1


def test_channels_that_fill_no_vector_are_read_one_by_one() -> None:
    sized = problem(32, 56, 4, cpu=NEON)
    narrow = dataclasses.replace(sized, in_shape=(*sized.in_shape[:4], 6))
    assert lanes_read(narrow, NEON) == 1
    assert lanes_read(sized, AVX2) == lanes_read(sized, AVX512) == 1


@pytest.mark.parametrize("cpu", [AVX2, AVX512])
@pytest.mark.parametrize("outputs", [8, 16, 24, 32])
def test_sums_weights_and_a_broadcast_fit_the_registers(cpu: Cpu, outputs: int) -> None:
    sized = problem(32, 56, 4, outputs, cpu=cpu)
    vectors = sized.panel_vectors.number
    assert all(each * vectors + vectors + 1 <= cpu.registers for each in column_choices(sized, cpu))


@pytest.mark.parametrize("cpu", [AVX2, AVX512])
@pytest.mark.parametrize("tile", FILTERINGS)
@pytest.mark.parametrize(("channels", "size"), [(64, 56), (24, 13), (512, 7), (8, 1)])
def test_the_best_division_is_valid(cpu: Cpu, tile: int, channels: int, size: int) -> None:
    sized = problem(channels, size, tile, cpu=cpu)
    cut = best_cut(sized, cpu)
    assert cut.tiles in tile_choices(sized)
    assert sized.panels % cut.panel_tasks == 0
    assert cut.columns in column_choices(sized, cpu)
    assert cut.columns <= cut.tiles


def test_every_core_has_work_and_the_same() -> None:
    for channels, size in ((64, 56), (128, 28), (256, 14)):
        sized = problem(channels, size, 4)
        cut = best_cut(sized, AVX512)
        tasks = -(-sized.tiles // cut.tiles) * cut.panel_tasks
        assert tasks % AVX512.cores == 0


def test_few_tiles_share_the_weights_between_tasks() -> None:
    # Weights are most of the traffic: no two tasks read the same.
    assert best_cut(problem(256, 14, 4), AVX512) == Cut(16, 2, 8, 256 // 8)


def test_weights_beyond_the_cache_prefer_small_tiles() -> None:
    wide, narrow = problem(512, 7, 4), problem(512, 7, 2)
    assert cut_cycles(wide, best_cut(wide, AVX512), AVX512) > cut_cycles(
        narrow, best_cut(narrow, AVX512), AVX512
    )


def test_a_quarter_of_the_products_is_not_a_quarter_of_the_time() -> None:
    sized = problem(64, 56, 4)
    estimated = cut_cycles(sized, best_cut(sized, AVX512), AVX512)
    assert direct_cycles(sized, AVX512) / 4 < estimated < direct_cycles(sized, AVX512) / 2


def test_partial_tiles_of_registers_cost_a_whole_one() -> None:
    sized = problem(64, 56, 4)
    assert product_cycles(sized, Cut(11, 1, 5), AVX512) == product_cycles(
        sized, Cut(15, 1, 5), AVX512
    )


@pytest.mark.parametrize(("channels", "size"), [(64, 280), (64, 224), (128, 138)])
def test_the_buffers_of_all_tasks_stay_in_the_last_level_cache(channels: int, size: int) -> None:
    sized = problem(channels, size, 4)
    cut = best_cut(sized, AVX512)
    held = sized.filtering.points * cut.tiles * (sized.in_channels + sized.panel) * FLOAT_BYTES
    assert AVX512.cores * held <= cached_bytes(AVX512)


@pytest.mark.parametrize("cpu", [AVX2, AVX512])
@pytest.mark.parametrize(("channels", "size"), [(512, 14), (64, 56), (24, 13)])
def test_weights_that_the_kernel_transforms_stay_in_the_second_level_cache(
    cpu: Cpu, channels: int, size: int
) -> None:
    sized = problem(channels, size, 4, transforms_weights=True)
    cut = best_cut(sized, cpu)
    assert cut.depth in depth_choices(sized)
    assert ready_bytes(sized, cut.depth) <= cpu.l2_for_kernel_bytes


def test_weights_that_the_kernel_transforms_are_a_quarter_of_the_others() -> None:
    stored, raw = (problem(512, 14, 4, transforms_weights=each) for each in (False, True))
    assert stored.weight_bytes == 4 * raw.weight_bytes


def test_many_weights_and_few_tiles_are_transformed_by_the_kernel() -> None:
    for channels, size, is_faster in ((1024, 14, True), (512, 7, True), (64, 56, False)):
        stored, raw = (
            problem(channels, size, 4, transforms_weights=each) for each in (False, True)
        )
        best = [cut_cycles(each, best_cut(each, AVX512), AVX512) for each in (stored, raw)]
        assert (best[1] < best[0]) is is_faster


def test_parts_of_the_channels_need_whole_register_tiles() -> None:
    assert Cut(16, 1, 6, 2).whole_tiles == 18
    assert Cut(18, 1, 6, 2).whole_tiles == 18
