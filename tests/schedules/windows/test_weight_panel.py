"""Weights put side by side for a tile: chosen where loads pair by it, and the numbers are right."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import relay

from tests.depthwise_pairs import pair
from tests.relay_modules import module, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    AVX512,
    NEON,
    assert_computes,
    dense,
    describe,
    eight_lanes,
    unscheduled,
)
from tests.schedules.matching import matched
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.schedules.template import Template
from tvm_fusionx.schedules.windows.depthwise_pointwise import DEPTHWISE_POINTWISE
from tvm_fusionx.schedules.windows.joined_chunks import JOINED_CHUNKS
from tvm_fusionx.schedules.windows.pointwise import POINTWISE
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.schedules.windows.tiling import ChunkTile
from tvm_fusionx.schedules.windows.weight_panel import FEWEST_TILES, should_pack
from tvm_fusionx.tir.block import describe_block

ONE = (1, 1)
REGISTERS = 32

BLOCKS: dict[str, tuple[Template, relay.Expr, dict[str, int]]] = {
    "blocks of channels, tasks": (
        POINTWISE,
        dense(48, (5, 7), 32, ONE, post=relay.nn.relu),
        {"tile_chunks": 2, "tile_pixels": 3, "pixel_tasks": 2, "block_chunks": 2},
    ),
    "half vectors, a last one over the one before": (
        POINTWISE,
        dense(40, (5, 7), 20, ONE, blocks=(8, 4)),
        {"tile_chunks": 3, "tile_pixels": 5, "pixel_tasks": 1},
    ),
    "a gated image": (
        POINTWISE,
        dense(40, (5, 7), 48, ONE, pre=lambda x: x * var("gate", 1, 5, 1, 1, 8)),
        {"tile_chunks": 3, "tile_pixels": 6, "pixel_tasks": 1, "channel_tasks": 2},
    ),
    "taps of a window": (
        JOINED_CHUNKS,
        dense(16, (5, 7), 20, (2, 3), blocks=(8, 4)),
        {"tile_chunks": 1, "tile_columns": 3, "weights_together": 1},
    ),
    "behind a depthwise window": (
        DEPTHWISE_POINTWISE,
        pair(40, (7, 9), 32, batch=2),
        {"tile_chunks": 2, "tile_pixels": 6, "task_rows": 4},
    ),
}


@pytest.mark.parametrize("case", few_fast(BLOCKS, 2))
def test_a_kernel_with_a_panel_is_right(case: str) -> None:
    template, body, knobs = BLOCKS[case]
    target = eight_lanes()
    cpu = replace(describe_cpu(target), registers=REGISTERS, multiplies_by_lane=True)
    match = matched(template, describe_block(unscheduled(body, target), cpu))
    defaults = {name: knob.default for name, knob in match.knobs().items()}
    assert knobs.keys() <= defaults.keys()
    func = match.emit({**defaults, **knobs})
    assert "panel" in func.script()
    assert_computes(func, target, module(body))


def _window(channels: int, cpu: Cpu) -> Window:
    body = dense(channels, (14, 14), 64, ONE, blocks=(4, 4))
    found = find_window(describe(body, cpu))
    assert isinstance(found, Window)
    return found


@pytest.mark.parametrize(
    ("channels", "tile", "pixels", "cpu", "expected"),
    [
        (96, (4, 5), 196, NEON, True),
        # All vectors of a term are within reach of one address.
        (16, (4, 5), 196, NEON, False),
        (96, (1, 14), 196, NEON, False),
        # Too few tiles use what was moved.
        (96, (4, 5), 5 * (FEWEST_TILES - 1), NEON, False),
        (96, (4, 5), 196, AVX512, False),
    ],
)
def test_weights_are_moved_where_it_pays(
    channels: int, tile: tuple[int, int], pixels: int, cpu: Cpu, expected: bool
) -> None:
    assert should_pack(_window(channels, cpu), ChunkTile(*tile), pixels, cpu) is expected
