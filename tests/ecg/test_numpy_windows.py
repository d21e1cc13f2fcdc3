from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.ecg.numpy_windows import (
    NotInNumpyError,
    avg_pool2d,
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d_transpose,
    max_pool2d,
)

image = var("image", 1, 1, 3, 3)
pixels = np.arange(9, dtype="float32").reshape(1, 1, 3, 3)
ones = np.ones((1, 1, 2, 2), "float32")


def _node(expr: relay.Expr) -> Node:
    return graph(expr).outputs[0].node


def test_a_convolution_sums_each_window() -> None:
    node = _node(relay.nn.conv2d(image, const(1, 1, 2, 2)))
    np.testing.assert_array_equal(conv2d(node, [pixels, ones])[0, 0], [[8, 12], [20, 24]])


def test_a_convolution_over_one_axis_sums_each_window() -> None:
    steps = np.arange(8, dtype="float32").reshape(1, 2, 4)
    options = {"strides": 2, "padding": (1, 0), "dilation": 2}
    node = _node(relay.nn.conv1d(var("x", 1, 2, 4), const(1, 2, 2), **options))
    found = conv1d(node, [steps, np.array([[[1, 10], [1, 1]]], "float32")])[0]
    np.testing.assert_array_equal(found, [[15, 43]])
    last = _node(
        relay.nn.conv1d(var("x", 1, 4, 2), const(2, 2, 2), data_layout="NWC", kernel_layout="WIO")
    )
    with pytest.raises(NotInNumpyError, match="one axis"):
        conv1d(last, [steps, ones])


def test_a_transposed_convolution_adds_what_overlaps() -> None:
    node = _node(relay.nn.conv2d_transpose(var("x", 1, 1, 2, 2), const(1, 1, 2, 2)))
    found = conv2d_transpose(node, [ones, ones])[0, 0]
    np.testing.assert_array_equal(found, [[1, 2, 1], [2, 4, 2], [1, 2, 1]])


def test_a_transposed_convolution_of_volumes_adds_what_overlaps() -> None:
    sizes = {"channels": 1, "kernel_size": (2, 2, 2)}
    cube = np.ones((1, 1, 2, 2, 2), "float32")
    node = _node(relay.nn.conv3d_transpose(var("x", *cube.shape), const(*cube.shape), **sizes))
    found = conv3d_transpose(node, [cube, cube])[0, 0]
    np.testing.assert_array_equal(found[0], [[1, 2, 1], [2, 4, 2], [1, 2, 1]])
    np.testing.assert_array_equal(found[1], [[2, 4, 2], [4, 8, 4], [2, 4, 2]])
    data = np.arange(8, dtype="float32").reshape(cube.shape)
    sizes |= {"strides": (2, 2, 2), "padding": (1, 1, 1)}
    node = _node(relay.nn.conv3d_transpose(var("x", *cube.shape), const(*cube.shape), **sizes))
    np.testing.assert_array_equal(conv3d_transpose(node, [data, cube]), data)
    dilated = relay.nn.conv3d_transpose(
        var("x", *cube.shape), const(*cube.shape), dilation=(2, 2, 2), **sizes
    )
    with pytest.raises(NotInNumpyError, match="transposed"):
        conv3d_transpose(_node(dilated), [data, cube])


def test_padding_never_is_the_largest_element() -> None:
    node = _node(relay.nn.max_pool2d(image, (2, 2), (2, 2), padding=(1, 1, 0, 0)))
    np.testing.assert_array_equal(max_pool2d(node, [-pixels])[0, 0], [[0, -1], [-3, -4]])


def test_padding_is_counted_only_where_it_is_asked_for() -> None:
    for counts, corner in ((False, 0.0), (True, 0.0)):
        node = _node(
            relay.nn.avg_pool2d(
                image, (2, 2), (2, 2), padding=(1, 1, 0, 0), count_include_pad=counts
            )
        )
        found = avg_pool2d(node, [pixels])[0, 0]
        assert found[0, 0] == corner
        assert found[0, 1] == (0.75 if counts else 1.5)


def test_another_layout_is_refused() -> None:
    node = _node(relay.nn.max_pool2d(image, (2, 2), layout="NHWC"))
    with pytest.raises(NotInNumpyError):
        max_pool2d(node, [pixels])
