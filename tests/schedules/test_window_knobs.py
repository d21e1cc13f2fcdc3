"""Knobs of windows, taken together: none of their values changes numbers."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import (
    TARGET,
    module,
    var,
)
from tests.schedules.blocked_blocks import assert_computes, dense, depthwise, unscheduled
from tvm_fusionx.schedules import resolve_target, schedule

PAD = (1, 1, 1, 1)

# Parts of the channels for the default tile: more than a larger tile has, or no divisor of its.
KNOBS = {
    "depthwise, more parts than tiles": (
        depthwise(72, (7, 13), (3, 3), padding=PAD),
        "depthwise",
        {"tile_chunks": 3, "channel_tasks": 9},
    ),
    "depthwise, parts of another number of tiles": (
        depthwise(48, (6, 9), (3, 3), padding=PAD),
        "depthwise",
        {"tile_chunks": 3, "channel_tasks": 6},
    ),
    "pool": (
        relay.nn.max_pool2d(
            var("x", 1, 6, 9, 11, 8), (3, 3), strides=(2, 2), padding=PAD, layout="NCHW8c"
        ),
        "pool",
        {"tile_chunks": 6, "channel_tasks": 3},
    ),
    "dense": (
        dense(16, (5, 8), 48, (3, 3), padding=PAD),
        "conv2d",
        {"tile_chunks": 3, "channel_tasks": 6},
    ),
}


@pytest.mark.parametrize("case", KNOBS)
def test_numbers_stay(case: str) -> None:
    body, template, knobs = KNOBS[case]
    target = resolve_target(TARGET)
    made = schedule(unscheduled(body, target), target, knobs, template)
    assert made.template == template, made.fallback_reason
    assert_computes(made.func, target, module(body))
