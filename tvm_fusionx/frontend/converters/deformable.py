"""Deformable convolution: a product of samples that are taken where offsets point."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.converters.slicing import slice_axis
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant

PLANE_RANK = 4


def bilinear_samples(
    x: Any, shape: tuple[int, int, int, int], rows: Any, columns: Any, dtype: str
) -> Any:
    """Return bilinear samples of planes, zero outside of them.

    Parameters
    ----------
    x
        Expression of `shape`: batch, channels, height, width.
    rows, columns
        Where to sample: expressions of [batch, points].

    Returns
    -------
    relay.Expr
        Of [batch, channels, points].
    """
    batch, channels, height, width = shape
    flat = reshape(x, (batch, channels, height * width))
    zero, one = scalar(0, dtype), scalar(1, dtype)
    top, left = relay.floor(rows), relay.floor(columns)
    total = None
    for down in (0, 1):
        for right in (0, 1):
            row = top if not down else top + one
            column = left if not right else left + one
            weight = (one - relay.abs(rows - row)) * (one - relay.abs(columns - column))
            is_inside = _is_within(row, height, dtype)
            is_inside = relay.logical_and(is_inside, _is_within(column, width, dtype))
            weight = relay.where(is_inside, weight, zero)
            inner_row = relay.clip(row, 0.0, float(height - 1))
            inner_column = relay.clip(column, 0.0, float(width - 1))
            place = relay.cast(inner_row, "int32") * relay.const(width, "int32")
            place = place + relay.cast(inner_column, "int32")
            values = relay.take(flat, place, axis=2, batch_dims=1, mode="clip")
            part = values * relay.expand_dims(weight, 1)
            total = part if total is None else total + part
    return total


def _is_within(x: Any, size: int, dtype: str) -> Any:
    low, high = scalar(0, dtype), scalar(size - 1, dtype)
    return relay.logical_and(relay.greater_equal(x, low), relay.less_equal(x, high))


@converter("DeformConv", through=22)
def convert_deform_conv(node: Node) -> Any:
    """Sample the input where each element of the kernel is moved to, then multiply."""
    if node.rank() != PLANE_RANK:
        raise node.refuse("images of four dimensions", f"shape {list(node.shape())}")
    batch, channels, height, width = node.shape()
    filters, per_group, *kernel = node.shape(1)
    groups = int(node.attribute("group"))
    moved = int(node.attribute("offset_group"))
    strides, dilations = (
        [int(i) for i in node.attribute(name) or [1, 1]] for name in ("strides", "dilations")
    )
    pads = [int(i) for i in node.attribute("pads") or [0] * 4]
    sizes = [
        (size + pads[i] + pads[i + 2] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        for i, size in enumerate((height, width))
    ]
    taps, points = math.prod(kernel), math.prod(sizes)
    fits = (
        groups > 0
        and moved > 0
        and min(sizes) > 0
        and channels == per_group * groups
        and filters % groups == 0
        and channels % moved == 0
        and node.shape(2) == (batch, moved * taps * 2, *sizes)
        and (not node.has(3) or node.shape(3) == (filters,))
        and (not node.has(4) or node.shape(4) == (batch, moved * taps, *sizes))
    )
    if not fits:
        shapes = ", ".join(str(list(node.shape(i))) for i in range(5) if node.has(i))
        raise node.refuse("operands whose sizes fit", shapes)
    dtype = node.dtype()
    offsets = reshape(node.expr(2), (batch * moved, taps, 2, points))
    rows, columns = (
        reshape(slice_axis(offsets, 2, range(i, i + 1), 2), (batch * moved, taps * points))
        + constant(_unmoved(i, kernel, sizes, strides, dilations, pads).astype(dtype))
        for i in (0, 1)
    )
    shape = (batch * moved, channels // moved, height, width)
    samples = bilinear_samples(reshape(node.expr(), shape), shape, rows, columns, dtype)
    if node.has(4):
        samples = samples * reshape(node.expr(4), (batch * moved, 1, taps * points))
    sides = (batch * groups, per_group * taps, points)
    # nn.batch_matmul takes its right side turned.
    right = relay.transpose(reshape(samples, sides), (0, 2, 1))
    weights = reshape(node.expr(1), (groups, filters // groups, per_group * taps))
    left = weights if batch == 1 else relay.tile(weights, (batch, 1, 1))
    product = relay.nn.batch_matmul(left, right, out_dtype=dtype)
    result = reshape(product, (batch, filters, *sizes))
    return relay.nn.bias_add(result, node.expr(3)) if node.has(3) else result


def _unmoved(
    axis: int,
    kernel: list[int],
    sizes: list[int],
    strides: list[int],
    dilations: list[int],
    pads: list[int],
) -> Any:
    """Return where an axis is sampled without offsets, of [1, taps * points]."""
    taps: Any = np.arange(kernel[axis]) * dilations[axis] - pads[axis]
    points: Any = np.arange(sizes[axis]) * strides[axis]
    taps = taps[:, None] if axis == 0 else taps[None, :]
    points = points[:, None] if axis == 0 else points[None, :]
    taps = np.broadcast_to(taps, kernel).reshape(-1, 1)
    points = np.broadcast_to(points, sizes).reshape(1, -1)
    return (taps + points).reshape(1, -1)
