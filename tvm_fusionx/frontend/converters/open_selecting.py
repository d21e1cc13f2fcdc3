"""Operators that select by data: how much they return is known at run time only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx._tvm.selection import (
    CORNERS,
    first_rows,
    non_max_suppression,
    places,
    register_selection,
)
from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.open_shapes import extents, restored
from tvm_fusionx.frontend.converters.registry import converter, open_converter
from tvm_fusionx.frontend.converters.shapes import transpose
from tvm_fusionx.frontend.converters.slicing import top_k
from tvm_fusionx.frontend.converters.sortable import (
    SORTABLE,
    WIDER,
    as_sortable,
    can_sort,
    from_sortable,
    total_order,
)
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor, constant


def first_along(x: Any, rank: int, axis: int, count: Any) -> Any:
    """Return the beginning of an axis, as long as `count`, an int64 vector of one, says."""
    register_selection()
    order = [axis, *(place for place in range(rank) if place != axis)]
    back = [order.index(place) for place in range(rank)]
    return transpose(first_rows(transpose(x, order), count), back)


def _count_of(node: Node, position: int) -> Any:
    return relay.reshape(relay.cast(node.expr(position), "int64"), (1,))


@converter("NonMaxSuppression", through=11)
@open_converter("NonMaxSuppression", through=11, selects=True)
def convert_non_max_suppression(node: Node) -> Any:
    """Keep of each class the best boxes that cover no better one."""
    register_selection()
    if any(node.dtype(position) != "float32" for position in (0, 1)):
        raise node.refuse("boxes and scores in float32", f"{node.dtype(0)} and {node.dtype(1)}")
    boxes = node.expr(0)
    if node.attribute("center_point_box", 0):
        center = relay.strided_slice(boxes, [0], [CORNERS // 2], axes=[2])
        half = relay.strided_slice(boxes, [CORNERS // 2], [CORNERS], axes=[2])
        half = half * scalar(0.5, "float32")
        boxes = relay.concatenate([center - half, center + half], 2)

    def number(position: int, absent: float, dtype: str) -> Any:
        if not node.has(position):
            return constant(np.asarray([absent], dtype))
        return relay.reshape(relay.cast(node.expr(position), dtype), (1,))

    # Without a threshold every score counts, one of minus infinity too little to tell.
    selected, count = non_max_suppression(
        boxes,
        node.expr(1),
        number(2, 0, "int64"),
        number(3, 0.0, "float32"),
        number(4, -math.inf, "float32"),
    )
    return first_rows(selected, count)


@converter("NonZero", through=13)
@open_converter("NonZero", through=13, selects=True)
def convert_non_zero(node: Node) -> Any:
    """Return where the elements are not zero: a row of coordinates for each axis."""
    register_selection()
    rank = node.rank()
    if not rank:
        raise node.refuse("a tensor with axes", "a number without")
    flags = node.expr()
    if node.dtype() != "bool":
        flags = relay.not_equal(flags, scalar(0, node.dtype()))
    found, count = places(relay.reshape(flags, (-1,)))
    sizes = extents(node.tensor(0))
    rows = []
    for axis in reversed(range(rank)):
        rows.append(relay.expand_dims(found if axis == 0 else relay.mod(found, sizes[axis]), 1))
        found = relay.divide(found, sizes[axis])
    table = rows[0] if rank == 1 else relay.concatenate(rows[::-1], 1)
    return relay.transpose(first_rows(table, count), (1, 0))


@open_converter("Compress", through=28, deciding=(1,), selects=True)
def convert_compress(node: Node) -> Any:
    """Keep the slices where the condition holds."""
    register_selection()
    found, count = places(node.expr(1))
    kept = first_rows(found, count)
    if node.attribute("axis") is None:
        return relay.take(relay.reshape(node.expr(), (-1,)), kept, axis=0, mode="clip")
    return relay.take(node.expr(), kept, axis=node.axis(0), mode="clip")


@open_converter("TopK", through=24, deciding=(1,), selects=True)
def convert_top_k(node: Node) -> Any:
    """Sort the axis, and return its beginning."""
    axis, rank = node.axis(-1), node.rank()
    in_order = top_k(node, 0)
    known = node.tensor(1).array if node.version > 1 else np.asarray([node.attribute("k")])
    dims = list(node.tensor(0).dims)
    if known is None:
        dims[axis] = None
        count = _count_of(node, 1)
    else:
        dims[axis] = int(known.reshape(-1)[0])
        count = constant(np.asarray([dims[axis]], "int64"))
    return [restored(first_along(part, rank, axis, count), dims) for part in in_order]


@converter("Unique", through=28)
@open_converter("Unique", through=28, selects=True)
def convert_unique(node: Node) -> Any:
    """Return each value once, where it came first, which each element is, and how often it is."""
    register_selection()
    x, dtype = node.expr(), node.dtype()
    if node.attribute("axis") is not None and node.rank() != 1:
        raise node.refuse("no axis, or a vector", f"an axis of {node.rank()} dimensions")
    if not can_sort(dtype):
        raise node.refuse(f"elements that can be sorted ({', '.join(SORTABLE)})", dtype)
    x = as_sortable(relay.reshape(x, (-1,)), dtype)
    keys = total_order(x, WIDER.get(dtype, dtype))
    (length,) = extents(_vector(node, x))
    order = relay.argsort(keys, 0, True, "int64")
    in_order = relay.take(keys, order, axis=0, mode="clip")
    numbers = relay.cumsum(relay.ones_like(order), 0, "int64") - scalar(1, "int64")
    before = relay.maximum(numbers - scalar(1, "int64"), scalar(0, "int64"))
    is_new = relay.logical_or(
        relay.equal(numbers, scalar(0, "int64")),
        relay.not_equal(in_order, relay.take(in_order, before, axis=0, mode="clip")),
    )
    starts, count = places(is_new)
    is_group = relay.less(numbers, count)
    # What lies behind the groups sorts behind them.
    firsts = relay.where(is_group, relay.take(order, starts, axis=0, mode="clip"), length)
    after = relay.take(starts, numbers + scalar(1, "int64"), axis=0, mode="clip")
    is_last = relay.equal(numbers, count - scalar(1, "int64"))
    counts = relay.where(is_last, length, after) - starts
    values = relay.take(x, relay.take(order, starts, axis=0, mode="clip"), axis=0, mode="clip")
    groups = relay.cumsum(relay.cast(is_new, "int64"), 0, "int64") - scalar(1, "int64")
    inverse = relay.take(groups, relay.argsort(order, 0, True, "int64"), axis=0, mode="clip")
    if not node.attribute("sorted", 1):
        moved = relay.argsort(firsts, 0, True, "int64")
        values, firsts, counts = (
            relay.take(each, moved, axis=0, mode="clip") for each in (values, firsts, counts)
        )
        inverse = relay.take(relay.argsort(moved, 0, True, "int64"), inverse, axis=0, mode="clip")
    values = from_sortable(values, dtype)
    cut = [first_rows(each, count) for each in (values, firsts, counts)]
    return [cut[0], cut[1], inverse, cut[2]][: len(node.outputs)]


def _vector(node: Node, x: Any) -> Tensor:
    dims = node.tensor(0).dims
    known = [dim for dim in dims if dim is not None]
    return Tensor(x, (math.prod(known) if len(known) == len(dims) else None,), node.dtype())
