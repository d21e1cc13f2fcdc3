"""The hand-laid loops: every division of the work computes the same pointwise convolution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.relay_modules import module, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    assert_computes,
    assert_same_with_knobs,
    dense,
    eight_lanes,
    hard_swish,
    unscheduled,
)
from tests.schedules.matching import matched
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules.windows.pointwise import POINTWISE
from tvm_fusionx.schedules.windows.pointwise_kernel import PixelProducts
from tvm_fusionx.schedules.windows.tiling import ChunkTile
from tvm_fusionx.tir.block import describe_block

NAME = "pointwise"
ONE = (1, 1)

# Tiles that divide nothing, blocks of channels whose sums are kept, parts that lie over each other.
KNOBS: dict[str, tuple[Any, dict[str, int]]] = {
    "one block": (
        dense(32, (5, 7), 48, ONE),
        {"tile_chunks": 3, "tile_pixels": 4, "pixel_tasks": 3, "channel_tasks": 2},
    ),
    "two blocks": (
        dense(32, (5, 7), 48, ONE),
        {"tile_chunks": 2, "tile_pixels": 3, "pixel_tasks": 2, "block_chunks": 2},
    ),
    "four blocks": (
        dense(32, (5, 7), 48, ONE, post=hard_swish),
        {"tile_chunks": 2, "tile_pixels": 6, "channel_tasks": 2, "block_chunks": 1},
    ),
    "four blocks of a gated image": (
        dense(32, (5, 7), 48, ONE, pre=lambda x: x * var("gate", 1, 4, 1, 1, 8)),
        {"tile_chunks": 2, "tile_pixels": 6, "pixel_tasks": 4, "block_chunks": 1},
    ),
    "parts of fewer pixels than a tile": (
        dense(16, (3, 3), 16, ONE, batch=2),
        {"tile_chunks": 1, "tile_pixels": 6, "pixel_tasks": 4},
    ),
    "half vectors": (
        dense(32, (5, 7), 28, ONE, blocks=(8, 4), post=hard_swish),
        {"tile_chunks": 2, "tile_pixels": 5, "channel_tasks": 2, "block_chunks": 2},
    ),
    "parts of another number of tiles": (
        dense(16, (5, 7), 48, ONE),
        {"tile_chunks": 6, "channel_tasks": 2},
    ),
}


@pytest.mark.parametrize("case", KNOBS)
def test_no_value_of_a_knob_changes_numbers(case: str) -> None:
    body, knobs = KNOBS[case]
    assert_same_with_knobs(body, NAME, knobs)


@pytest.mark.parametrize("case", few_fast(KNOBS, 2))
def test_pixels_left_over_are_a_narrower_tile(case: str) -> None:
    body, knobs = KNOBS[case]
    target = eight_lanes()
    cpu = replace(describe_cpu(target), registers=32, multiplies_by_lane=True)
    match = matched(POINTWISE, describe_block(unscheduled(body, target), cpu))
    defaults = {name: knob.default for name, knob in match.knobs().items()}
    func = match.emit({**defaults, **knobs})
    assert_computes(func, target, module(body))


@pytest.mark.parametrize(("pixels", "has_rest"), [(35, True), (36, False), (5, False), (37, True)])
def test_only_whole_tiles_are_counted_as_tiles(pixels: int, has_rest: bool) -> None:
    products = PixelProducts(None, None, None, ChunkTile(2, 6), pixels, 1, None, has_rest=True)  # type: ignore[arg-type]
    assert products.tiles * products.columns + products.rest == pixels
    assert (products.rest > 0) is has_rest
    moved = replace(products, has_rest=False)
    assert (moved.rest, moved.tiles) == (0, -(-pixels // min(6, pixels)))
