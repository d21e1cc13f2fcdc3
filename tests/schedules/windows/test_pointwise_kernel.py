"""The hand-laid loops: every division of the work computes the same pointwise convolution."""

from __future__ import annotations

from typing import Any

import pytest

from tests.relay_modules import (
    var,
)
from tests.schedules.blocked_blocks import assert_same_with_knobs, dense, hard_swish

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
