"""When chunks are joined: fewer steps of the units; and when weights are put together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.schedules.blocked_blocks import AVX2, AVX512, NEON, dense, describe
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.windows.joined_chunks_tiling import (
    FEWEST_TILES,
    columns_of_task,
    should_join,
    should_put_together,
)
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.schedules.windows.tiling import ChunkTile, Tasks

WIDE = replace(AVX512, multiply_add_bits=512)
# A vector of 16 lanes takes two steps of its units, as on Zen 4.
NARROW = replace(AVX512, multiply_add_bits=256)


def _window(outputs: int, block: int, columns: int = 7) -> Window:
    found = find_window(describe(dense(8, (5, columns), outputs, (1, 3), blocks=(8, block))))
    assert isinstance(found, Window)
    return found


@pytest.mark.parametrize(
    ("outputs", "block", "cpu", "expected"),
    [
        (24, 8, WIDE, True),
        (8, 8, WIDE, False),
        (48, 16, WIDE, False),
        (24, 12, WIDE, False),
        # Two vectors of 16 are four steps, three chunks are three.
        (24, 8, NARROW, False),
        (16, 8, NARROW, False),
        (24, 4, NARROW, True),
        (12, 4, AVX2, True),
        (24, 8, AVX2, False),
        (10, 2, NEON, True),
        (12, 4, NEON, False),
    ],
)
def test_chunks_are_joined_where_that_takes_fewer_steps(
    outputs: int, block: int, cpu: Cpu, expected: bool
) -> None:
    assert should_join(_window(outputs, block), cpu) is expected


@pytest.mark.parametrize(("parts", "expected"), [(1, 100), (2, 54), (4, 30), (17, 6)])
def test_parts_of_a_row_are_whole_tiles(parts: int, expected: int) -> None:
    window = _window(24, 8, columns=102)
    assert columns_of_task(window, ChunkTile(2, 6), Tasks(1, 1, parts)) == expected


def test_weights_are_put_together_for_many_tiles() -> None:
    window, tile = _window(24, 8, columns=8), ChunkTile(2, 1)
    assert window.columns == 6
    assert should_put_together(window, tile, Tasks(FEWEST_TILES // 6, 1))
    assert not should_put_together(window, tile, Tasks(FEWEST_TILES // 6 - 1, 1))
    assert not should_put_together(window, tile, Tasks(FEWEST_TILES // 6, 1, 2))
