"""Pointwise convolutions whose pixels are counted across rows: which these are, and numbers."""

from __future__ import annotations

import functools

import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    as_block,
    assert_scheduled,
    cut_to,
    dense,
    describe,
    eight_lanes,
    hard_swish,
)
from tests.schedules.matching import why_not
from tvm_fusionx.lowering import lowering
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.windows.pointwise import NO_PRODUCTS, POINTWISE

NAME = "pointwise"
ONE = (1, 1)
OTHER_TARGETS = (
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76",
    "llvm -mcpu=haswell",
    "llvm -mcpu=skylake-avx512",
)


def shuffled(y: relay.Expr) -> relay.Expr:
    """Put channels in the place of pixels."""
    apart = relay.reshape(y, (1, 2, 2, 1, 6, 5, 8))
    placed = relay.transpose(apart, (0, 3, 4, 1, 5, 2, 6))
    return relay.nn.relu(relay.reshape(placed, (1, 1, 12, 10, 8)))


def gated(x: relay.Expr) -> relay.Expr:
    return x * var("gate", 1, 2, 1, 1, 8)


def joined(_: relay.Expr) -> relay.Expr:
    return relay.concatenate([var("first", 1, 2, 6, 7, 8), var("second", 1, 3, 6, 7, 8)], 1)


def enlarged(x: relay.Expr) -> relay.Expr:
    small = relay.repeat(var("small", 1, 1, 3, 7, 8), 2, 2)
    return relay.concatenate([small, var("first", 1, 1, 6, 7, 8)], 1)


def pixels_last(y: relay.Expr) -> relay.Expr:
    return relay.transpose(cut_to(29, y), (0, 2, 3, 1))


IMAGE = var("image", 1, 2, 6, 7, 8)
BLOCKS = {
    "whole tiles": dense(24, (6, 6), 40, ONE, post=relay.nn.relu),
    "seven by seven": dense(48, (7, 7), 80, ONE, post=hard_swish),
    "prime sizes": dense(16, (5, 13), 56, ONE),
    "many input channels": dense(1024, (3, 5), 24, ONE),
    "one column": dense(16, (5, 1), 8, ONE),
    "two pixels": dense(8, (2, 1), 8, ONE),
    "two images": dense(16, (6, 7), 24, ONE, batch=2),
    "chunks of 16": dense(32, (6, 7), 48, ONE, blocks=(16, 16)),
    "two chunks a vector": dense(16, (6, 7), 48, ONE, blocks=(8, 4), post=hard_swish),
    "an odd number of half vectors": dense(
        12, (5, 7), 20, ONE, blocks=(4, 4), post=lambda y: y + var("r", 1, 5, 5, 7, 4)
    ),
    "three quarters of vectors": dense(16, (5, 7), 14, ONE, blocks=(8, 2), batch=2),
    "half vectors leave the layout": dense(
        8,
        (5, 7),
        12,
        ONE,
        blocks=(8, 4),
        post=lambda y: relay.layout_transform(y, "NCHW4c", "NCHW"),
    ),
    "chunks differ": dense(32, (6, 7), 24, ONE, blocks=(16, 8)),
    "from chunks of 12": dense(12, (5, 7), 24, ONE, blocks=(12, 8)),
    "chunks of 1": dense(3, (5, 7), 16, ONE, blocks=(1, 8)),
    "leaves the layout": dense(
        8, (5, 7), 16, ONE, post=lambda y: relay.layout_transform(y, "NCHW8c", "NCHW")
    ),
    "without its padding": dense(8, (5, 7), 32, ONE, post=functools.partial(cut_to, 29)),
    "channels last": dense(8, (5, 7), 32, ONE, post=pixels_last),
    "pixels rearranged": dense(8, (6, 5), 32, ONE, post=shuffled),
    "residual": dense(16, (6, 7), 16, ONE, post=lambda y: y + var("r", 1, 2, 6, 7, 8)),
    "its own input added": dense(
        16, (6, 7), 16, ONE, pre=lambda _: IMAGE, post=lambda y: relay.nn.relu(y + IMAGE)
    ),
    "gated": dense(16, (6, 7), 48, ONE, pre=gated, post=relay.nn.relu),
    "gated batch": dense(16, (6, 7), 24, ONE, batch=2, pre=gated),
    "joined": dense(40, (6, 7), 48, ONE, pre=joined),
    "an enlarged piece": dense(16, (6, 7), 24, ONE, pre=enlarged),
}


@pytest.mark.parametrize("case", few_fast(BLOCKS, 1))
def test_a_block_around_it_is_one_right_kernel(case: str) -> None:
    assert_scheduled(BLOCKS[case], NAME, REASSOCIATING, target=eight_lanes())


@pytest.mark.slow
@pytest.mark.parametrize("target", OTHER_TARGETS)
def test_other_cpus_get_a_kernel(target: str) -> None:
    resolved = resolve_target(target)
    body = dense(64, (7, 9), 48, ONE, blocks=(16, 16), pre=lambda x: relay.nn.relu(x))
    with lowering(resolved) as log:
        relay.build(as_block(body), resolved)
    assert [(each.template, each.fallback_reason) for each in log.entries] == [(NAME, None)]


HALVES_SUMMED_AS_FLOATS = relay.nn.contrib_conv2d_nchwc(
    relay.var("x", shape=(1, 2, 5, 7, 8), dtype="float16"),
    relay.var("w", shape=(2, 2, 1, 1, 8, 8), dtype="float16"),
    channels=16,
    kernel_size=ONE,
    data_layout="NCHW8c",
    kernel_layout="OIHW8i8o",
    out_layout="NCHW8c",
    out_dtype="float32",
)
REFUSED = {
    "its window is not one pixel of all channels": (
        dense(16, (5, 7), 16, (3, 3), padding=(1,) * 4),
        dense(16, (6, 6), 16, ONE, strides=(2, 2)),
    ),
    NO_PRODUCTS: (
        relay.nn.global_avg_pool2d(var("x", 1, 2, 6, 6, 8), layout="NCHW8c"),
        HALVES_SUMMED_AS_FLOATS,
    ),
    "its pixels do not read those in the same place": (dense(32, (5, 7), 32, ONE, groups=2),),
    "its pixels are one row": (dense(16, (1, 9), 16, ONE),),
    "its chunks fill no whole vectors": (
        dense(12, (5, 7), 24, ONE, blocks=(12, 12)),
        dense(12, (5, 7), 18, ONE, blocks=(12, 6)),
    ),
    "its result is not written pixel by pixel": (
        dense(8, (5, 7), 32, ONE, post=functools.partial(cut_to, 24)),
        dense(8, (5, 7), 32, ONE, post=lambda y: relay.strided_slice(y, [0], [5], axes=[3])),
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_it_does_not_serve_has_a_reason(reason: str) -> None:
    for body in REFUSED[reason]:
        found = why_not(POINTWISE, describe(body))
        assert found == reason
