"""Blocked pooling: the template serves it, and the numbers are right."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import assert_scheduled, depthwise, describe
from tests.schedules.matching import why_not
from tvm_fusionx.schedules.windows.channelwise import POOL

WINDOW = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1), "layout": "NCHW8c"}
VIDEO = var("x", 4, 2, 7, 9, 8)
SIDE_BY_SIDE = {"pool_size": (2, 2), "strides": (2, 2), "padding": (1, 1), "layout": "NCHW8c"}

BLOCKS = {
    "maximum": relay.nn.max_pool2d(var("x", 1, 2, 11, 13, 8), **WINDOW),
    "average": relay.nn.avg_pool2d(var("x", 1, 2, 11, 13, 8), **WINDOW),
    "maximum of neighbouring images": relay.nn.max_pool2d(
        relay.maximum(*(relay.strided_slice(VIDEO, [i], [4], [2], axes=[0]) for i in (0, 1))),
        **SIDE_BY_SIDE,
    ),
    "average of the padding too": relay.nn.avg_pool2d(
        var("x", 1, 2, 11, 13, 8), **WINDOW, count_include_pad=True
    ),
    "global average": relay.nn.global_avg_pool2d(var("x", 2, 3, 5, 7, 8), layout="NCHW8c"),
    "global maximum": relay.nn.relu(
        relay.nn.global_max_pool2d(var("x", 1, 3, 5, 7, 8), layout="NCHW8c")
    ),
}


@pytest.mark.parametrize("case", few_fast(BLOCKS, 1))
def test_a_block_around_a_pooling_is_one_right_kernel(case: str) -> None:
    assert_scheduled(BLOCKS[case], "pool", REASSOCIATING)


def test_it_serves_no_convolution() -> None:
    info = describe(depthwise(8, (4, 4), (3, 3)))
    assert why_not(POOL, info) == "its reduction is not one tensor's window"
