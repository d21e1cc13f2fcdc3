"""Channels pass what moves, joins, picks, pools and reduces."""

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
LAST = (*range(24, 32),)

PASS = {
    "max pool": lambda x: relay.nn.max_pool2d(x, (3, 3), padding=(1, 1)),
    "average pool": lambda x: relay.nn.avg_pool2d(x, (2, 2), strides=(2, 2)),
    "adaptive pool": lambda x: relay.nn.adaptive_avg_pool2d(x, (2, 2)),
    "global pool": relay.nn.global_avg_pool2d,
    "upsampling": lambda x: relay.nn.upsampling(x, 2, 2),
    "resize": lambda x: relay.image.resize2d(x, (12, 12)),
    "pad": lambda x: relay.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))),
    "mean": lambda x: relay.mean(x, axis=[2, 3], keepdims=True),
    "largest of a row": lambda x: relay.max(x, axis=3, keepdims=True),
    "to the end and back": lambda x: relay.transpose(
        relay.transpose(x, (0, 2, 3, 1)), (0, 3, 1, 2)
    ),
    "reshape of the image": lambda x: relay.reshape(x, (1, C, 4, 16)),
    "an axis less, and more": lambda x: relay.expand_dims(relay.squeeze(x, axis=[0]), axis=0),
    "a slice of the image": lambda x: relay.strided_slice(x, [0, 0, 1, 1], [1, C, 7, 9]),
    "a slice of one axis": lambda x: relay.strided_slice(x, [1], [5], axes=[2]),
    "a slice from the end": lambda x: relay.strided_slice(x, [-C], [2**31 - 1], axes=[1]),
    "parts of the image": lambda x: relay.split(x, 2, axis=2)[1],
    "joined along the image": lambda x: relay.concatenate([x, relay.nn.relu(x)], axis=3),
}


@pytest.mark.parametrize("name", PASS)
def test_zeros_pass(name: str) -> None:
    found, _ = dropped(pointwise(PASS[name](features()), C, 4))
    assert channels_of(found) == [LEFT, 4]


ROWS_OF_AN_IMAGE = {
    "flatten": relay.nn.batch_flatten,
    "reshape": lambda x: relay.reshape(x, (1, -1)),
    "reshape of pooled": lambda x: relay.reshape(relay.nn.global_avg_pool2d(x), (-1, C)),
    "mean": lambda x: relay.mean(x, axis=[2, 3]),
    "squeeze": lambda x: relay.squeeze(relay.nn.global_max_pool2d(x), axis=[2, 3]),
}


@pytest.mark.parametrize("name", ROWS_OF_AN_IMAGE)
def test_an_image_in_a_row_loses_the_pixels_of_its_channels(name: str) -> None:
    rows = ROWS_OF_AN_IMAGE[name](features())
    width = graph(rows).outputs[0].shape[1]
    found, _ = dropped(relay.nn.dense(rows, weights(5, width)))
    assert channels_of(found) == [LEFT, 5]
    assert found.calls()[-1].operands[1].shape == (5, width * LEFT // C)


def test_a_pixel_that_is_read_keeps_its_channel() -> None:
    kernel = weights(5, C * 64, zero=range(C * 64), axis=1).data.numpy()
    kernel[2, 17 * 64 + 3] = 1
    rows = relay.nn.batch_flatten(features(zero=()))
    found, _ = dropped(relay.nn.dense(rows, relay.const(kernel)), chunk=1)
    assert channels_of(found) == [1, 5]


def test_a_row_becomes_channels_again() -> None:
    image = relay.reshape(relay.nn.dense(ROWS, weights(C, 12, zero=DEAD)), (2, C, 1, 1))
    found, _ = dropped(pointwise(image, C, 4))
    assert channels_of(found) == [LEFT, 4]


def test_joined_channels_each_lose_their_own() -> None:
    joined = relay.concatenate([features(), features(zero=LAST, seed=2)], axis=1)
    found, _ = dropped(pointwise(joined, 2 * C, 4))
    assert channels_of(found) == [LEFT, 24, 4]
    assert found.calls()[-1].operands[1].shape == (4, LEFT + 24, 1, 1)


def test_what_is_joined_with_other_values_loses_its_own() -> None:
    joined = relay.concatenate([IMAGE, features(), IMAGE], axis=1)
    found, _ = dropped(pointwise(joined, C + 6, 4))
    assert channels_of(found) == [LEFT, 4]
    assert found.calls()[-1].operands[1].shape == (4, LEFT + 6, 1, 1)


def test_what_the_model_is_given_stays_in_a_joint_that_nobody_reads() -> None:
    joined = relay.concatenate([IMAGE, features()], axis=1)
    found, _ = dropped(pointwise(joined, C + 3, 4, zero=range(3), axis=1))
    assert channels_of(found) == [LEFT, 4]
    assert found.calls()[-1].operands[1].shape == (4, LEFT + 3, 1, 1)


def test_a_value_beside_itself() -> None:
    layer = features()
    found, _ = dropped(pointwise(relay.concatenate([layer, layer], axis=1), 2 * C, 4))
    assert channels_of(found) == [LEFT, 4]


def test_what_no_part_takes_is_not_computed() -> None:
    layer = features(zero=())
    parts = [relay.strided_slice(layer, [start], [start + 8], axes=[1]) for start in (0, 16)]
    found, _ = dropped(pointwise(parts[0] + parts[1], 8, 4))
    assert channels_of(found) == [16, 4]
    slices = [node for node in found.calls() if node.op == "strided_slice"]
    bounds = [(node.attrs["begin"], node.attrs["end"]) for node in slices]
    assert sorted(bounds) == [((0,), (8,)), ((8,), (16,))]


@pytest.mark.parametrize("sections", [4, (8, 16, 24)])
def test_parts_of_a_split_lose_their_own(sections: object) -> None:
    parts = relay.split(features(zero=DEAD), sections, axis=1)
    read = [pointwise(parts[number], 8, 4, seed=number) for number in (0, 2)]
    found, _ = dropped(read[0] + read[1], chunk=2)
    # Of the first eight channels three live and one fills a pair, of the third four do; of the
    # others, which nobody reads, one each stays.
    (split,) = [node for node in found.calls() if node.op == "split"]
    assert [part.shape[1] for part in split] == [4, 1, 4, 1]
    assert channels_of(found) == [10, 4, 4]


def test_a_part_that_is_returned_stays_whole() -> None:
    parts = relay.split(features(), 2, axis=1)
    found, _ = dropped(parts[0], pointwise(parts[1], C // 2, 4), chunk=4)
    assert channels_of(found) == [24, 4]
    assert found.outputs[0].shape == (1, 16, 8, 8)


OTHERS = {
    "pad with a number": lambda x: relay.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), 2.0),
    "a window beyond the image": lambda x: relay.nn.max_pool2d(
        x, (2, 2), strides=(2, 2), padding=(0, 0, 2, 2)
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_longer_zero_goes_only_unread(name: str) -> None:
    assert not dropped(pointwise(OTHERS[name](features()), C, 4))[1]
    unread = pointwise(OTHERS[name](features(zero=())), C, 4, zero=DEAD, axis=1)
    assert channels_of(dropped(unread)[0]) == [LEFT, 4]


REFUSED = {
    "it reduces the channels": lambda: relay.sum(features(), axis=[1]),
    "it pads the channels": lambda: relay.nn.pad(features(), ((0, 0), (0, 4), (0, 0), (0, 0))),
    "channels that it takes apart": lambda: relay.reshape(features(), (1, 4, 8, 8, 8)),
    "a slice of channels in steps": lambda: relay.strided_slice(
        features(), [0], [C], [2], axes=[1]
    ),
    "told by its size": lambda: relay.strided_slice(
        features(), [0, 4, 0, 0], [1, 8, 8, 8], slice_mode="size"
    ),
    "its operands have channels along different axes": lambda: relay.concatenate(
        [
            relay.nn.dense(var("rows", 32, 12), weights(C, 12)),
            relay.transpose(relay.nn.dense(var("rows", 32, 12), weights(C, 12))),
        ],
        axis=0,
    ),
    "an operand has no channels that can be followed": lambda: relay.concatenate(
        [features(), var("more", 1, C, 8, 2)], axis=3
    ),
    "channels that are not those of layout NHWC": lambda: relay.nn.max_pool2d(
        features(), (2, 2), layout="NHWC"
    ),
    "another layout, or several operands": lambda: relay.nn.max_pool2d(
        features(), (2, 2), layout="NCHW", out_layout="NHWC"
    ),
    "nn.softmax reads them": lambda: relay.nn.softmax(features(), axis=1),
    "nn.batch_matmul reads them": lambda: relay.nn.batch_matmul(
        relay.reshape(features(), (1, C, 64)), var("other", 1, 5, 64)
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_channels_end_at(reason: str) -> None:
    result = REFUSED[reason]()
    ends = follow(graph(result)).ends.values()
    assert [end for end in ends if reason in end], set(ends)
    assert not dropped(result)[1]


def test_numbers_of_all_kinds_are_equal_after_a_reshape() -> None:
    """A shape that could be read two ways: an image of one channel's size."""
    square = relay.nn.conv2d(var("image", 1, 3, 16, 16), weights(16, 3, 1, 1, zero=range(8)))
    turned = relay.reshape(square, (16, 16, 16))
    found, applied = dropped(relay.nn.dense(turned, weights(4, 16)))
    assert not applied
    assert channels_of(found) == [16, 16]
    assert np.prod(found.outputs[0].shape) == 16 * 16 * 4
