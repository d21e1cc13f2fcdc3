"""Sizes of a layer, and its segments: they cover each column once, where the image has it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reuse_layers import drawn
from tvm_fusionx.reuse.choice import Choice
from tvm_fusionx.reuse.clusters import unfold
from tvm_fusionx.reuse.layer import ReuseLayer


@pytest.mark.parametrize("seed", range(20))
def test_segments_lie_in_one_piece_and_cover_all_columns(seed: int) -> None:
    layer = drawn(seed)
    shape = (layer.images, layer.depth, layer.height, layer.width)
    image = np.random.default_rng(seed).random(shape).astype("float32")
    rows = unfold(layer, image)
    top, left, bottom, right = layer.padding
    padded = np.pad(image, ((0, 0), (0, 0), (top, bottom), (left, right)))
    flat = padded[-1].transpose(1, 2, 0).reshape(-1)
    y, x = layer.result[0] - 1, layer.result[1] - 1
    base = (y * layer.strides[0] * layer.padded[1] + x * layer.strides[1]) * layer.depth
    column = 0
    for segment in layer.segments:
        assert segment.column == column
        start = base + segment.offset
        found = rows[-1, column : column + segment.length]
        np.testing.assert_array_equal(flat[start : start + segment.length], found)
        column += segment.length
    assert column == layer.columns == rows.shape[1]


@pytest.mark.parametrize("seed", range(5))
def test_a_text_tells_all(seed: int) -> None:
    layer = drawn(seed)
    assert ReuseLayer.of_text(layer.text()) == layer


def test_a_choice_of_a_convolution() -> None:
    choice = Choice(10, 4, 64, "first", True, ((0.0,) * 4,) * 6)
    window = ((3, 3), (2, 2), (1, 1), (1, 1, 1, 1))
    layer = ReuseLayer.of((2, 2, 9, 9, 3), window, (16, 8), choice)
    assert (layer.depth, layer.columns, layer.run, layer.pieces) == (6, 54, 18, 2)
    assert layer.segment_count == 6
    assert [segment.length for segment in layer.segments] == [10, 8] * 3
    assert layer.result_shape == (2, 2, 5, 5, 8)
    assert (layer.groups, layer.rows, layer.clusters) == (1, 50, 16)
    assert layer.has_room
    assert not layer.takes_mean


def test_fewer_clusters_than_codes_may_leave_some_without_room() -> None:
    choice = Choice(10, 4, 15, "mean", False, ((0.0,) * 4,))
    window = ((1, 1), (1, 1), (1, 1), (0, 0, 0, 0))
    layer = ReuseLayer.of((1, 1, 50, 1, 10), window, (16, 8), choice)
    assert layer.is_in_place
    assert (layer.clusters, layer.has_room) == (15, False)
