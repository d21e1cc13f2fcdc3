"""Dense windows whose chunks share vectors: which these are, and numbers."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    AVX2,
    as_block,
    assert_scheduled,
    dense,
    describe,
    eight_lanes,
    hard_swish,
)
from tests.schedules.matching import why_not
from tvm_fusionx.lowering import lowering
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.windows.joined_chunks import JOINED_CHUNKS

NAME = "joined_chunks"
PAD = (1, 1, 1, 1)
THREE = (3, 3)
# Chunks of half a vector of eight lanes.
HALF, HALVES = (8, 4), (4, 4)


def _cut(y: relay.Expr, channels: int) -> relay.Expr:
    image = relay.layout_transform(y, "NCHW4c", "NCHW")
    return relay.nn.relu(relay.strided_slice(image, [0], [channels], axes=[1]))


def _resize(y: relay.Expr) -> relay.Expr:
    return relay.image.resize2d(
        y,
        (12, 10),
        layout="NCHW4c",
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )


def _gated(x: relay.Expr) -> relay.Expr:
    return hard_swish(x * var("gate", 1, 2, 1, 1, 8))


def _pieces(x: relay.Expr) -> relay.Expr:
    return relay.concatenate([x, var("second", 1, 3, 6, 7, 8)], 1)


def _leaky(y: relay.Expr) -> relay.Expr:
    return relay.nn.leaky_relu(y, 0.2)


BLOCKS = {
    "an odd number of chunks": dense(8, (5, 13), 12, THREE, padding=PAD, blocks=HALF, post=_leaky),
    "a sequence": dense(12, (1, 75), 12, (1, 15), padding=(0, 7, 0, 7), blocks=HALVES, post=_leaky),
    "a long sequence, its weights together": dense(
        12, (1, 600), 20, (1, 5), padding=(0, 2, 0, 2), blocks=HALVES
    ),
    "an even number of chunks": dense(8, (5, 7), 40, THREE, padding=PAD, blocks=HALF),
    "more vectors than a tile, a prime number of them": dense(
        4, (4, 9), 52, THREE, padding=PAD, blocks=HALVES
    ),
    "four chunks a vector": dense(8, (5, 7), 14, THREE, padding=PAD, blocks=(8, 2)),
    "half a vector of joined chunks": dense(8, (5, 7), 6, THREE, padding=PAD, blocks=(8, 2)),
    "strides and padding differ": dense(
        16, (9, 11), 20, THREE, strides=(2, 1), padding=(0, 1, 1, 2), batch=2, blocks=HALF
    ),
    "columns apart": dense(
        8, (9, 11), 12, THREE, padding=(1, 2, 1, 2), dilation=(1, 2), blocks=HALF
    ),
    "a large window": dense(8, (9, 10), 12, (5, 5), padding=(2,) * 4, blocks=HALF),
    "no padding": dense(8, (6, 8), 12, THREE, blocks=HALF, post=hard_swish),
    "no padding, a row": dense(8, (1, 90), 12, (1, 3), strides=(1, 2), blocks=HALF),
    "one pixel, stride 2": dense(24, (6, 6), 20, (1, 1), strides=(2, 2), blocks=HALF),
    "one pixel of a row": dense(16, (1, 40), 20, (1, 1), blocks=HALF),
    "a residual": dense(
        8, (5, 7), 12, THREE, padding=PAD, blocks=HALF, post=lambda y: y + var("r", 1, 3, 5, 7, 4)
    ),
    "gated": dense(16, (6, 7), 12, THREE, padding=PAD, blocks=HALF, pre=_gated),
    "pieces": dense(
        40,
        (6, 7),
        12,
        THREE,
        padding=PAD,
        blocks=HALF,
        pre=lambda _: _pieces(var("f", 1, 2, 6, 7, 8)),
    ),
    "leaves the layout": dense(
        8,
        (5, 9),
        12,
        THREE,
        blocks=HALF,
        post=lambda y: relay.layout_transform(y, "NCHW4c", "NCHW"),
    ),
    "channels cut off": dense(8, (5, 7), 20, THREE, blocks=HALF, post=lambda y: _cut(y, 18)),
}


@pytest.mark.parametrize("case", few_fast(BLOCKS, 3))
def test_a_block_around_it_is_one_right_kernel(case: str) -> None:
    assert_scheduled(BLOCKS[case], NAME, REASSOCIATING, target=eight_lanes())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "blocks"),
    [
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", (4, 2)),
        ("llvm -mcpu=haswell", (8, 4)),
        ("llvm -mcpu=skylake-avx512", (8, 8)),
    ],
)
def test_other_cpus_get_a_kernel(target: str, blocks: tuple[int, int]) -> None:
    resolved = resolve_target(target)
    body = dense(24, (7, 9), 3 * blocks[1], THREE, padding=PAD, blocks=blocks, post=relay.nn.relu)
    with lowering(resolved) as log:
        relay.build(as_block(body), resolved)
    assert [(each.template, each.fallback_reason) for each in log.entries] == [(NAME, None)]


REFUSED = {
    "it sums no products over channels as they are": (
        relay.nn.max_pool2d(var("x", 1, 3, 6, 8, 4), THREE, padding=PAD, layout="NCHW4c"),
    ),
    "its channels are in groups": (
        dense(16, (5, 7), 24, THREE, padding=PAD, groups=2, blocks=HALF),
    ),
    "its vectors are no fewer than its chunks": (
        dense(8, (5, 7), 24, THREE, padding=PAD),
        dense(8, (5, 7), 4, THREE, padding=PAD, blocks=HALF),
    ),
    "its result is not written pixel by pixel": (
        dense(8, (5, 7), 12, THREE, blocks=HALF, post=lambda y: _cut(y, 5)),
        dense(8, (6, 5), 12, THREE, padding=PAD, blocks=HALF, post=_resize),
        dense(
            8,
            (5, 7),
            12,
            THREE,
            blocks=HALF,
            post=lambda y: relay.strided_slice(y, [0], [2], axes=[3]),
        ),
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_it_does_not_serve_has_a_reason(reason: str) -> None:
    for body in REFUSED[reason]:
        assert why_not(JOINED_CHUNKS, describe(body, AVX2)) == reason


def test_computed_weights_are_refused() -> None:
    body = relay.nn.contrib_conv2d_nchwc(
        var("x", 1, 2, 5, 7, 8),
        relay.nn.relu(var("w", 3, 2, 3, 3, 8, 4)),
        channels=12,
        kernel_size=THREE,
        data_layout="NCHW8c",
        kernel_layout="OIHW8i4o",
        out_layout="NCHW4c",
    )
    assert why_not(JOINED_CHUNKS, describe(body, AVX2)) == "its weights are computed"
