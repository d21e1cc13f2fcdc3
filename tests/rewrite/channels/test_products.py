"""Channels begin and end at convolutions and products of all kinds."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tests.rewrite.channels.dead_channels import (
    CHANNELS,
    DEAD,
    IMAGE,
    LEFT,
    ROWS,
    channels_of,
    dropped,
    features,
    pointwise,
    weights,
)
from tvm_fusionx.rewrite.channels.following import follow

C = CHANNELS
LINE, VOLUME = var("line", 1, 3, 12), var("volume", 1, 3, 4, 5, 6)
LAST = var("last", 1, 8, 8, 3)

PAIRS = {
    "conv1d": (
        1,
        lambda: relay.nn.conv1d(
            relay.nn.conv1d(LINE, weights(C, 3, 3, zero=DEAD)), weights(4, C, 1)
        ),
    ),
    "conv3d": (
        1,
        lambda: relay.nn.conv3d(
            relay.nn.conv3d(VOLUME, weights(C, 3, 3, 3, 3, zero=DEAD)), weights(4, C, 1, 1, 1)
        ),
    ),
    "channels last": (
        3,
        lambda: relay.nn.conv2d(
            relay.nn.conv2d(
                LAST,
                weights(3, 3, 3, C, zero=DEAD, axis=3),
                data_layout="NHWC",
                kernel_layout="HWIO",
                channels=C,
                kernel_size=(3, 3),
            ),
            weights(1, 1, C, 4),
            data_layout="NHWC",
            kernel_layout="HWIO",
            channels=4,
            kernel_size=(1, 1),
        ),
    ),
    "conv2d_transpose": (
        1,
        lambda: relay.nn.conv2d_transpose(
            relay.nn.conv2d_transpose(
                IMAGE,
                weights(3, C, 3, 3, zero=DEAD, axis=1),
                channels=C,
                kernel_size=(3, 3),
            ),
            weights(C, 4, 2, 2),
            channels=4,
            kernel_size=(2, 2),
            strides=(2, 2),
        ),
    ),
    "dense": (
        1,
        lambda: relay.nn.dense(
            relay.nn.dense(ROWS, weights(C, 12, zero=DEAD), units=C), weights(4, C)
        ),
    ),
    "matmul": (
        1,
        lambda: relay.nn.matmul(
            relay.nn.matmul(ROWS, weights(12, C, zero=DEAD, axis=1)),
            weights(4, C),
            transpose_b=True,
        ),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_rows_of_zeros_leave_the_first_and_what_they_meet_the_second(name: str) -> None:
    axis, make = PAIRS[name]
    found, (applied,) = dropped(make())
    assert channels_of(found, axis) == [LEFT, 4]
    assert applied.gain.arithmetic > 0


@pytest.mark.parametrize("name", PAIRS)
def test_columns_of_zeros_leave_channels_unread(name: str) -> None:
    """The other way round: what nobody reads is not computed."""
    axis, make = PAIRS[name]

    def read(call: relay.Call, place: int, zero: bool) -> relay.Constant:
        array = np.abs(call.args[1].data.numpy()) + 1
        array = array.astype("float32")
        if zero:
            np.moveaxis(array, place, 0)[list(DEAD)] = 0
        return relay.const(array)

    second = make()
    first = second.args[0]
    side = next(place for place, extent in enumerate(second.args[1].data.shape) if int(extent) == C)
    inner = relay.Call(first.op, [first.args[0], read(first, 0, False)], first.attrs)
    outer = relay.Call(second.op, [inner, read(second, side, True)], second.attrs)
    found, _ = dropped(outer)
    assert channels_of(found, axis) == [LEFT, 4]


@pytest.mark.parametrize("each", [1, 2])
def test_a_depthwise_layer_loses_its_groups(each: int) -> None:
    layer = relay.nn.conv2d(
        features(),
        weights(each * C, 1, 3, 3),
        padding=(1, 1),
        groups=C,
        channels=each * C,
        kernel_size=(3, 3),
    )
    found, _ = dropped(pointwise(layer, each * C, 4))
    assert channels_of(found) == [LEFT, each * LEFT, 4]
    (depthwise,) = [node for node in found.calls() if node.attrs.get("groups", 1) > 1]
    assert depthwise.attrs["groups"] == LEFT
    assert depthwise.operands[1].shape == (each * LEFT, 1, 3, 3)


def test_a_transposed_depthwise_layer_loses_its_groups() -> None:
    layer = relay.nn.conv2d_transpose(
        features(), weights(C, 1, 2, 2), strides=(2, 2), groups=C, channels=C, kernel_size=(2, 2)
    )
    found, _ = dropped(pointwise(layer, C, 4))
    assert channels_of(found) == [LEFT, LEFT, 4]


def test_windows_of_zeros_make_zeros_of_a_depthwise_layer() -> None:
    layer = relay.nn.conv2d(
        features(zero=()), weights(C, 1, 3, 3, zero=DEAD), groups=C, channels=C, kernel_size=(3, 3)
    )
    found, _ = dropped(pointwise(layer, C, 4))
    assert channels_of(found) == [LEFT, LEFT, 4]


def test_a_bias_that_is_not_zero_keeps_a_channel_that_is_read() -> None:
    layer = relay.nn.conv2d(IMAGE, weights(C, 3, 1, 1, zero=DEAD)) + weights(C, 1, 1)
    found, applied = dropped(pointwise(layer, C, 4))
    assert not applied
    assert channels_of(found) == [C, 4]


def test_infinite_weights_keep_channels_of_zeros() -> None:
    """Zero times infinity is no number, and stays none."""
    kernel = weights(4, C, 1, 1).data.numpy()
    kernel[0, DEAD[0]] = np.inf
    _, applied = dropped(relay.nn.conv2d(features(), relay.const(kernel)))
    assert not applied
    depthwise = weights(C, 1, 1, 1).data.numpy()
    depthwise[list(DEAD)] = np.nan
    layer = relay.nn.conv2d(
        features(), relay.const(depthwise), groups=C, channels=C, kernel_size=(1, 1)
    )
    assert not dropped(pointwise(layer, C, 4))[1]


GIVEN = var("given", 4, C, 1, 1)
REFUSED = {
    "weights that are computed": lambda: relay.nn.conv2d(features(), GIVEN),
    "it adds up another axis": lambda: relay.nn.dense(features(), weights(4, 8)),
    "4 groups": lambda: relay.nn.conv2d(
        features(), weights(8, C // 4, 1, 1), groups=4, channels=8, kernel_size=(1, 1)
    ),
    "a transposed operand": lambda: relay.nn.matmul(
        relay.nn.dense(var("rows", C, 12), weights(C, 12, zero=DEAD)),
        weights(C, 4),
        transpose_a=True,
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_channels_end_at(reason: str) -> None:
    result = REFUSED[reason]()
    ends = follow(graph(result)).ends.values()
    assert [end for end in ends if reason in end], set(ends)
    assert not dropped(result)[1]


def _chunked() -> relay.Expr:
    chunks = relay.layout_transform(IMAGE, "NCHW", "NCHW3c")
    kernel = weights(8, 1, 1, 1, 3, 4, zero=range(4))
    return relay.nn.conv2d(
        chunks,
        kernel,
        channels=C,
        kernel_size=(1, 1),
        data_layout="NCHW3c",
        kernel_layout="OIHW3i4o",
        out_layout="NCHW4c",
    )


NOT_BEGUN = {
    "layouts": _chunked,
    "integers": lambda: relay.nn.dense(
        relay.cast(ROWS, "int8"), relay.const(np.zeros((C, 12), "int8")), out_dtype="int32"
    ),
    "depthwise of what is given": lambda: relay.nn.conv2d(
        IMAGE, weights(6, 1, 1, 1, zero=range(4)), groups=3, channels=6, kernel_size=(1, 1)
    ),
}


@pytest.mark.parametrize("name", NOT_BEGUN)
def test_where_channels_do_not_begin(name: str) -> None:
    assert not follow(graph(NOT_BEGUN[name]())).of


def test_weights_in_an_order_that_tvm_does_not_say_are_left_alone() -> None:
    layer = relay.nn.conv2d_transpose(
        IMAGE, weights(3, 3, 1, 1), channels=3, kernel_size=(1, 1), kernel_layout="OIHW"
    )
    assert not follow(graph(layer)).of
