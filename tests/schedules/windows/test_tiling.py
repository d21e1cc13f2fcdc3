"""The register tiles and tasks chosen for typical layers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import relay

from tests.relay_modules import var
from tests.schedules.blocked_blocks import AVX2, AVX512, NEON, dense, describe
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts.register_tile import SPARE_REGISTERS
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.schedules.windows.tiling import (
    L1_SHARE_OF_GATHERED,
    ChunkTile,
    Tasks,
    best_tasks,
    candidate_tasks,
    column_pieces,
    cost_with_rest,
    default_tile,
    inputs_held,
    register_tiles,
    shared_tiles,
    streaming_cost,
    task_cost,
    tile_cost,
)


def _window(channels: int, size: int, outputs: int, kernel: int = 3) -> Window:
    pad = (kernel // 2,) * 4
    body = dense(channels, (size, size), outputs, (kernel, kernel), padding=pad)
    window = find_window(describe(body))
    assert isinstance(window, Window)
    return window


@pytest.mark.parametrize("cpu", [AVX2, AVX512])
def test_every_tile_leaves_room_for_weights_and_input(cpu: Cpu) -> None:
    tiles = register_tiles(_window(16, 14, 48), cpu)
    assert tiles
    for tile in tiles:
        assert tile.sums + tile.chunks + SPARE_REGISTERS - 1 <= cpu.registers


@pytest.mark.parametrize("size", [7, 28, 56])
def test_three_chunks_by_four_columns_fill_sixteen_registers(size: int) -> None:
    best = register_tiles(_window(24, size, 48, 1), AVX2)[0]
    assert best == ChunkTile(3, 4)
    assert best.sums + best.chunks + 1 == AVX2.registers


def test_chunks_of_two_vectors_leave_one_pair_of_registers() -> None:
    window = _window(24, 28, 40, 1)
    assert register_tiles(window, AVX2)[0] == ChunkTile(5, 2)
    spread = replace(NEON, multiplies_by_lane=False)
    assert window.registers(spread) == 16
    assert all(tile.sums + tile.chunks + 1 < 16 for tile in register_tiles(window, spread))


@pytest.mark.parametrize("cpu", [AVX2, AVX512])
def test_a_tile_of_one_chunk_leaves_two_registers_for_inputs(cpu: Cpu) -> None:
    for size in (14, 30):
        window = _window(16, size, cpu.lanes, 1)
        ones = [tile for tile in register_tiles(window, cpu) if tile.chunks == 1]
        assert max(tile.columns for tile in ones) == min(size, cpu.registers - 3)


def test_sums_of_one_chunk_that_would_spill_are_no_default() -> None:
    window = _window(512, 13, 1024)
    tiles = register_tiles(window, AVX2)
    assert tiles[0] == ChunkTile(1, 13)
    assert default_tile(tiles, window, AVX2).chunks > 1
    of_one_chunk = _window(512, 13, 8)
    tile = default_tile(register_tiles(of_one_chunk, AVX2), of_one_chunk, AVX2)
    assert (tile.chunks, tile.columns <= 10) == (1, True)
    assert default_tile([ChunkTile(1, 13)], _row(16, 40, 1), AVX2) == ChunkTile(1, 13)


def test_weights_that_come_anew_are_multiplied_by_more_than_two_columns() -> None:
    # 147 KB of weights for four chunks, and 16 KB.
    far, near = _window(128, 14, 256), _window(128, 14, 256, 1)
    assert register_tiles(near, AVX2)[0] == ChunkTile(4, 2)
    assert register_tiles(far, AVX2)[0] == ChunkTile(2, 5)
    assert streaming_cost(ChunkTile(4, 2), near, AVX2) == 1.0
    assert streaming_cost(ChunkTile(4, 2), far, AVX2) > 1.0
    assert streaming_cost(ChunkTile(2, 5), far, AVX2) == 1.0


@pytest.mark.parametrize(
    ("channels", "cpu", "held"), [(8, AVX2, 16), (12, AVX2, 8), (12, AVX512, 32), (8, NEON, 16)]
)
def test_a_chunk_wider_than_a_vector_takes_several_registers(
    channels: int, cpu: Cpu, held: int
) -> None:
    body = dense(48, (80, 80), channels, (1, 1), blocks=(8, channels))
    window = find_window(describe(body, cpu))
    assert isinstance(window, Window)
    assert window.registers(cpu) == held
    tiles = register_tiles(window, cpu)
    vectors = cpu.registers // held
    assert all((tile.sums + tile.chunks + 1) * vectors <= cpu.registers for tile in tiles)


def test_the_tile_divides_common_widths() -> None:
    for size in (7, 14, 28, 56):
        best = register_tiles(_window(8, size, 64), AVX512)[0]
        assert size % best.columns == 0, (size, best)


def test_the_tile_hides_the_latency_of_multiply_adds() -> None:
    assert register_tiles(_window(8, 14, 24), AVX2)[0].sums >= 8


def test_a_small_layer_with_many_weights_is_divided_by_channels() -> None:
    window = _window(512, 7, 512)
    assert best_tasks(window, AVX512, window.out_blocks // 2, gathers=True) == Tasks(7, 2)


def test_channels_that_are_apart_are_gathered_where_they_are_near() -> None:
    """A task of few rows gathers no more channels than half of the first-level cache holds."""
    body = relay.nn.max_pool2d(
        var("x", 1, 32, 8, 8, 16), (2, 2), strides=(2, 2), layout="NCHW16c", out_layout="NCHW16c"
    )
    window = find_window(describe(body))
    assert isinstance(window, Window)
    gathered = best_tasks(window, AVX512, window.out_blocks, gathers=True)
    near = AVX512.l1_bytes * L1_SHARE_OF_GATHERED
    channels = window.out_blocks // gathered.channel_tasks * window.block_out
    assert channels * window.rows_read(gathered.rows) * 8 * FLOAT_BYTES <= near
    in_place = best_tasks(window, AVX512, window.out_blocks, gathers=False)
    assert in_place.channel_tasks < gathered.channel_tasks


def test_a_large_layer_is_divided_by_rows() -> None:
    tasks = best_tasks(_window(16, 56, 16), AVX512, 1, gathers=True)
    assert tasks.channel_tasks == 1
    assert 56 // tasks.rows >= AVX512.cores


def test_tasks_that_do_not_fill_the_cores_cost_more() -> None:
    window = _window(16, 6, 16)
    costs = {
        tasks: task_cost(tasks, window, AVX512, gathers=False)
        for tasks in candidate_tasks(window, 1)
    }
    assert costs[Tasks(3, 1)] < costs[Tasks(6, 1)]


def _row(channels: int, length: int, in_block: int = 16, stride: int = 1) -> Window:
    body = dense(
        channels,
        (1, length),
        384,
        (1, 3),
        strides=(1, stride),
        padding=(0, 1, 0, 1),
        blocks=(in_block, 16),
    )
    window = find_window(describe(body))
    assert isinstance(window, Window)
    return window


def test_a_row_of_its_own_is_divided_so_that_what_a_task_reads_stays_in_cache() -> None:
    window = _row(384, 3000, stride=2)
    tasks = best_tasks(window, AVX512, 6, 250, gathers=True)
    read = 384 * 4 * window.columns_read(1500 // tasks.column_tasks)
    assert read <= AVX512.l2_for_kernel_bytes // 2
    assert tasks.column_tasks * tasks.channel_tasks >= AVX512.cores
    assert best_tasks(window, AVX512, 6, gathers=True).column_tasks == 1


def test_columns_are_shared_out_where_a_row_is_alone_or_fills_the_cache() -> None:
    tile = ChunkTile(1, 6)
    assert shared_tiles(_row(16, 42), tile, AVX512) == 7
    assert shared_tiles(_window(16, 14, 16), tile, AVX512) == 1

    def frames(channels: int, kernel: tuple[int, int]) -> Window:
        padding = (kernel[0] // 2, kernel[1] // 2) * 2
        body = dense(channels, (4, 1200), 16, kernel, padding=padding, blocks=(16, 16))
        window = find_window(describe(body))
        assert isinstance(window, Window)
        return window

    assert shared_tiles(frames(16, (3, 1)), tile, AVX512) == 1
    assert shared_tiles(frames(256, (3, 1)), tile, AVX512) == 200
    assert shared_tiles(frames(256, (3, 3)), tile, AVX512) == 1


def test_pieces_of_columns_are_as_few_as_their_length_allows() -> None:
    assert column_pieces(1) == [1]
    assert column_pieces(6) == [1, 2, 3, 6]
    # 11 tiles in 4 pieces of 3 at most; 5 pieces would be of 3 as well, and one of them empty.
    assert column_pieces(11) == [1, 2, 3, 4, 6, 11]


def test_columns_computed_twice_cost_their_time() -> None:
    # Four pieces of two tiles are eight tiles.
    seven, eight = (
        task_cost(Tasks(1, 1, 4), _row(16, 42), AVX512, tiles, gathers=False) for tiles in (7, 8)
    )
    assert seven > eight


def test_inputs_that_taps_share_have_registers_where_taps_are_written_out() -> None:
    assert inputs_held(_row(16, 40), 6) == 1
    assert inputs_held(_row(16, 40, 1), 6) == 8
    assert inputs_held(_row(16, 40, 1, stride=2), 6) == 13
    # Taps 16 columns apart meet no other of six neighbours, those 2 apart some.
    assert inputs_held(replace(_row(16, 40, 1), dilation=(1, 16)), 6) == 1
    assert inputs_held(replace(_row(16, 40, 1), dilation=(1, 2)), 6) == 10
    # No two windows read the same.
    assert inputs_held(_row(16, 40, 1, stride=3), 6) == 1
    tile = register_tiles(_row(80, 3000, 1), AVX512)[0]
    assert tile.sums + tile.chunks + tile.columns + 2 < AVX512.registers


def test_there_is_always_a_tile() -> None:
    wide = dense(8, (1, 90), 8, (1, 31), padding=(0, 15, 0, 15), blocks=(1, 8))
    window = find_window(describe(wide))
    assert isinstance(window, Window)
    assert register_tiles(window, AVX2) == [ChunkTile(1, 1)]


def test_columns_left_over_cost_a_narrower_tile() -> None:
    pixels = flat_window(196)
    tile = ChunkTile(2, 9)
    assert cost_with_rest(tile, pixels, NEON) < tile_cost(tile, pixels, NEON)
    # What divides them has no rest, and other processors move the last tile back.
    assert cost_with_rest(ChunkTile(2, 7), pixels, NEON) == tile_cost(ChunkTile(2, 7), pixels, NEON)
    assert cost_with_rest(tile, pixels, AVX512) == tile_cost(tile, pixels, AVX512)


def flat_window(pixels: int) -> Window:
    """Return a pointwise window whose pixels lie in one row."""
    body = dense(64, (1, pixels), 64, (1, 1), blocks=(4, 4))
    found = find_window(describe(body, NEON))
    assert isinstance(found, Window)
    return found
