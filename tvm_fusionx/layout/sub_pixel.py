"""Transposed convolutions as ordinary ones in NCHWc, whose channels are put in place as pixels.

With stride s, result q * s + r takes every s-th weight, from r on, of the pixels q, q - 1, ...: for
each r an ordinary convolution, all of them over the same pixels (Shi et al., 2016). So they are one
of s * s times as many channels, with its weights packed at compile time. Nothing is multiplied that
was not before, but zeros where s does not divide the window. Windows that tile the result are those
of one pixel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.layout.blocked_convolution import CONV2D, DENSE_BLOCKED, pack_weights
from tvm_fusionx.layout.blocked_tensor import (
    UNBLOCKED,
    Blocked,
    Convert,
    block_for,
    blocked_layout,
    blocked_shape,
    enter,
    reshape,
)

CONV2D_TRANSPOSE = "nn.conv2d_transpose"

TRANSPOSE_WEIGHTS = frozenset({"IOHW", "OIHW"})

# With fewer output channels vectors are filled with the pixels of a stride.
FEWEST_CHANNELS_A_CHUNK = 4

# Rows and columns among the axes of images, blocked or not.
PIXEL_AXES = (2, 3)


@dataclass(frozen=True)
class _Axis:
    """One axis of pixels, taken apart into places of `stride` results each."""

    stride: int
    taps: int
    """Pixels that a result takes."""
    before: int
    """Pixels of zeros before the data."""
    after: int
    places: int
    """Of the ordinary convolution's result."""
    cut: int
    """Results that are cut off in front."""


def _axis(data: int, window: int, stride: int, cut: int, results: int) -> _Axis:
    taps = math.ceil(window / stride)
    first = min(cut // stride, taps - 1)
    last = max((cut + results - 1) // stride, data - 1)
    before, after = taps - 1 - first, last - data + 1
    return _Axis(stride, taps, before, after, last - first + 1, cut - first * stride)


def why_not_sub_pixel(node: Node) -> str | None:
    """Return why a transposed convolution is not an ordinary one with its pixels rearranged."""
    attrs = node.attrs
    if attrs["data_layout"] != UNBLOCKED or attrs["kernel_layout"] not in TRANSPOSE_WEIGHTS:
        return f"its layouts are {attrs['data_layout']} and {attrs['kernel_layout']}"
    if attrs["out_layout"] not in ("", UNBLOCKED) or int(attrs["groups"]) != 1:
        return "it is grouped, or its result has a layout of its own"
    if not node.operands[1].is_constant or not node.operands[0].type.is_float:
        return "its weights are not constant, or its data is not floating point"
    if any(int(each) != 1 for each in attrs["dilation"]):
        return "its windows are dilated"
    return None


def block_sub_pixel(
    graph: Graph, node: Node, blocked: Convert, vector: int
) -> Blocked | Value | None:
    """Return a transposed convolution as an ordinary one, its pixels put in place afterwards.

    A result with too few channels for a vector comes back as an image.
    """
    if why_not_sub_pixel(node) is not None:
        return None
    data, weights = node.operands
    outputs = weights.shape[1]
    shape = node.outputs[0].shape
    axes = [
        _axis(data.shape[axis], weights.shape[axis], int(stride), int(cut), shape[axis])
        for axis, stride, cut in zip(
            PIXEL_AXES, node.attrs["strides"], node.attrs["padding"][:2], strict=True
        )
    ]
    rows, columns = (each.stride for each in axes)
    block = block_for(outputs, vector)
    form = blocked(data) or enter(graph, data, 1)
    by_pixel = block < FEWEST_CHANNELS_A_CHUNK and rows * columns > 1
    if by_pixel:
        block = rows * columns
    packed = pack_weights(_channels(weights.array, axes, by_pixel=by_pixel), form.block, block)
    attrs = default_attributes(
        CONV2D,
        channels=outputs * rows * columns,
        kernel_size=tuple(each.taps for each in axes),
        strides=(1, 1),
        padding=(*(each.before for each in axes), *(each.after for each in axes)),
        dilation=(1, 1),
        groups=1,
        data_layout=blocked_layout(form.block),
        kernel_layout=f"OIHW{form.block}i{block}o",
        out_layout=blocked_layout(block),
        out_dtype=node.attrs["out_dtype"],
    )
    pixels = graph.call(DENSE_BLOCKED, [form.value, graph.constant(packed)], attrs, name=node.name)
    batch, height, width = data.shape[0], axes[0].places, axes[1].places
    full = (batch, outputs, height * rows, width * columns)
    if by_pixel:
        apart = reshape(graph, pixels, (batch, outputs, height, width, rows, columns))
        placed = graph.call("transpose", [apart], {"axes": (0, 1, 2, 4, 3, 5)})
        return _cut(graph, reshape(graph, placed, full), axes, shape)
    if rows * columns == 1:
        return Blocked(_cut(graph, pixels, axes, shape), shape)
    chunks = outputs // block
    apart = reshape(graph, pixels, (batch, rows, columns, chunks, height, width, block))
    placed = graph.call("transpose", [apart], {"axes": (0, 3, 4, 1, 5, 2, 6)})
    return Blocked(
        _cut(graph, reshape(graph, placed, blocked_shape(full, block)), axes, shape), shape
    )


def _channels(array: np.ndarray, axes: Sequence[_Axis], *, by_pixel: bool) -> np.ndarray:
    """Return weights ``[I, O, h, w]`` as those ``[O * s * s, I, taps, taps]`` of all results.

    The latest pixel's are the last. With `by_pixel`, the results of a channel follow one another,
    else the channels of a result.
    """
    inputs, outputs, *window = array.shape
    rows, columns = axes
    rest = [each.taps * each.stride - size for each, size in zip(axes, window, strict=True)]
    whole = np.pad(array, [(0, 0), (0, 0), *((0, each) for each in rest)])
    parts = whole.reshape(inputs, outputs, rows.taps, rows.stride, columns.taps, columns.stride)
    order = (1, 3, 5, 0, 2, 4) if by_pixel else (3, 5, 1, 0, 2, 4)
    turned = parts.transpose(order)[..., ::-1, ::-1]
    return turned.reshape(-1, inputs, rows.taps, columns.taps)


def _cut(graph: Graph, value: Value, axes: Sequence[_Axis], shape: Sequence[int]) -> Value:
    """Return the rows and columns of the result that were asked for."""
    begin = tuple(each.cut for each in axes)
    end = tuple(each.cut + shape[axis] for each, axis in zip(axes, PIXEL_AXES, strict=True))
    if not any(begin) and end == tuple(value.shape[axis] for axis in PIXEL_AXES):
        return value
    attrs = default_attributes(
        "strided_slice", begin=begin, end=end, strides=(1, 1), axes=PIXEL_AXES, slice_mode="end"
    )
    return graph.call("strided_slice", [value], attrs)
