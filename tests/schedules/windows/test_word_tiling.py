"""Tiles whose dot products take words from lanes: which windows have them, and what fits."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.schedules.blocked_blocks import NEON, dense, unscheduled
from tests.schedules.integer_blocks import bytes_window
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.schedules import describe_block, resolve_target
from tvm_fusionx.schedules.parts.pair_tiles import PAIR_REGISTERS
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.schedules.windows.word_tiling import (
    registers_of,
    takes_words,
    turn_steps,
    word_tiles,
)

ARM = resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76")
CPU = describe_cpu(ARM)


def _window(body: relay.Expr, cpu: Cpu = CPU) -> Window:
    window = find_window(describe_block(unscheduled(body, ARM), cpu))
    assert isinstance(window, Window)
    return window


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (bytes_window(16, (14, 14), 24, 1), True),
        (bytes_window(16, (14, 14), 24, 3, 2), True),
        # A picture narrower than a vector, and floats.
        (bytes_window(16, (3, 3), 24, 1), False),
        (bytes_window(16, (9, 9), 24, 1, 3), False),
        (dense(16, (14, 14), 24, (1, 1), blocks=(4, 4)), False),
    ],
)
def test_neighbouring_pixels_share_a_vector(body: relay.Expr, expected: bool) -> None:
    window = _window(body)
    assert takes_words(window, CPU) is expected
    assert not takes_words(window, NEON)


@pytest.mark.parametrize("channels", [16, 96])
@pytest.mark.parametrize("size", [5, 7, 14, 56])
@pytest.mark.parametrize(("outputs", "kernel"), [(96, 1), (160, 1), (64, 3)])
def test_tiles_fit_the_registers(channels: int, size: int, outputs: int, kernel: int) -> None:
    window = _window(bytes_window(channels, (size, size), outputs, kernel))
    tiles = word_tiles(window, CPU)
    assert tiles
    for tile in tiles:
        assert registers_of(tile, window, CPU) <= CPU.registers
        assert window.out_blocks % tile.chunks == 0
        assert CPU.lanes <= tile.columns <= window.columns


def test_sums_of_few_terms_leave_registers_for_what_is_loaded_early() -> None:
    few, many = (_window(bytes_window(each, (56, 56), 96, 1)) for each in (16, 96))
    assert word_tiles(many, CPU)[0].sums > word_tiles(few, CPU)[0].sums


def test_two_steps_follow_one_another_where_registers_are_free() -> None:
    window = _window(bytes_window(96, (7, 7), 160, 1))
    tile = word_tiles(window, CPU)[0]
    assert turn_steps(tile, window, CPU) == 2
    # An odd number of chunks has no second one, and a window of pixels has several steps anyway.
    odd, large = bytes_window(100, (7, 7), 160, 1), bytes_window(96, (7, 7), 160, 3)
    assert turn_steps(tile, _window(odd), CPU) == turn_steps(tile, _window(large), CPU) == 1


PAIRS = describe_cpu(resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"))


@pytest.mark.parametrize("size", [5, 7, 14, 56])
@pytest.mark.parametrize(("outputs", "kernel"), [(96, 1), (64, 3)])
def test_tiles_whose_products_are_added_in_words_fit_too(
    size: int, outputs: int, kernel: int
) -> None:
    body = bytes_window(64, (size, size), outputs, kernel, depth=2)
    window = _window(body, PAIRS)
    assert takes_words(window, PAIRS)
    tiles = word_tiles(window, PAIRS)
    assert tiles
    for tile in tiles:
        # Sums, two registers of weights for each chunk, one of data for four pixels.
        held = tile.sums + 2 * tile.chunks + (tile.columns + 3) // 4
        assert held + PAIR_REGISTERS <= registers_of(tile, window, PAIRS) <= PAIRS.registers
        assert turn_steps(tile, window, PAIRS) == 1


def test_chunks_of_another_size_hold_no_words() -> None:
    """Of two channels a pixel has one pair, of which every second lies elsewhere."""
    window = _window(bytes_window(10, (14, 14), 24, 1, depth=2, chunk=2), PAIRS)
    assert not takes_words(window, PAIRS)
