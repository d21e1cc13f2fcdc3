"""Caches of keys and values that are written in place."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant


def write_positions(
    cache: Any,
    update: Any,
    shape: tuple[int, ...],
    count: int,
    axis: int,
    starts: Any,
    is_circular: bool,
) -> Any:
    """Return a cache with `count` positions along `axis` taken from `update`.

    Parameters
    ----------
    shape
        Of the cache; its first axis is the batch.
    starts
        Where each batch entry is written: an expression of int64, of [batch].
    is_circular
        Whether what passes the end is written at the beginning; else it is dropped.
    """
    length = shape[axis]
    # Read and not written: each position of the cache asks which one of the update it takes.
    places = constant(np.arange(length, dtype="int64")[None, :])
    taken = places - reshape(starts, (shape[0], 1))
    if is_circular:
        size = relay.const(length, "int64")
        taken = relay.mod(relay.mod(taken, size) + size, size)
    first, last = relay.const(0, "int64"), relay.const(count - 1, "int64")
    is_new = relay.logical_and(relay.greater_equal(taken, first), relay.less_equal(taken, last))
    inside = relay.minimum(relay.maximum(taken, first), last)
    new = relay.take(update, inside, axis=axis, batch_dims=1, mode="clip")
    ones = [1] * len(shape)
    ones[0], ones[axis] = shape[0], length
    return relay.where(reshape(is_new, ones), new, cache)


@converter("TensorScatter", through=24)
def convert_tensor_scatter(node: Node) -> Any:
    """Write an update into a cache, from a position on that each batch entry has."""
    shape, new = node.shape(), node.shape(1)
    axis, mode = node.axis(-2), node.attribute("mode", "linear")
    fits = (
        0 < axis < len(shape) == len(new)
        and all(a == b for i, (a, b) in enumerate(zip(shape, new, strict=True)) if i != axis)
        and 0 < new[axis] <= shape[axis]
    )
    if not fits or mode not in ("linear", "circular"):
        raise node.refuse(
            "an update like the cache but for the axis of positions, linear or circular",
            f"shapes {list(shape)} and {list(new)}, axis {axis}, mode {mode!r}",
        )
    starts = np.zeros(shape[0], "int64")
    if node.has(2):
        if node.shape(2) != shape[:1]:
            raise node.refuse(f"write_indices of shape [{shape[0]}]", str(list(node.shape(2))))
        known = node.tensor(2).array
        most = shape[axis] - new[axis]
        if mode == "linear" and known is not None and not 0 <= known.min() <= known.max() <= most:
            raise node.refuse(f"write_indices of 0 to {most}", str(known.tolist()))
    where = node.expr(2) if node.has(2) else constant(starts)
    return write_positions(
        node.expr(), node.expr(1), shape, new[axis], axis, where, mode == "circular"
    )
