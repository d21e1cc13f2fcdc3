"""Operators that cut or read at places, where a shape or a place depends on the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.open_shapes import extents, restored, shape_vector
from tvm_fusionx.frontend.converters.registry import open_converter
from tvm_fusionx.frontend.converters.slicing import split
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant


def from_the_front(node: Node, position: int, sizes: Any) -> Any:
    """Return an index input with negative entries counted from the end of `sizes`."""
    tensor = node.tensor(position)
    if tensor.array is not None and (tensor.array >= 0).all():
        return tensor.expr
    if tensor.array is not None and isinstance(sizes, relay.Constant):
        known = tensor.array.astype("int64")
        return constant(np.where(known < 0, known + sizes.data.numpy(), known))
    wide = relay.cast(tensor.expr, "int64")
    return relay.where(relay.less(wide, relay.const(0, "int64")), wide + sizes, wide)


@open_converter("Gather", through=28)
def convert_gather(node: Node) -> Any:
    """Take slices at the indices; one known index of a known axis is a slice."""
    axis, x = node.axis(0), node.tensor(0)
    size, known = x.dims[axis], node.tensor(1).array
    if size is not None and known is not None and known.size == 1 and known.ndim <= 1:
        first = int(known.reshape(-1)[0]) % size
        part = relay.strided_slice(x.expr, [first], [first + 1], axes=[axis])
        return part if known.ndim else relay.squeeze(part, [axis])
    index = from_the_front(node, 1, extents(x)[axis])
    return relay.take(x.expr, index, axis=axis, mode="clip")


@open_converter("GatherElements", through=28)
def convert_gather_elements(node: Node) -> Any:
    """Take one element for each index."""
    axis = node.axis(0)
    return relay.gather(node.expr(), axis, from_the_front(node, 1, extents(node.tensor(0))[axis]))


@open_converter("GatherND", through=28)
def convert_gather_nd(node: Node) -> Any:
    """Take slices at index tuples."""
    depth, rank = node.tensor(1).dims[-1], node.rank(1)
    if depth is None or node.attribute("batch_dims", 0):
        raise node.refuse("index tuples of known length, of no batches", "others")
    sizes = relay.strided_slice(shape_vector(node.tensor(0)), [0], [depth], axes=[0])
    index = from_the_front(node, 1, sizes)
    index = relay.transpose(index, [rank - 1, *range(rank - 1)]) if rank > 1 else index
    return relay.gather_nd(node.expr(), index, index_rank=depth)


@open_converter("Split", through=28)
def convert_split(node: Node) -> Any:
    """Cut the data into parts along an axis of known size."""
    axis = node.axis(0)
    size = node.tensor(0).dims[axis]
    if size is None:
        raise node.refuse(
            f"axis {axis} of a size known while compiling", "one that depends on data"
        )
    sizes = node.ints_from("split", 1)
    if sizes is None:
        each = -(-size // int(node.attribute("num_outputs", len(node.outputs))))
        sizes = [min(each, size - start) for start in range(0, size, each)]
    if 0 in sizes:
        raise node.refuse("parts that are not empty", str(sizes))
    return split(node.expr(), sizes, axis)


@open_converter("Slice", through=28, deciding=(1, 2, 4))
def convert_slice(node: Node) -> Any:
    """Cut out a range of each axis."""
    x = node.tensor(0)
    if node.version == 1:
        starts, ends = (np.asarray(node.attribute(name)) for name in ("starts", "ends"))
        axes = node.attribute("axes") or list(range(len(starts)))
        steps = [1] * len(starts)
        begin, end = constant(starts.astype("int64")), constant(ends.astype("int64"))
    else:
        count = node.shape(1)[0]
        axes = node.ints(3) if node.has(3) else list(range(count))
        steps = node.ints(4) if node.has(4) else [1] * count
        begin, end = (relay.cast(node.expr(i), "int64") for i in (1, 2))
        starts, ends = (node.tensor(i).array for i in (1, 2))
    axes = [axis % x.rank for axis in axes]
    if any(step < 1 for step in steps):
        raise node.refuse("steps forward where a shape depends on the data", str(steps))
    sizes = [x.dims[axis] for axis in axes]
    if starts is not None and ends is not None and None not in sizes:
        cuts = [
            slice(int(a), int(b), step).indices(size or 0)
            for a, b, step, size in zip(starts, ends, steps, sizes, strict=True)
        ]
        begins, stops, _ = zip(*cuts, strict=True)
        stops = tuple(max(a, b) for a, b in zip(begins, stops, strict=True))
        return relay.strided_slice(x.expr, list(begins), list(stops), steps, axes=axes)
    shape = extents(x)
    along = constant(np.asarray(axes, "int64"))
    size = relay.take(shape_vector(x), along, axis=0, mode="clip")
    zero = relay.const(0, "int64")
    begin, end = (
        relay.minimum(relay.maximum(relay.where(each < zero, each + size, each), zero), size)
        for each in (begin, end)
    )
    end = relay.maximum(begin, end)
    lows, highs, strides = [zero] * x.rank, list(shape), [1] * x.rank
    for number, axis in enumerate(axes):
        place = relay.const(number, "int64")
        lows[axis] = relay.take(begin, place, axis=0, mode="clip")
        highs[axis] = relay.take(end, place, axis=0, mode="clip")
        strides[axis] = int(steps[number])
    cut = relay.strided_slice(
        x.expr,
        relay.stack(lows, 0),
        relay.stack(highs, 0),
        constant(np.asarray(strides, "int64")),
    )
    return restored(cut, [None if axis in axes else dim for axis, dim in enumerate(x.dims)])
