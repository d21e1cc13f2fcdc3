"""Padded windows that keep channels apart: no padded copy, and the numbers are right."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, TARGET, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    assert_scheduled,
    depthwise,
    unscheduled,
)
from tvm_fusionx.schedules import resolve_target, schedule

POOL = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1), "layout": "NCHW8c"}


def _maximum(rows: int, columns: int, **how: object) -> relay.Expr:
    return relay.nn.max_pool2d(var("x", 1, 6, rows, columns, 8), **{**POOL, **how})


PADDED = {
    "odd extents": depthwise(48, (7, 5), (3, 3), padding=(1, 1, 1, 1), post=relay.nn.relu),
    "stride 2": depthwise(16, (14, 14), (3, 3), strides=(2, 2), padding=(1, 1, 1, 1)),
    "below and to the right": depthwise(8, (6, 19), (3, 3), strides=(2, 2), padding=(0, 0, 1, 1)),
    "more padding than rows": depthwise(8, (2, 3), (5, 5), padding=(4, 4, 4, 4)),
    "dilation": depthwise(8, (9, 7), (3, 3), padding=(3, 2, 3, 2), dilation=(3, 2)),
    "long window": depthwise(16, (3, 40), (1, 11), padding=(0, 5, 0, 5)),
    "largest": _maximum(13, 35),
    "largest of few pixels": _maximum(2, 3),
    "largest, put in order": relay.layout_transform(_maximum(5, 7), "NCHW8c", "NCHW"),
    "largest, enlarged": relay.image.resize2d(
        _maximum(6, 6), (7, 5), layout="NCHW8c", method="nearest_neighbor", rounding_method="floor"
    ),
    "average": relay.nn.avg_pool2d(var("x", 2, 2, 7, 6, 8), **POOL, count_include_pad=True),
}


@pytest.mark.parametrize("case", few_fast(PADDED, 2))
def test_a_padded_window_is_right(case: str) -> None:
    template = "depthwise" if "depthwise" in str(PADDED[case]) else "pool"
    assert_scheduled(PADDED[case], template, REASSOCIATING)


@pytest.mark.parametrize("case", ["odd extents", "largest"])
def test_nothing_is_copied_to_be_padded(case: str) -> None:
    func = schedule(unscheduled(PADDED[case]), resolve_target(TARGET)).func
    assert "if_then_else" not in func.script()
    assert "alloc_buffer" not in func.script()
