"""How convolutions over planes are cut."""

from __future__ import annotations

import pytest

from tests.schedules.blocked_blocks import AVX2, AVX512, NEON, describe
from tests.schedules.frame_blocks import along
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.windows.along_frames_tiling import (
    FrameTile,
    best_frame_tasks,
    frame_row_choices,
    frame_tile_cost,
    frame_tiles,
    panels_of,
    slab_bytes,
)
from tvm_fusionx.schedules.windows.structure import Window, find_window

CPUS = (AVX2, AVX512, NEON)


def window(channels: int, size: tuple[int, int], outputs: int, kernel: int = 3) -> Window:
    found = find_window(describe(along(channels, size, outputs, kernel)))
    assert isinstance(found, Window)
    return found


@pytest.mark.parametrize(
    ("columns", "vectors", "panels"),
    [(96, 3, [3, 3, 3, 3]), (77, 3, [3, 3, 3, 1]), (49, 6, [6, 1]), (95, 3, [3, 3, 3, 3])],
)
def test_the_last_panel_is_as_wide_as_what_is_left(
    columns: int, vectors: int, panels: list[int]
) -> None:
    assert panels_of(columns, vectors, 8) == panels
    assert 0 <= sum(panels) * 8 - columns < 8


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("size", [(8, 3136), (8, 784), (4, 196)])
def test_sums_columns_and_a_weight_fit_the_registers(cpu: Cpu, size: tuple[int, int]) -> None:
    layer = window(192, size, 192)
    tiles = frame_tiles(layer, cpu)
    assert all(tile.sums + tile.vectors < cpu.registers for tile in tiles)
    best = tiles[0]
    # Enough of them that multiply-adds wait neither for one another nor for what they read.
    assert best.sums >= 12
    assert frame_tile_cost(best, layer, cpu) < 1.25


def test_channels_and_vectors_share_the_loads() -> None:
    layer = window(64, (8, 12544), 64)
    assert frame_tiles(layer, AVX512)[0] == FrameTile(8, 3)
    assert frame_tiles(layer, AVX2)[0] == FrameTile(4, 3)


def test_few_columns_leave_no_tile() -> None:
    assert frame_tiles(window(16, (4, 7), 16), AVX2) == []


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    "layer", [(64, (16, 12544), 64), (192, (8, 784), 192), (320, (4, 196), 320)]
)
def test_cores_share_evenly_what_their_caches_hold(
    cpu: Cpu, layer: tuple[int, tuple[int, int], int]
) -> None:
    found = window(*layer)
    tile = frame_tiles(found, cpu)[0]
    tasks = best_frame_tasks(found, tile, cpu)
    assert tasks.rows in frame_row_choices(found, tile, cpu)
    assert slab_bytes(found, tasks.rows, tile, cpu) <= cpu.l2_for_kernel_bytes
    panels = len(panels_of(found.columns, tile.vectors, cpu.lanes))
    number = panels * found.rows // tasks.rows * tasks.channel_tasks
    rounds = -(-number // cpu.cores)
    assert number / (rounds * cpu.cores) > 0.95


def test_what_no_cache_holds_is_cut_into_rows() -> None:
    small = Cpu(lanes=8, registers=16, cores=2, l2_bytes=2048)
    layer = window(64, (8, 96), 64)
    assert frame_row_choices(layer, frame_tiles(layer, small)[0], small) == [1]
