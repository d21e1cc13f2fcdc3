"""Poolings."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.planes import can_be_pooled_flat, pool_flat
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.windows import Windows, windows_of
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant

AVERAGE = {1: relay.nn.avg_pool1d, 2: relay.nn.avg_pool2d, 3: relay.nn.avg_pool3d}
LARGEST = {1: relay.nn.max_pool1d, 2: relay.nn.max_pool2d, 3: relay.nn.max_pool3d}
SPATIAL_FROM = 2


def with_exact_ends(windows: Windows, is_ceil: bool) -> Windows:
    """Return windows whose end padding makes ``ceil_mode`` and cut-off rows explicit."""
    ends = []
    for axis in range(windows.rank):
        used = (windows.output(axis, is_ceil) - 1) * windows.strides[axis] + windows.extent(axis)
        needed = used - windows.sizes[axis] - windows.pads_begin[axis]
        ends.append(max(needed, 0) if is_ceil else windows.pads_end[axis])
    return replace(windows, pads_end=tuple(ends))


def window_counts(windows: Windows, padded: Windows, counts_padding: bool) -> list[Any]:
    """Return, per axis, how many elements each window's divisor counts."""
    counts = []
    for axis in range(windows.rank):
        low = -windows.pads_begin[axis] if counts_padding else 0
        # What ceil_mode adds behind the declared padding is never counted.
        high = windows.sizes[axis] + (windows.pads_end[axis] if counts_padding else 0)
        starts = np.arange(padded.output(axis)) * windows.strides[axis] - windows.pads_begin[axis]
        taps = starts[:, None] + np.arange(windows.kernel[axis]) * windows.dilations[axis]
        counts.append(((taps >= low) & (taps < high)).sum(axis=1))
    return counts


def average_pool(node: Node, x: Any, windows: Windows, is_ceil: bool, counts_padding: bool) -> Any:
    """Return the mean over each window.

    Relay divides by the window's full size; where a window counts fewer elements, a constant factor
    corrects the divisor.
    """
    padded = with_exact_ends(windows, is_ceil)
    counts = window_counts(windows, padded, counts_padding)
    full = math.prod(windows.kernel)
    pooled = AVERAGE[windows.rank](
        x,
        pool_size=windows.kernel,
        strides=windows.strides,
        dilation=windows.dilations,
        padding=padded.padding,
        count_include_pad=True,
    )
    divisors = reduce(np.multiply.outer, counts)
    if (divisors == full).all():
        return pooled
    return pooled * constant((full / divisors).astype(node.dtype()))


@converter("AveragePool", through=22, because="TVM counts ceil_mode's rows in the divisor")
def convert_average_pool(node: Node) -> Any:
    """Average over windows."""
    windows = windows_of(node, tuple(node.attribute("kernel_shape")))
    is_ceil = bool(node.attribute("ceil_mode", 0))
    counts_padding = bool(node.attribute("count_include_pad", 0))
    return average_pool(node, node.expr(), windows, is_ceil, counts_padding)


@converter("MaxPool", through=22, because="TVM makes windows that start behind the data")
def convert_max_pool(node: Node) -> Any:
    """Take the largest element of each window."""
    windows = windows_of(node, tuple(node.attribute("kernel_shape")))
    padded = with_exact_ends(windows, bool(node.attribute("ceil_mode", 0)))
    if node.wants(1):
        raise node.refuse("the pooled values only", "the Indices output")
    if can_be_pooled_flat(node.expr(), padded):
        batch, channels = node.shape()[0], node.shape()[1]
        return pool_flat(node.expr(), batch, channels, padded)
    return LARGEST[windows.rank](
        node.expr(),
        pool_size=windows.kernel,
        strides=windows.strides,
        dilation=windows.dilations,
        padding=padded.padding,
    )


@converter("LpPool", through=22, because="TVM averages, and raises signed values to the power")
def convert_lp_pool(node: Node) -> Any:
    """Take the p-norm of each window."""
    windows = windows_of(node, tuple(node.attribute("kernel_shape")))
    dtype, p = node.dtype(), node.attribute("p", 2)
    powers = relay.power(relay.abs(node.expr()), scalar(p, dtype))
    is_ceil = bool(node.attribute("ceil_mode", 0))
    padded = with_exact_ends(windows, is_ceil)
    mean = AVERAGE[windows.rank](
        powers,
        pool_size=windows.kernel,
        strides=windows.strides,
        dilation=windows.dilations,
        padding=padded.padding,
        count_include_pad=True,
    )
    total = mean * scalar(math.prod(windows.kernel), dtype)
    return relay.power(total, scalar(1 / p, dtype))


def _spatial_axes(node: Node) -> list[int]:
    return list(range(SPATIAL_FROM, node.rank()))


@converter("GlobalAveragePool", through=22)
def convert_global_average_pool(node: Node) -> Any:
    """Average each channel."""
    if len(_spatial_axes(node)) == 2:
        return relay.nn.global_avg_pool2d(node.expr())
    return relay.mean(node.expr(), _spatial_axes(node), True)


@converter("GlobalMaxPool", through=22)
def convert_global_max_pool(node: Node) -> Any:
    """Take each channel's largest element."""
    return relay.max(node.expr(), _spatial_axes(node), True)


@converter("GlobalLpPool", through=22)
def convert_global_lp_pool(node: Node) -> Any:
    """Take each channel's p-norm."""
    dtype, p = node.dtype(), node.attribute("p", 2)
    powers = relay.power(relay.abs(node.expr()), scalar(p, dtype))
    return relay.power(relay.sum(powers, _spatial_axes(node), True), scalar(1 / p, dtype))


@converter("MaxUnpool", through=22, because="TVM places values by the wrong output shape")
def convert_max_unpool(node: Node) -> Any:
    """Write each value at its flat index of the unpadded output, zero elsewhere."""
    shape = node.shape()
    kernel = node.attribute("kernel_shape")
    rank = len(kernel)
    strides = node.attribute("strides") or [1] * rank
    pads = node.attribute("pads") or [0] * (2 * rank)
    natural = [
        (shape[i + 2] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + rank] for i in range(rank)
    ]
    output = tuple(node.ints(2)) if node.has(2) else (*shape[:2], *natural)
    flat = relay.reshape(node.expr(0), (-1,))
    index = relay.reshape(node.expr(1), (-1,))
    if node.has(2):
        # Indices address the natural size; the declared output is that plus room behind it.
        index = _move_index(index, (*shape[:2], *natural), output)
    zeros = relay.zeros((math.prod(output),), node.dtype())
    return relay.reshape(relay.scatter_elements(zeros, index, flat, 0, "update"), output)


def _move_index(index: Any, source: tuple[int, ...], target: tuple[int, ...]) -> Any:
    """Return flat indices into shape `source` as flat indices into shape `target`."""
    moved, rest = scalar(0, "int64"), index
    for axis in reversed(range(len(source))):
        size = scalar(source[axis], "int64")
        place = relay.floor_mod(rest, size) if axis else rest
        rest = relay.floor_divide(rest, size)
        moved = moved + place * scalar(math.prod(target[axis + 1 :]), "int64")
    return moved
