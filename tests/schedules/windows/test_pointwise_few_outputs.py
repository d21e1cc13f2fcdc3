"""Pointwise convolutions with few outputs: which are summed by lanes, and their numbers."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    AVX512,
    as_block,
    assert_scheduled,
    dense,
    describe,
    eight_lanes,
    hard_swish,
)
from tests.schedules.matching import knobs_of, why_not
from tests.schedules.windows.test_pointwise_few_outputs_places import (
    chunks_to_planes,
    few,
    sub_pixels,
)
from tvm_fusionx.lowering import lowering
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.windows.pointwise_few_outputs import POINTWISE_FEW_OUTPUTS

NAME = "pointwise_few_outputs"
ONE = (1, 1)
SLOWER = "adding up lanes takes more than longer vectors save"
OTHER_TARGETS = (
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76",
    "llvm -mcpu=haswell",
    "llvm -mcpu=skylake-avx512",
)


def planes(
    channels: int,
    size: tuple[int, int],
    outputs: int,
    inner: int = 8,
    *,
    batch: int = 1,
    post: Any = lambda y: y,
) -> relay.Expr:
    """Return a convolution to a few planes, followed by `post`."""
    return dense(
        channels,
        size,
        outputs,
        ONE,
        batch=batch,
        blocks=(inner, outputs),
        post=lambda y: post(chunks_to_planes(y, outputs)),
    )


def picture(size: tuple[int, int], outputs: int = 4) -> Any:
    """Return what puts channels in place as the pixels of an activated picture."""
    return lambda y: relay.sigmoid(sub_pixels(y, outputs, size) + var("c", 1, 1, 1, 1))


BLOCKS = {
    "planes": planes(64, (6, 7), 2, post=relay.sigmoid),
    "a picture of sub-pixels": dense(24, (5, 12), 4, ONE, blocks=(8, 4), post=picture((5, 12))),
    "sub-pixels, two images": dense(
        32,
        (3, 9),
        4,
        ONE,
        batch=2,
        blocks=(8, 4),
        post=lambda y: relay.reshape(
            relay.transpose(relay.reshape(y, (2, 3, 9, 2, 2)), (0, 1, 3, 2, 4)), (2, 6, 18)
        ),
    ),
    "a chunk": dense(48, (5, 7), 4, ONE, blocks=(8, 4), post=hard_swish),
    "a chunk and a residual": dense(
        48, (5, 7), 2, ONE, blocks=(8, 2), post=lambda y: y + var("r", 1, 1, 5, 7, 2)
    ),
    "three planes": planes(64, (5, 13), 3, post=relay.nn.relu),
    "one plane": planes(16, (5, 13), 1, post=relay.sigmoid),
    "one row": planes(32, (1, 29), 2),
    "two images": planes(32, (3, 7), 2, batch=2),
    "planes multiplied": planes(32, (3, 7), 2, post=lambda y: y * var("g", 1, 2, 1, 1)),
    "chunks of two vectors": planes(64, (5, 7), 4, 16),
    "chunks of half a vector": planes(32, (5, 7), 3, 4, post=relay.nn.relu),
    "chunks of two channels": dense(12, (5, 7), 2, ONE, blocks=(2, 2), post=relay.nn.relu),
    "planes of one channel each": planes(5, (5, 7), 2, 1),
    "many channels": planes(512, (3, 5), 2),
    "one vector of pixels": planes(16, (2, 4), 2),
}


@pytest.mark.parametrize("case", few_fast(BLOCKS, 2))
def test_a_block_around_it_is_one_right_kernel(case: str) -> None:
    assert_scheduled(BLOCKS[case], NAME, REASSOCIATING, target=eight_lanes())


@pytest.mark.slow
@pytest.mark.parametrize("target", OTHER_TARGETS)
@pytest.mark.parametrize("inner", [4, 8, 16])
def test_other_cpus_get_a_kernel(target: str, inner: int) -> None:
    resolved = resolve_target(target)
    body = planes(64, (7, 9), 2, inner, post=relay.sigmoid)
    with lowering(resolved) as log:
        relay.build(as_block(body), resolved)
    assert [(each.template, each.fallback_reason) for each in log.entries] == [(NAME, None)]


def test_short_vectors_serve_where_two_begin_for_one_of_whole_width() -> None:
    body = planes(64, (14, 14), 8, 16)
    one = dataclasses.replace(AVX512, multiply_add_bits=256)
    assert why_not(POINTWISE_FEW_OUTPUTS, describe(body, AVX512)) is None
    assert why_not(POINTWISE_FEW_OUTPUTS, describe(body, one)) == SLOWER


def test_small_ones_are_one_task() -> None:
    (small, large) = (
        knobs_of(POINTWISE_FEW_OUTPUTS, describe(planes(32, size, 2)))["tasks"].default
        for size in ((5, 7), (160, 160))
    )
    assert small == 1 < large


HALVES_SUMMED_AS_FLOATS = relay.nn.contrib_conv2d_nchwc(
    relay.var("x", shape=(1, 4, 5, 7, 8), dtype="float16"),
    relay.var("w", shape=(1, 4, 1, 1, 8, 2), dtype="float16"),
    channels=2,
    kernel_size=ONE,
    data_layout="NCHW8c",
    kernel_layout="OIHW8i2o",
    out_layout="NCHW2c",
    out_dtype="float32",
)
REFUSED = {
    "its window is not one pixel of all channels": (
        dense(32, (5, 7), 2, (3, 3), padding=(1,) * 4, blocks=(8, 2)),
        dense(32, (6, 6), 2, ONE, strides=(2, 2), blocks=(8, 2)),
    ),
    "it sums no products of floats as they are": (
        relay.nn.global_avg_pool2d(var("x", 1, 2, 6, 6, 8), layout="NCHW8c"),
        HALVES_SUMMED_AS_FLOATS,
    ),
    "its pixels do not read those in the same place": (
        dense(64, (5, 7), 4, ONE, groups=2, blocks=(8, 2)),
    ),
    "its operands are computed": (
        dense(64, (5, 7), 2, ONE, blocks=(8, 2), pre=lambda x: x * var("gate", 1, 8, 1, 1, 8)),
    ),
    "its outputs are more than half a vector": (
        dense(64, (5, 7), 8, ONE),
        dense(64, (5, 7), 6, ONE, blocks=(8, 6)),
        dense(64, (5, 7), 4, ONE, blocks=(8, 2)),
    ),
    "its chunks fill no whole vectors": (
        planes(48, (5, 7), 2, 12),
        planes(48, (5, 7), 2, 6),
    ),
    SLOWER: (planes(16, (5, 7), 4),),
    "its weights do not stay in the first-level cache": (planes(2048, (5, 7), 4),),
    "a stage beside it has a loop nest of its own": (
        planes(32, (3, 7), 2, post=lambda y: relay.image.resize2d(y, (6, 14))),
    ),
    "its result lies in no whole vectors": (
        few(lambda y: relay.transpose(chunks_to_planes(y, 2), (0, 1, 3, 2)), 2),
        dense(24, (5, 3), 4, ONE, blocks=(8, 4), post=functools.partial(sub_pixels, size=(5, 3))),
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_it_does_not_serve_has_a_reason(reason: str) -> None:
    for body in REFUSED[reason]:
        assert why_not(POINTWISE_FEW_OUTPUTS, describe(body)) == reason
