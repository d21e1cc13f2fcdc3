"""Dense blocked convolutions: the template serves them, and the numbers are right."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    assert_scheduled,
    dense,
    describe,
    eight_lanes,
    hard_swish,
)
from tests.schedules.matching import why_not
from tests.schedules.winograd_convolution import frames_beside
from tvm_fusionx.schedules.windows.dense import CONV2D

ASYMMETRIC = (0, 1, 1, 2)


def _shuffle(y: relay.Expr) -> relay.Expr:
    apart = relay.reshape(y, (1, 2, 2, 1, 6, 5, 8))
    placed = relay.transpose(apart, (0, 3, 4, 1, 5, 2, 6))
    return relay.nn.relu(relay.reshape(placed, (1, 1, 12, 10, 8)))


def _cut(y: relay.Expr, channels: int) -> relay.Expr:
    image = relay.layout_transform(y, "NCHW8c", "NCHW")
    return relay.nn.relu(relay.strided_slice(image, [0], [channels], axes=[1]))


def _resize(y: relay.Expr) -> relay.Expr:
    return relay.image.resize2d(
        y,
        (12, 10),
        layout="NCHW8c",
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )


def _gated(x: relay.Expr) -> relay.Expr:
    return x * var("gate", 1, 2, 1, 1, 8)


def _pieces(x: relay.Expr) -> relay.Expr:
    return relay.concatenate([x, var("second", 1, 3, 6, 7, 8)], 1)


def _enlarged(x: relay.Expr) -> relay.Expr:
    small = var("small", 1, 1, 3, 7, 8)
    return relay.concatenate([relay.repeat(small, 2, 2), x], 1)


VIDEO = var("video", 3, 2, 6, 7, 8)
BLOCKS = {
    "prime width": dense(16, (5, 13), 32, (3, 3), padding=(1, 1, 1, 1), post=hard_swish),
    "wider than a tile": dense(8, (3, 37), 16, (3, 3), padding=(1, 1, 1, 1)),
    "strides and padding differ": dense(
        16, (9, 11), 24, (3, 3), strides=(2, 1), padding=ASYMMETRIC, batch=2
    ),
    "dilation": dense(8, (9, 11), 24, (3, 3), padding=(1, 2, 1, 2), dilation=(1, 2)),
    "groups": dense(32, (5, 7), 32, (3, 3), padding=(1, 1, 1, 1), groups=2),
    "chunks of one channel": dense(
        6, (15, 17), 16, (7, 7), strides=(2, 2), padding=(3,) * 4, blocks=(1, 8)
    ),
    "pointwise, stride 2": dense(24, (6, 6), 40, (1, 1), strides=(2, 2), post=relay.nn.relu),
    "pointwise, one pixel": dense(24, (1, 1), 8, (1, 1), post=relay.sigmoid),
    "one row of a window": dense(16, (1, 20), 32, (1, 3), padding=(0, 1, 0, 1)),
    "chunks of 12 and 6": dense(12, (5, 7), 18, (1, 1), blocks=(12, 6)),
    "leaves the layout": dense(
        8, (5, 7), 16, (3, 3), post=lambda y: relay.layout_transform(y, "NCHW8c", "NCHW")
    ),
    "channels cut off": dense(8, (5, 7), 32, (3, 3), post=lambda y: _cut(y, 29)),
    "channels cut off, leaving many": dense(
        8, (3, 13), 48, (3, 3), padding=(1,) * 4, post=lambda y: relay.sigmoid(_cut(y, 33))
    ),
    "channels cut off and put last": dense(
        8, (5, 7), 48, (3, 3), post=lambda y: relay.transpose(_cut(y, 41), (0, 2, 3, 1))
    ),
    "pixels rearranged": dense(8, (6, 5), 32, (3, 3), padding=(1,) * 4, post=_shuffle),
    "resized after": dense(8, (6, 5), 16, (3, 3), padding=(1, 1, 1, 1), post=_resize),
    "gated": dense(16, (1, 7), 48, (1, 1), pre=_gated, post=relay.nn.relu),
    "gated batch": dense(16, (6, 7), 24, (1, 1), strides=(2, 2), batch=2, pre=_gated),
    "gated and activated before a padded window": dense(
        16, (6, 7), 16, (3, 3), padding=(1,) * 4, pre=lambda x: hard_swish(_gated(x))
    ),
    "pieces": dense(
        40, (6, 7), 48, (1, 1), strides=(1, 2), pre=lambda _: _pieces(var("f", 1, 2, 6, 7, 8))
    ),
    "pieces before a padded window": dense(
        40, (6, 7), 16, (3, 3), padding=(1,) * 4, pre=lambda _: _pieces(var("f", 1, 2, 6, 7, 8))
    ),
    "an enlarged piece": dense(
        16,
        (6, 7),
        24,
        (3, 3),
        padding=(1,) * 4,
        pre=lambda _: _enlarged(var("first", 1, 1, 6, 7, 8)),
    ),
    "frames": dense(
        48, (6, 7), 16, (3, 3), padding=(1,) * 4, batch=3, pre=lambda _: frames_beside(VIDEO, 3)
    ),
    "residual": dense(
        16, (6, 7), 16, (3, 3), padding=(1,) * 4, post=lambda y: y + var("r", 1, 2, 6, 7, 8)
    ),
}


@pytest.mark.parametrize("case", few_fast(BLOCKS, 1))
def test_a_block_around_a_dense_convolution_is_one_right_kernel(case: str) -> None:
    assert_scheduled(BLOCKS[case], "conv2d", REASSOCIATING, target=eight_lanes())


def test_work_before_the_convolution_is_gathered() -> None:
    gate = var("g", 1, 2, 1, 1, 8)
    body = relay.nn.contrib_conv2d_nchwc(
        relay.multiply(var("x", 1, 2, 5, 7, 8), gate),
        var("w", 2, 2, 3, 3, 8, 8),
        channels=16,
        kernel_size=(3, 3),
        data_layout="NCHW8c",
        kernel_layout="OIHW8i8o",
        out_layout="NCHW8c",
    )
    assert_scheduled(body, "conv2d", REASSOCIATING, target=eight_lanes())


def test_it_serves_no_depthwise_convolution_and_no_matrix_product() -> None:
    pool = relay.nn.max_pool2d(var("x", 1, 2, 6, 6, 8), (2, 2), (2, 2), layout="NCHW8c")
    assert why_not(CONV2D, describe(pool)) == "its reduction is not a sum of products"
    product = relay.nn.dense(var("x", 4, 8), var("w", 4, 8))
    assert "axes of a blocked convolution" in str(why_not(CONV2D, describe(product)))
