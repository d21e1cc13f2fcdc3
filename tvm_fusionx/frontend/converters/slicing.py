"""Operators that cut tensors apart, and those that reorder along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import transpose
from tvm_fusionx.frontend.converters.sortable import as_sortable, from_sortable
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant


def take(x: Any, positions: Any, axis: int) -> Any:
    """Return the elements at known, non-negative positions along one axis."""
    index = constant(np.asarray(positions, dtype="int32"))
    return relay.take(x, index, axis=axis, mode="clip")


def slice_axis(x: Any, axis: int, positions: range, size: int) -> Any:
    """Return `x` at `positions` of an axis of `size` elements."""
    if positions == range(size):
        return x
    if positions.step > 0:
        return relay.strided_slice(
            x, [positions.start], [positions.stop], [positions.step], axes=[axis]
        )
    if positions.step == -1 and len(positions) == size:
        return relay.reverse(x, axis)
    return take(x, list(positions), axis)


@converter("Slice", through=13, because="TVM reads an end of 2**63 - 1 as a 32-bit integer")
def convert_slice(node: Node) -> Any:
    """Cut out a range of each axis."""
    shape = node.shape()
    starts = node.ints_from("starts", 1) or []
    ends = node.ints_from("ends", 2) or []
    axes = node.ints_from("axes", 3) or list(range(len(starts)))
    steps = node.ints(4) if node.has(4) else [1] * len(starts)
    cuts = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = shape[axis]
        cuts[axis % len(shape)] = range(*slice(start, end, step).indices(size))
    if any(len(positions) == 0 for positions in cuts.values()):
        dims = [len(cuts[i]) if i in cuts else dim for i, dim in enumerate(shape)]
        return np.zeros(dims, node.dtype())
    x = node.expr()
    forward = {
        axis: cut for axis, cut in cuts.items() if cut.step > 0 and cut != range(shape[axis])
    }
    if forward:
        x = relay.strided_slice(
            x,
            [cut.start for cut in forward.values()],
            [cut.stop for cut in forward.values()],
            [cut.step for cut in forward.values()],
            axes=list(forward),
        )
    for axis, cut in cuts.items():
        if cut.step < 0:
            x = slice_axis(x, axis, cut, shape[axis])
    return x


def split_sizes(node: Node, count: int) -> list[int]:
    """Return the size of each part that Split makes along its axis."""
    size = node.shape()[node.axis(0)]
    sizes = node.ints_from("split", 1)
    if sizes is None:
        count = int(node.attribute("num_outputs", count))
        each = -(-size // count)
        sizes = [min(each, size - i * each) for i in range(count)]
    if sum(sizes) != size or min(sizes, default=0) < 0:
        raise node.refuse(f"parts that add up to {size}", str(sizes))
    return sizes


def split(x: Any, sizes: list[int], axis: int) -> list[Any]:
    """Return `x` cut into parts along `axis`; empty parts are None."""
    filled = [size for size in sizes if size]
    if len(filled) == 1:
        parts = iter([x])
    else:
        bounds = [int(bound) for bound in np.cumsum(filled)[:-1]]
        parts = iter(relay.split(x, bounds, axis))
    return [next(parts) if size else None for size in sizes]


@converter("Split", through=18, because="TVM fails on uneven and on empty parts")
def convert_split(node: Node) -> Any:
    """Cut the data into parts along an axis."""
    axis = node.axis(0)
    sizes = split_sizes(node, len(node.outputs))
    parts = split(node.expr(), sizes, axis)
    empty = [0 if i == axis else dim for i, dim in enumerate(node.shape())]
    return [np.zeros(empty, node.dtype()) if part is None else part for part in parts]


@converter("CumSum", through=14)
@converter("CumProd", through=26)
def convert_cumulation(node: Node) -> Any:
    """Sum up or multiply along an axis, from either end."""
    axis = int(node.scalar(1)) % node.rank()
    x, is_reverse = node.expr(), node.attribute("reverse", 0)
    x = relay.reverse(x, axis) if is_reverse else x
    function = relay.cumsum if node.op_type == "CumSum" else relay.cumprod
    x = function(x, axis, node.dtype(), bool(node.attribute("exclusive", 0)))
    return relay.reverse(x, axis) if is_reverse else x


def top_k(node: Node, k: int) -> list[Any]:
    """Return the first `k` (0: all) of a TopK's axis in its order, and their indices."""
    x, dtype, is_ascending = node.expr(), node.dtype(), not node.attribute("largest", 1)
    found = relay.topk(as_sortable(x, dtype), k, node.axis(-1), "both", is_ascending, "int64")
    return [from_sortable(found[0], dtype), found[1]]


@converter("TopK", through=24, because="TVM fails on largest=0")
def convert_top_k(node: Node) -> Any:
    """Return the k largest or smallest elements along an axis, and their indices."""
    k = int(node.attribute("k")) if node.version == 1 else int(node.scalar(1))
    axis = node.axis(-1)
    if k == 0:
        shape = [0 if i == axis else dim for i, dim in enumerate(node.shape())]
        return [np.zeros(shape, node.dtype()), np.zeros(shape, "int64")]
    return top_k(node, k)


@converter("Compress", through=28)
def convert_compress(node: Node) -> Any:
    """Keep the slices where the known condition holds."""
    kept = np.flatnonzero(node.array(1))
    axis = node.attribute("axis")
    if axis is None:
        flat = relay.reshape(node.expr(), (-1,))
        return take(flat, kept, 0) if kept.size else np.zeros(0, node.dtype())
    axis = node.axis(0)
    if not kept.size:
        return np.zeros([0 if i == axis else d for i, d in enumerate(node.shape())], node.dtype())
    return take(node.expr(), kept, axis)


@converter("OneHot", through=28)
def convert_one_hot(node: Node) -> Any:
    """Set one place of a new axis; negative indices count from its end."""
    depth = int(node.scalar(1))
    axis = node.axis(-1, node.rank() + 1)
    index_dtype = node.dtype()
    wide = relay.cast(node.expr(), "int64") if index_dtype != "int64" else node.expr()
    index = relay.where(
        relay.less(wide, relay.const(0, "int64")), wide + relay.const(depth, "int64"), wide
    )
    places = np.arange(depth, dtype="int64").reshape(
        [-1 if i == axis else 1 for i in range(node.rank() + 1)]
    )
    is_hot = relay.equal(relay.expand_dims(index, axis), constant(places))
    values = node.expr(2)
    off = relay.squeeze(relay.strided_slice(values, [0], [1], axes=[0]), [0])
    on = relay.squeeze(relay.strided_slice(values, [1], [2], axes=[0]), [0])
    return relay.where(is_hot, on, off)


__all__ = ["slice_axis", "split", "split_sizes", "take", "transpose"]
