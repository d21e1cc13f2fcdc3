"""A depthwise convolution and the pointwise one after it: one kernel, and the same numbers."""

from __future__ import annotations

import functools

import pytest
from tvm import relay

from tests.depthwise_pairs import blocked_image, depthwise, hard_swish, pair, pointwise, relu6
from tests.relay_modules import REASSOCIATING, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import AVX2, as_block, assert_scheduled, cut_to, describe
from tests.schedules.matching import why_not
from tvm_fusionx.lowering import lowering
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.windows.depthwise_pointwise import DEPTHWISE_POINTWISE

NAME = "depthwise_pointwise"
OTHER_TARGETS = ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", "llvm -mcpu=haswell")


PAIRS = {
    "whole tiles": pair(16, (8, 8), 16),
    "odd sizes": pair(24, (7, 9), 40),
    "one pixel": pair(8, (1, 1), 8),
    "one row": pair(8, (1, 11), 16),
    "one column": pair(8, (9, 1), 16),
    "stride 2": pair(16, (9, 11), 24, stride=2),
    "stride 2 of even sizes": pair(16, (12, 10), 16, stride=2),
    "dilated": pair(16, (11, 13), 16, dilation=2),
    "dilated beyond the image": pair(8, (4, 5), 8, dilation=4),
    "wide window": pair(8, (9, 12), 16, kernel=5),
    "no padding": pair(16, (10, 12), 16, padding=0),
    "more padding than window": pair(8, (5, 6), 8, padding=4),
    "wide rows": pair(8, (5, 61), 16),
    "two images": pair(16, (7, 6), 24, batch=2, stride=2),
    "chunks of 16": pair(32, (6, 7), 48, block=16, out_block=16),
    "chunks differ": pair(24, (6, 7), 32, block=8, out_block=16),
    "chunks of 12 and 6": pair(24, (5, 6), 18, block=12, out_block=6),
    "chunks of 1": pair(3, (5, 6), 16, block=1),
    "relu6": pair(16, (6, 7), 16, between=relu6, after=relu6),
    "hard swish": pair(16, (6, 7), 16, between=hard_swish, after=hard_swish),
    "nothing between": pair(16, (6, 7), 16, between=lambda y: y, after=lambda y: y),
    "a residual": pair(16, (6, 7), 16, after=lambda y: y + blocked_image(16, 6, 7, name="r")),
    "another residual": pair(
        16, (7, 6), 24, after=lambda y: relu6(y + var("r", 1, 3, 7, 6, 8)), stride=1
    ),
    "a gate between": pair(16, (6, 7), 16, between=lambda y: y * var("g", 1, 2, 1, 1, 8)),
    "channels cut off": pair(16, (6, 7), 16, after=functools.partial(cut_to, 13)),
    "put back in order": pair(
        16, (6, 7), 16, after=lambda y: relay.layout_transform(y, "NCHW8c", "NCHW")
    ),
}


@pytest.mark.parametrize("case", few_fast(PAIRS, 1))
def test_it_is_both_convolutions(case: str) -> None:
    assert_scheduled(PAIRS[case], NAME, REASSOCIATING)


@pytest.mark.slow
def test_nothing_at_all_around_them() -> None:
    body = pointwise(depthwise(blocked_image(16, 5, 6), 16), 16, 8)
    assert_scheduled(body, NAME, REASSOCIATING)


@pytest.mark.slow
@pytest.mark.parametrize("target", OTHER_TARGETS)
def test_other_cpus_get_a_kernel(target: str) -> None:
    resolved = resolve_target(target)
    with lowering(resolved) as log:
        relay.build(as_block(pair(16, (9, 11), 24, block=4, out_block=4, stride=2)), resolved)
    assert [(each.template, each.fallback_reason) for each in log.entries] == [(NAME, None)]


def test_it_serves_nothing_else() -> None:
    alone = describe(depthwise(blocked_image(8, 5, 5), 8), AVX2)
    assert why_not(DEPTHWISE_POINTWISE, alone) == "it has 1 reductions, not two"
