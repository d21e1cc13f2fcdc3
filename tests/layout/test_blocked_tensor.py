"""How channels are cut, and the ways into and out of the blocked layout."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.layout.blocked_tensor import (
    Blocked,
    block_for,
    blocked_layout,
    channels_to_add,
    enter,
    image_shape,
    is_same_memory,
    leave,
    pack_channels,
    rechunk,
)


@pytest.mark.parametrize(
    ("channels", "block"),
    [(64, 8), (24, 8), (12, 12), (18, 6), (42, 7), (60, 12), (22, 11), (6, 6), (3, 3), (1, 1)],
)
def test_chunks_fill_vectors_of_eight(channels: int, block: int) -> None:
    assert block_for(channels, 8) == block


@pytest.mark.parametrize(("channels", "block"), [(64, 4), (12, 4), (6, 3), (1, 1)])
def test_chunks_fill_vectors_of_four(channels: int, block: int) -> None:
    assert block_for(channels, 4) == block


@pytest.mark.parametrize(("channels", "block"), [(64, 16), (16, 16), (24, 8), (12, 12), (40, 8)])
def test_chunks_fill_vectors_of_sixteen_only_whole(channels: int, block: int) -> None:
    assert block_for(channels, 16) == block


@pytest.mark.parametrize(("before", "after"), [(4, 8), (8, 4), (8, 8), (2, 8)])
def test_chunks_are_cut_and_joined(before: int, after: int) -> None:
    made = graph(relay.nn.relu(var("x", 2, 16 // before, 2, 3, before)))
    form = rechunk(made, Blocked(made.calls()[0][0], (2, 16, 2, 3)), after)
    assert form is not None
    assert (form.shape, form.value.shape) == ((2, 16, 2, 3), (2, 16 // after, 2, 3, after))


def test_widths_that_do_not_divide_each_other_stay() -> None:
    made = graph(relay.nn.relu(var("x", 1, 4, 2, 2, 6)))
    assert rechunk(made, Blocked(made.calls()[0][0], (1, 24, 2, 2)), 8) is None


def test_the_layout_is_named_as_tvm_names_it() -> None:
    assert blocked_layout(8) == "NCHW8c"


def test_channels_of_a_chunk_lie_side_by_side() -> None:
    array = np.arange(2 * 6 * 2 * 3).reshape(2, 6, 2, 3)
    packed = pack_channels(array, 3)
    assert packed.shape == (2, 2, 2, 3, 3)
    assert packed[1, 1, 0, 2, 1] == array[1, 4, 0, 2]


def test_one_pixel_or_one_channel_moves_nothing() -> None:
    assert is_same_memory((2, 16, 1, 1), 8)
    assert is_same_memory((1, 3, 5, 5), 1)
    assert not is_same_memory((1, 16, 1, 2), 8)


def test_in_and_out_are_one_operator_each() -> None:
    made = graph(relay.nn.relu(var("x", 1, 16, 4, 4)))
    value = made.calls()[0][0]
    form = enter(made, value, 8)
    assert (form.value.op, form.value.shape) == ("layout_transform", (1, 2, 4, 4, 8))
    image = leave(made, form, form.shape)
    assert (image.op, image.shape) == ("layout_transform", (1, 16, 4, 4))


@pytest.mark.parametrize(
    ("channels", "vector", "missing"),
    [
        (285, 16, 3),
        (546, 16, 14),
        (255, 8, 1),
        # Chunks of 8 and of 16 are full as they are.
        (136, 16, 0),
        (256, 16, 0),
        # Chunks of 5, 6 and 7 fill no vector; two of 8 fill one together.
        (15, 16, 1),
        (91, 16, 5),
        (18, 16, 14),
        (24, 16, 0),
        (21, 16, 11),
        # One chunk of 4 or 2 fills as much as it would with zeros.
        (4, 16, 0),
        (2, 16, 0),
    ],
)
def test_channels_are_added_where_that_fills_more_lanes(
    channels: int, vector: int, missing: int
) -> None:
    assert channels_to_add(channels, vector) == missing


def test_a_sequence_is_an_image_of_one_row() -> None:
    assert image_shape((2, 16, 9)) == (2, 16, 1, 9)
    assert image_shape((2, 16, 4, 9)) == (2, 16, 4, 9)
    assert image_shape((16, 9)) is None
    assert image_shape((2, 1, 4, 9, 16)) is None
