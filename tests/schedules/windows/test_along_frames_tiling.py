"""How convolutions over planes are cut."""

from __future__ import annotations

import pytest

from tests.schedules.blocked_blocks import AVX2, AVX512, NEON, describe
from tests.schedules.plane_blocks import along
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.windows.along_frames_tiling import (
    PlaneTile,
    best_plane_tasks,
    panels_of,
    plane_row_choices,
    plane_tile_cost,
    plane_tiles,
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
    tiles = plane_tiles(layer, cpu)
    assert all(tile.sums + tile.vectors < cpu.registers for tile in tiles)
    best = tiles[0]
    # Enough of them that multiply-adds wait neither for one another nor for what they read.
    assert best.sums >= 12
    assert plane_tile_cost(best, layer, cpu) < 1.25


def test_channels_and_vectors_share_the_loads() -> None:
    layer = window(64, (8, 12544), 64)
    assert plane_tiles(layer, AVX512)[0] == PlaneTile(8, 3)
    assert plane_tiles(layer, AVX2)[0] == PlaneTile(4, 3)


def test_few_columns_leave_no_tile() -> None:
    assert plane_tiles(window(16, (4, 7), 16), AVX2) == []


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    "layer", [(64, (16, 12544), 64), (192, (8, 784), 192), (320, (4, 196), 320)]
)
def test_cores_share_evenly_what_their_caches_hold(
    cpu: Cpu, layer: tuple[int, tuple[int, int], int]
) -> None:
    found = window(*layer)
    tile = plane_tiles(found, cpu)[0]
    tasks = best_plane_tasks(found, tile, cpu)
    assert tasks.rows in plane_row_choices(found, tile, cpu)
    assert slab_bytes(found, tasks.rows, tile, cpu) <= cpu.l2_for_kernel_bytes
    panels = len(panels_of(found.columns, tile.vectors, cpu.lanes))
    number = panels * found.rows // tasks.rows * tasks.channel_tasks
    rounds = -(-number // cpu.cores)
    assert number / (rounds * cpu.cores) > 0.95


def test_what_no_cache_holds_is_cut_into_rows() -> None:
    small = Cpu(lanes=8, registers=16, cores=2, l2_bytes=2048)
    layer = window(64, (8, 96), 64)
    assert plane_row_choices(layer, plane_tiles(layer, small)[0], small) == [1]
