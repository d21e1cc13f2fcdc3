"""The hand-laid loops: every division of the work computes the same pair."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.depthwise_pairs import pair
from tests.relay_modules import module
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import assert_computes, eight_lanes, unscheduled
from tvm_fusionx.schedules import schedule

NAME = "depthwise_pointwise"


@pytest.mark.slow
@pytest.mark.parametrize(
    "knobs",
    few_fast(
        [
            {"task_rows": 1, "tile_pixels": 1, "tile_chunks": 1, "depthwise_columns": 1},
            {"task_rows": 3, "tile_pixels": 5, "tile_chunks": 2, "depthwise_columns": 4},
            {"task_rows": 4, "tile_pixels": 6, "tile_chunks": 2, "depthwise_columns": 5},
            {"task_rows": 7, "tile_pixels": 6, "tile_chunks": 4, "depthwise_columns": 5},
        ],
        1,
    ),
)
def test_every_division_computes_the_same(knobs: dict[str, int]) -> None:
    # Two tasks of four rows share seven pixel by pixel: 32 of 63.
    assert_right(pair(16, (7, 9), 32, batch=2), knobs)


@pytest.mark.parametrize("tile_chunks", [1, 2, 4])
def test_chunks_share_vectors(tile_chunks: int) -> None:
    # Seven chunks of 4 in four vectors of 8.
    knobs = {"task_rows": 4, "tile_chunks": tile_chunks}
    assert_right(pair(16, (7, 9), 28, batch=2, out_block=4), knobs)


def assert_right(body: relay.Expr, knobs: dict[str, int]) -> None:
    target = eight_lanes()
    made = schedule(unscheduled(body, target), target, knobs)
    assert (made.template, made.fallback_reason) == (NAME, None)
    assert knobs.items() <= made.knobs.items()
    assert_computes(made.func, target, module(body))
