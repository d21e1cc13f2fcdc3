"""The hand-laid loops: every division of the work computes the same window."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schedules.blocked_blocks import assert_same_with_knobs, dense, hard_swish

NAME = "joined_chunks"
PAD = (1, 1, 1, 1)
HALF = (8, 4)
IMAGE = dense(16, (6, 11), 28, (3, 3), padding=PAD, blocks=HALF, post=hard_swish)
ROW = dense(8, (1, 53), 20, (1, 5), padding=(0, 2, 0, 2), blocks=HALF)

# Tiles that divide nothing, parts that lie over each other, weights as halves and put together.
KNOBS: dict[str, tuple[Any, dict[str, int]]] = {
    "halves of weights": (IMAGE, {"tile_chunks": 2, "tile_columns": 4, "weights_together": 0}),
    "weights together": (
        IMAGE,
        {"tile_chunks": 2, "tile_columns": 4, "task_rows": 3, "weights_together": 1},
    ),
    "a vector a tile, parts of the channels": (
        IMAGE,
        {"tile_chunks": 1, "tile_columns": 5, "channel_tasks": 4, "weights_together": 1},
    ),
    "parts of another number of tiles": (
        IMAGE,
        {"tile_chunks": 4, "tile_columns": 2, "channel_tasks": 4, "task_rows": 1},
    ),
    "parts of a row": (
        ROW,
        {"tile_chunks": 3, "tile_columns": 2, "column_tasks": 4, "weights_together": 0},
    ),
    "a last part that lies over another": (
        ROW,
        {"tile_chunks": 1, "tile_columns": 7, "column_tasks": 3, "weights_together": 1},
    ),
    "unpadded parts of a row": (
        dense(8, (1, 53), 12, (1, 3), strides=(1, 2), blocks=HALF),
        {"tile_chunks": 2, "tile_columns": 3, "column_tasks": 3},
    ),
    "unpadded slabs": (
        dense(8, (9, 7), 12, (3, 3), strides=(2, 1), blocks=HALF, batch=2),
        {"tile_chunks": 2, "tile_columns": 3, "task_rows": 2},
    ),
}


@pytest.mark.parametrize("case", KNOBS)
def test_no_value_of_a_knob_changes_numbers(case: str) -> None:
    body, knobs = KNOBS[case]
    assert_same_with_knobs(body, NAME, knobs)
