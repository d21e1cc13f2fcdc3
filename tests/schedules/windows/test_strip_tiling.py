"""The rows and columns that are summed at once, of windows that keep channels apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.schedules.blocked_blocks import AVX512, depthwise, describe
from tests.schedules.blocked_blocks import NEON as NEON_A_ROW
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.windows.strip_tiling import MOST_TAPS, StripTile, strip_tiles
from tvm_fusionx.schedules.windows.structure import Window, find_window

NEON = replace(NEON_A_ROW, strip_rows=4)


def _window(size: int, kernel: int, stride: int = 1, cpu: Cpu = NEON) -> Window:
    body = depthwise(
        8,
        (size, size),
        (kernel, kernel),
        strides=(stride, stride),
        padding=(kernel // 2,) * 4,
        block=4,
    )
    found = find_window(describe(body, cpu))
    assert isinstance(found, Window)
    return found


# Rows and columns that were counted best of those without an access of the stack.
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "tile"),
    [(28, 3, 1, (2, 7)), (14, 3, 1, (2, 7)), (14, 5, 1, (2, 7)), (28, 5, 2, (1, 7))],
)
def test_tiles_of_typical_layers(
    size: int, kernel: int, stride: int, tile: tuple[int, int]
) -> None:
    assert strip_tiles(_window(size, kernel, stride), NEON)[0] == StripTile(*tile)


def test_sums_leave_registers_for_data_and_weights() -> None:
    def most_sums(stride: int, rows: int) -> int:
        tiles = strip_tiles(_window(28, 3, stride), NEON)
        assert max(tile.rows for tile in tiles) == NEON.strip_rows
        return max(tile.rows * tile.columns for tile in tiles if tile.rows == rows)

    assert (most_sums(1, 1), most_sums(1, 3), most_sums(2, 3)) == (21, 15, 9)


def test_rows_are_summed_apart_where_the_processor_or_the_window_has_it_so() -> None:
    assert strip_tiles(_window(28, 3), AVX512) == []
    large = _window(28, 9)
    assert large.kernel[0] * large.kernel[1] > MOST_TAPS
    assert strip_tiles(large, NEON) == []
