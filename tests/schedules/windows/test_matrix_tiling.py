"""Tiles of windows whose instruction multiplies two pixels by two channels."""

from __future__ import annotations

import pytest

from tests.schedules.blocked_blocks import unscheduled
from tests.schedules.brain_blocks import brain_window
from tvm_fusionx.schedules import describe_block, describe_cpu, resolve_target
from tvm_fusionx.schedules.windows.matrix_tiling import (
    GROUPS_OF_A_TURN,
    matrix_tiles,
    registers_of,
    row_cost,
    turn_groups,
)
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.tir.stored_types import as_single

ARM = resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n2")
CPU = describe_cpu(ARM)


def _window(side: int, taps: int, stride: int = 1, channels: tuple[int, int] = (64, 96)) -> Window:
    inputs, outputs = channels
    single = as_single(unscheduled(brain_window(inputs, side, outputs, taps, stride), ARM))
    assert single is not None
    window = find_window(describe_block(single.func, CPU))
    assert isinstance(window, Window)
    assert window.stage.sums_matrices
    return window


@pytest.mark.parametrize(("taps", "stride"), [(1, 1), (3, 1), (3, 2)])
@pytest.mark.parametrize("side", [5, 7, 14, 56])
def test_tiles_fit_the_registers(side: int, taps: int, stride: int) -> None:
    window = _window(side, taps, stride)
    tiles = matrix_tiles(window, CPU)
    costs = [row_cost(tile, window, CPU) for tile in tiles]
    assert costs == sorted(costs)
    for tile in tiles:
        assert registers_of(tile, window, CPU) <= CPU.registers
        assert window.out_blocks % tile.chunks == 0
        assert tile.columns <= window.columns


def test_pixels_alone_take_as_much_as_two() -> None:
    window = _window(56, 1)
    best, *_ = matrix_tiles(window, CPU)
    assert best.columns % 2 == 0


@pytest.mark.parametrize(
    ("taps", "channels", "expected"),
    [(1, (64, 96), GROUPS_OF_A_TURN), (3, (64, 96), 1), (1, (12, 96), 1)],
)
def test_two_groups_of_a_pixel_follow_one_another(
    taps: int, channels: tuple[int, int], expected: int
) -> None:
    assert turn_groups(_window(14, taps, channels=channels)) == expected
