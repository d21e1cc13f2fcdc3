"""The shared loop nest: every knob value gives the same numbers."""

from __future__ import annotations

import itertools

import pytest
from tvm import relay

from tests.relay_modules import TARGET, module
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import assert_computes, dense, unscheduled
from tvm_fusionx.schedules import resolve_target, schedule

BODY = dense(16, (6, 10), 32, (3, 3), padding=(1, 1, 1, 1))
KNOBS = [
    {"tile_chunks": chunks, "tile_columns": columns, "task_rows": rows, "channel_tasks": parts}
    for chunks, columns, rows, parts in itertools.product((1, 2), (3, 5), (2, 6), (1, 2))
]

ROW = dense(
    16,
    (1, 61),
    64,
    (1, 3),
    strides=(1, 2),
    padding=(0, 1, 0, 1),
    post=lambda y: relay.transpose(relay.nn.relu(y), (0, 3, 1, 4, 2)),
)
# Frames one after the other: one window over all of them, and one column of each.
FRAMES = dense(
    16,
    (2, 61),
    64,
    (3, 1),
    strides=(2, 1),
    padding=(1, 0, 0, 0),
    post=lambda y: relay.transpose(relay.nn.relu(y), (0, 1, 4, 2, 3)),
)
# Of 31 and 61 columns: the last piece moves to the left, and where there is one, the last tile.
ROW_KNOBS = [
    {"tile_columns": columns, "channel_tasks": parts, "column_tasks": pieces}
    for columns, pieces, parts in itertools.product((2, 4), (1, 2, 3, 4), (1, 2))
]


@pytest.mark.parametrize("body", [ROW, FRAMES], ids=["row", "frames"])
@pytest.mark.parametrize("knobs", few_fast(ROW_KNOBS, 0), ids=str)
def test_columns_are_cut_into_tasks(knobs: dict[str, int], body: relay.Expr) -> None:
    scheduled = schedule(unscheduled(body), resolve_target(TARGET), knobs, "conv2d")
    assert scheduled.fallback_reason is None
    assert scheduled.template == "conv2d"
    assert_computes(scheduled.func, resolve_target(TARGET), module(body))


@pytest.mark.parametrize("knobs", few_fast(KNOBS), ids=str)
def test_knobs_change_the_speed_and_not_the_numbers(knobs: dict[str, int]) -> None:
    scheduled = schedule(unscheduled(BODY), resolve_target(TARGET), knobs, "conv2d")
    assert scheduled.fallback_reason is None
    assert {name: scheduled.knobs[name] for name in knobs} == knobs
    assert_computes(scheduled.func, resolve_target(TARGET), module(BODY))
