"""Depthwise blocked convolutions: the template serves them, and the numbers are right."""

from __future__ import annotations

import functools

import pytest

from tests.relay_modules import REASSOCIATING
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    assert_scheduled,
    cut_to,
    dense,
    depthwise,
    describe,
    hard_swish,
)
from tests.schedules.matching import why_not
from tvm_fusionx.schedules.windows.channelwise import DEPTHWISE

BLOCKS = {
    "window of 3": depthwise(16, (7, 13), (3, 3), padding=(1, 1, 1, 1), post=hard_swish),
    "window of 5, stride 2": depthwise(16, (9, 11), (5, 5), strides=(2, 2), padding=(2, 2, 2, 2)),
    "dilated, padding differs": depthwise(
        8, (11, 9), (3, 3), strides=(2, 1), padding=(2, 2, 1, 3), dilation=(2, 2)
    ),
    "chunks of 6": depthwise(12, (5, 4), (3, 3), padding=(1, 1, 1, 1), block=6),
    "channels cut off": depthwise(
        16, (7, 13), (3, 3), padding=(1, 1, 1, 1), post=functools.partial(cut_to, 13)
    ),
    "window of 9": depthwise(8, (9, 12), (1, 9), padding=(0, 4, 0, 4)),
}


@pytest.mark.parametrize("case", few_fast(BLOCKS, 1))
def test_a_block_around_a_depthwise_convolution_is_one_right_kernel(case: str) -> None:
    assert_scheduled(BLOCKS[case], "depthwise", REASSOCIATING)


def test_it_serves_no_dense_convolution() -> None:
    info = describe(dense(8, (4, 4), 8, (3, 3)))
    assert why_not(DEPTHWISE, info) == "its channels are summed"
