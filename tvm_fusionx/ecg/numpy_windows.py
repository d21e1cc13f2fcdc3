"""Convolutions and pools in numpy: one array for each tap of the window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_fusionx._tvm.arrays import is_floating
from tvm_fusionx.ecg.graph import Node

Arrays = Sequence[np.ndarray]


class NotInNumpyError(NotImplementedError):
    """No numpy equivalent is known of an operator, or of this form of it."""


def _geometry(node: Node) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int, int, int]]:
    strides, dilation = (
        tuple(int(item) for item in node.attrs.get(name) or (1, 1))
        for name in ("strides", "dilation")
    )
    padding = tuple(int(item) for item in node.attrs.get("padding") or (0, 0))
    top, left, bottom, right = (padding * 4)[:4] if len(padding) != 2 else padding * 2
    return (
        (strides[0], strides[1]),
        (dilation[0], dilation[1]),
        (top, left, bottom, right),
    )


def _windows(
    node: Node, data: np.ndarray, kernel: tuple[int, int], filler: Any
) -> list[np.ndarray]:
    """Return the data seen by each tap of a kernel, each of the result's height and width."""
    strides, dilation, (top, left, _, _) = _geometry(node)
    height, width = node.outputs[0].shape[2:]
    needed = [
        (extent - 1) * stride + (taps - 1) * step + 1
        for extent, stride, taps, step in zip(
            (height, width), strides, kernel, dilation, strict=True
        )
    ]
    shape = [
        *data.shape[:2],
        max(needed[0], top + data.shape[2]),
        max(needed[1], left + data.shape[3]),
    ]
    padded = np.empty(shape, dtype=data.dtype)
    padded[...] = filler
    padded[:, :, top : top + data.shape[2], left : left + data.shape[3]] = data
    return [
        padded[
            :,
            :,
            row * dilation[0] : row * dilation[0] + (height - 1) * strides[0] + 1 : strides[0],
            column * dilation[1] : column * dilation[1] + (width - 1) * strides[1] + 1 : strides[1],
        ]
        for row, column in itertools.product(range(kernel[0]), range(kernel[1]))
    ]


def _need_plain_layout(node: Node) -> None:
    layouts = [node.attrs.get(name) for name in ("data_layout", "layout", "kernel_layout")]
    if any(layout not in (None, "", "NCHW", "OIHW") for layout in layouts):
        raise NotInNumpyError(f"{node.op} with layouts {layouts}")


def conv2d(node: Node, arrays: Arrays) -> np.ndarray:
    """Convolve ``NCHW`` data with ``OIHW`` weights."""
    _need_plain_layout(node)
    data, weight = arrays
    groups = int(node.attrs["groups"])
    out_channels, in_channels, rows, columns = weight.shape
    taps = _windows(node, data, (rows, columns), 0)
    # group, batch, its input channels, tap, height, width
    stacked = np.stack(taps, axis=2)
    batch, _, _, height, width = stacked.shape
    grouped = stacked.reshape(batch, groups, in_channels * rows * columns, height * width)
    filters = weight.reshape(groups, out_channels // groups, in_channels * rows * columns)
    out: np.ndarray = np.matmul(filters[None], grouped)
    return out.reshape(node.outputs[0].shape)


def conv1d(node: Node, arrays: Arrays) -> np.ndarray:
    """Convolve ``NCW`` data with ``OIW`` weights."""
    attrs = node.attrs
    if (attrs["data_layout"], attrs["kernel_layout"]) != ("NCW", "OIW"):
        raise NotInNumpyError(f"a convolution over one axis with {attrs}")
    data, weight = arrays
    batch, outputs, columns = node.outputs[0].shape
    stride, step = int(attrs["strides"][0]), int(attrs["dilation"][0])
    pads = [int(each) for each in attrs["padding"]]
    padded = np.pad(data, ((0, 0), (0, 0), (pads[0], pads[-1])))
    taps = [
        padded[:, :, tap * step : tap * step + (columns - 1) * stride + 1 : stride]
        for tap in range(weight.shape[2])
    ]
    groups = int(attrs["groups"])
    # batch, group, channel and tap, column
    stacked = np.stack(taps, axis=2).reshape(batch, groups, -1, columns)
    weights = weight.reshape(groups, outputs // groups, -1)
    return np.matmul(weights, stacked).reshape(batch, outputs, columns)


def conv2d_transpose(node: Node, arrays: Arrays) -> np.ndarray:
    """Spread ``NCHW`` data with ``IOHW`` weights."""
    if node.attrs["data_layout"] != "NCHW" or node.attrs["kernel_layout"] != "IOHW":
        raise NotInNumpyError(f"a transposed convolution with {node.attrs}")
    data, weight = arrays
    groups = int(node.attrs["groups"])
    strides, dilation, (top, left, _, _) = _geometry(node)
    batch, channels, height, width = data.shape
    out_channels, rows, columns = weight.shape[1:]
    inputs = data.reshape(batch, groups, channels // groups, height * width)
    filters = weight.reshape(groups, channels // groups, out_channels, rows, columns)
    whole = np.zeros(
        (
            *node.outputs[0].shape[:2],
            max(node.outputs[0].shape[2] + top, (height - 1) * strides[0] + rows * dilation[0]),
            max(node.outputs[0].shape[3] + left, (width - 1) * strides[1] + columns * dilation[1]),
        ),
        dtype=data.dtype,
    )
    for row, column in itertools.product(range(rows), range(columns)):
        taps = np.matmul(filters[:, :, :, row, column].swapaxes(1, 2), inputs)
        down, right = row * dilation[0], column * dilation[1]
        whole[
            :,
            :,
            down : down + (height - 1) * strides[0] + 1 : strides[0],
            right : right + (width - 1) * strides[1] + 1 : strides[1],
        ] += taps.reshape(batch, groups * out_channels, height, width)
    out_height, out_width = node.outputs[0].shape[2:]
    return whole[:, :, top : top + out_height, left : left + out_width]


def conv3d_transpose(node: Node, arrays: Arrays) -> np.ndarray:
    """Spread ``NCDHW`` data with ``IODHW`` weights, undilated."""
    attrs = node.attrs
    is_plain = attrs["data_layout"] == "NCDHW" and int(attrs["groups"]) == 1
    if not is_plain or any(int(each) != 1 for each in attrs["dilation"]):
        raise NotInNumpyError(f"a transposed convolution with {attrs}")
    data, weight = arrays
    strides = [int(each) for each in attrs["strides"]]
    before = [int(each) for each in attrs["padding"]][:3]
    shape = node.outputs[0].shape
    sizes = zip(data.shape[2:], strides, weight.shape[2:], before, shape[2:], strict=True)
    extents = [
        max((size - 1) * stride + taps, pad + extent) for size, stride, taps, pad, extent in sizes
    ]
    whole = np.zeros((*shape[:2], *extents), data.dtype)
    for tap in np.ndindex(*weight.shape[2:]):
        places = [
            slice(start, start + (size - 1) * stride + 1, stride)
            for start, size, stride in zip(tap, data.shape[2:], strides, strict=True)
        ]
        depth, row, column = tap
        # batch, depth, row, column, channel
        taps = np.moveaxis(data, 1, -1) @ weight[:, :, depth, row, column]
        whole[:, :, places[0], places[1], places[2]] += np.moveaxis(taps, -1, 1)
    front, top, left = before
    return whole[:, :, front : front + shape[2], top : top + shape[3], left : left + shape[4]]


def max_pool2d(node: Node, arrays: Arrays) -> np.ndarray:
    """Return the largest element of each window."""
    _need_plain_layout(node)
    rows, columns = (int(item) for item in node.attrs["pool_size"])
    is_float = is_floating(arrays[0].dtype)
    lowest = -np.inf if is_float else np.iinfo(arrays[0].dtype).min
    return np.maximum.reduce(_windows(node, arrays[0], (rows, columns), lowest))


def avg_pool2d(node: Node, arrays: Arrays) -> np.ndarray:
    """Return the mean of each window."""
    _need_plain_layout(node)
    kernel = tuple(int(item) for item in node.attrs["pool_size"])
    if node.attrs.get("ceil_mode"):
        raise NotInNumpyError("an average pool that rounds up")
    total = sum(_windows(node, arrays[0], (kernel[0], kernel[1]), 0))
    if node.attrs["count_include_pad"]:
        return np.asarray(total / math.prod(kernel))
    counted = np.ones((1, 1, *arrays[0].shape[2:]), dtype=arrays[0].dtype)
    return np.asarray(total / sum(_windows(node, counted, (kernel[0], kernel[1]), 0)))
