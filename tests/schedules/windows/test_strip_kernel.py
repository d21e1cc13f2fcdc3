"""Several rows of a window that keeps channels apart, summed at once: right wherever they lie."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import relay

from tests.depthwise_pairs import pair
from tests.relay_modules import module
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import assert_computes, depthwise, eight_lanes, unscheduled
from tests.schedules.matching import matched
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules.template import Template
from tvm_fusionx.schedules.windows.channelwise import DEPTHWISE
from tvm_fusionx.schedules.windows.depthwise_pointwise import DEPTHWISE_POINTWISE
from tvm_fusionx.tir.block import describe_block

ONE = (1, 1, 1, 1)
MOST_ROWS, REGISTERS = 4, 32

# A block, and its knobs: strips that touch the border and ones that do not, a last one of fewer
# rows, tasks that end together, tiles of columns of which the last one moves back.
WINDOWS: dict[str, tuple[relay.Expr, dict[str, int]]] = {
    "odd extents": (
        depthwise(16, (11, 9), (3, 3), padding=ONE, post=relay.nn.relu),
        {"tile_rows": 2, "tile_columns": 4},
    ),
    "stride 2": (
        depthwise(8, (18, 14), (3, 3), strides=(2, 2), padding=ONE),
        {"tile_rows": 4, "tile_columns": 3},
    ),
    "below and to the right": (
        depthwise(8, (6, 19), (3, 3), strides=(2, 2), padding=(0, 0, 1, 1)),
        {"tile_rows": 2, "tile_columns": 5},
    ),
    "more padding than rows": (
        depthwise(8, (2, 3), (5, 5), padding=(4, 4, 4, 4)),
        {"tile_rows": 3, "tile_columns": 2},
    ),
    "places that read nothing": (
        depthwise(8, (2, 2), (2, 2), padding=(3, 3, 3, 3)),
        {"tile_rows": 2, "tile_columns": 3},
    ),
    "dilation": (
        depthwise(8, (9, 7), (3, 3), padding=(3, 2, 3, 2), dilation=(3, 2)),
        {"tile_rows": 3, "tile_columns": 7},
    ),
    "tasks": (
        depthwise(32, (12, 6), (5, 5), padding=(2, 2, 2, 2)),
        {"tile_rows": 2, "tile_columns": 6, "task_rows": 3, "channel_tasks": 2},
    ),
    "one row": (depthwise(8, (1, 9), (3, 3), padding=ONE), {"tile_rows": 1, "tile_columns": 9}),
}

PAIRS: dict[str, tuple[relay.Expr, dict[str, int]]] = {
    # Two tasks share seven rows pixel by pixel, and have four each, of which one is both's.
    "rows shared": (pair(16, (7, 9), 32, batch=2), {"task_rows": 4, "depthwise_rows": 3}),
    "tasks of whole rows": (
        pair(16, (13, 10), 24, stride=2, between=relay.nn.relu),
        {"task_rows": 3, "depthwise_rows": 2, "depthwise_columns": 2},
    ),
}


@pytest.mark.parametrize("case", few_fast(WINDOWS, 3))
def test_a_window_is_right(case: str) -> None:
    assert_right(DEPTHWISE, *WINDOWS[case])


@pytest.mark.parametrize("case", few_fast(PAIRS, 1))
def test_a_pair_is_right(case: str) -> None:
    assert_right(DEPTHWISE_POINTWISE, *PAIRS[case])


def assert_right(template: Template, body: relay.Expr, knobs: dict[str, int]) -> None:
    """Compile a block for a processor that sums rows together, and compare the numbers."""
    target = eight_lanes()
    cpu = replace(describe_cpu(target), registers=REGISTERS, strip_rows=MOST_ROWS)
    match = matched(template, describe_block(unscheduled(body, target), cpu))
    defaults = {name: knob.default for name, knob in match.knobs().items()}
    assert knobs.keys() <= defaults.keys()
    func = match.emit({**defaults, **knobs})
    assert "fusionx_hidden_number" in func.script()
    assert_computes(func, target, module(body))
