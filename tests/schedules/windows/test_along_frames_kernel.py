"""The hand-laid loops: every division of the work computes the same convolution over planes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schedules.blocked_blocks import assert_same_with_knobs
from tests.schedules.frame_blocks import along

NAME = "along_frames"

# Panels of several widths, parts of channels, tiles of less than a chunk and of more.
KNOBS: dict[str, tuple[Any, dict[str, int]]] = {
    "one channel": (along(5, (4, 77), 16), {"tile_channels": 1, "tile_vectors": 3}),
    "part of a chunk": (along(5, (4, 77), 16), {"tile_channels": 4, "tile_vectors": 2}),
    "a row a task": (
        along(5, (6, 40), 16, strides=(2, 1)),
        {"tile_channels": 4, "task_rows": 1, "channel_tasks": 2},
    ),
    "all rows a task": (along(5, (6, 41), 24, batch=2), {"task_rows": 6, "channel_tasks": 1}),
    "more than a chunk": (along(5, (4, 33), 32), {"tile_channels": 8, "tile_vectors": 1}),
    "parts of another number of tiles": (
        along(5, (4, 40), 48),
        {"tile_channels": 2, "channel_tasks": 16},
    ),
}


@pytest.mark.parametrize("case", KNOBS)
def test_no_value_of_a_knob_changes_numbers(case: str) -> None:
    body, knobs = KNOBS[case]
    assert_same_with_knobs(body, NAME, knobs)
