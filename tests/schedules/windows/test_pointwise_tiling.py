"""How pointwise convolutions are cut."""

from __future__ import annotations

import pytest

from tests.schedules.blocked_blocks import AVX2, AVX512, dense, describe
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.windows.pointwise_tiling import (
    L1_SHARE_OF_BLOCK,
    PointwiseTiling,
    best_tiling,
    block_of,
    cycles,
)
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.schedules.windows.tiling import ChunkTile


def window(channels: int, size: int, outputs: int, block: int = 8) -> Window:
    blocks = (block, block)
    found = find_window(describe(dense(channels, (size, size), outputs, (1, 1), blocks=blocks)))
    assert isinstance(found, Window)
    return found


def wasted(found: PointwiseTiling, layer: Window) -> float:
    pixels, columns = found.pixels(layer), found.tile.columns
    covered = -(-pixels // columns) * columns * found.pixel_tasks
    return covered / (layer.rows * layer.columns) - 1


# A row of 7 or 14 in tiles of 4 columns wastes a seventh.
@pytest.mark.parametrize("layer", [(960, 7, 320), (576, 14, 96), (96, 14, 576), (240, 10, 40)])
def test_rows_that_no_tile_divides_waste_little(layer: tuple[int, int, int]) -> None:
    shape = window(*layer)
    found = best_tiling(shape, AVX2, gathers=False)
    assert wasted(found, shape) < 0.07
    assert found.tile.sums >= 10
    # Each core has as much to do.
    assert found.pixel_tasks * found.channel_tasks % AVX2.cores == 0


def test_weights_of_a_tile_stay_in_the_first_level_cache() -> None:
    layer = window(960, 7, 320)
    block = block_of(ChunkTile(5, 2), layer, AVX2)
    assert 960 // 8 % block == 0
    assert block * 8 * 5 * 8 * 4 <= AVX2.l1_bytes * L1_SHARE_OF_BLOCK < 2 * block * 8 * 5 * 8 * 4
    assert block_of(ChunkTile(1, 4), window(64, 7, 64), AVX2) == 8


def test_a_chunk_larger_than_the_cache_is_a_block() -> None:
    tiny = Cpu(lanes=8, registers=16, cores=2, l1_bytes=256)
    assert block_of(ChunkTile(2, 5), window(64, 7, 64), tiny) == 1


def test_uneven_parts_and_kept_sums_cost_time() -> None:
    layer = window(256, 14, 256)
    tile = ChunkTile(2, 5)

    def cost(pixel_tasks: int, channel_tasks: int = 1, block: int = 32) -> float:
        tiling = PointwiseTiling(tile, pixel_tasks, channel_tasks, block)
        return cycles(tiling, layer, AVX2, gathers=False)

    assert cost(2) < cost(3)
    assert cost(2) < cost(1)
    assert cost(2) < cost(2, block=1)
    gathering = cycles(PointwiseTiling(tile, 2, 1, 32), layer, AVX2, gathers=True)
    assert gathering > cost(2)


def test_wide_registers_hold_larger_tiles() -> None:
    narrow = best_tiling(window(96, 14, 576), AVX2, gathers=False).tile.sums
    wide = best_tiling(window(96, 14, 576, 16), AVX512, gathers=False).tile.sums
    assert narrow <= 16 < wide
