"""Operators that read or give shapes, where a shape depends on the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.registry import open_converter
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor, constant

Dims = Sequence[int | None]


def shape_vector(tensor: Tensor) -> Any:
    """Return a tensor's shape as an int64 vector."""
    if not tensor.is_open:
        return constant(np.asarray(tensor.shape, "int64"))
    return relay.shape_of(tensor.expr, "int64")


def extents(tensor: Tensor) -> list[Any]:
    """Return each extent as an int64 number: a constant where it is known."""
    shape = shape_vector(tensor)
    return [
        relay.take(shape, relay.const(axis, "int64"), axis=0, mode="clip")
        if dim is None
        else relay.const(dim, "int64")
        for axis, dim in enumerate(tensor.dims)
    ]


def restored(x: Any, dims: Dims) -> Any:
    """Return `x` with the extents that are known in its type, where one at most is not."""
    unknown = sum(dim is None for dim in dims)
    if unknown > 1 or 0 in dims or not dims:
        return x
    return relay.reshape(x, [-1 if dim is None else dim for dim in dims])


@open_converter("Shape", through=28)
def convert_shape(node: Node) -> Any:
    """Return the input's shape."""
    part = slice(node.attribute("start", 0), node.attribute("end"))
    dims = node.tensor(0).dims[part]
    if None not in dims:
        return np.asarray(dims, "int64")
    begin, end, _ = part.indices(node.rank())
    return relay.strided_slice(shape_vector(node.tensor(0)), [begin], [end], axes=[0])


@open_converter("Size", through=28)
def convert_size(node: Node) -> Any:
    """Return the input's number of elements."""
    return relay.prod(shape_vector(node.tensor(0)), [0], False)


@open_converter("Reshape", through=28, deciding=(1,))
def convert_reshape(node: Node) -> Any:
    """Arrange the elements in the shape of the second input."""
    x = node.tensor(0)
    allows_zero = bool(node.attribute("allowzero", 0))
    known = node.attribute("shape") if node.version == 1 else node.tensor(1).array
    if known is None:
        return relay.reshape(x.expr, relay.cast(node.expr(1), "int64"), allowzero=allows_zero)
    wanted = [int(dim) for dim in np.asarray(known).reshape(-1)]
    if not allows_zero:
        # Relay copies the extent of the same place where it finds a zero, as ONNX does.
        wanted = [(x.dims[i] or 0) if dim == 0 else dim for i, dim in enumerate(wanted)]
    return relay.reshape(x.expr, wanted, allowzero=allows_zero)


@open_converter("Flatten", through=28)
def convert_flatten(node: Node) -> Any:
    """Make a matrix: the axes before `axis` by those from it on."""
    axis, dims = node.axis(1), node.tensor(0).dims
    sides = []
    for side in (dims[:axis], dims[axis:]):
        known = [dim for dim in side if dim is not None]
        sides.append(math.prod(known) if len(known) == len(side) else None)
    if sides.count(None) < len(sides):
        return relay.reshape(node.expr(), [-1 if side is None else side for side in sides])
    shape = extents(node.tensor(0))
    lead = shape[0]
    for each in shape[1:axis]:
        lead = lead * each
    target = relay.concatenate([relay.reshape(lead, (1,)), constant(np.asarray([-1]))], 0)
    return relay.reshape(node.expr(), target)


@open_converter("Squeeze", through=28)
def convert_squeeze(node: Node) -> Any:
    """Drop axes of size one."""
    axes = node.ints_from("axes", 1)
    if axes is None:
        raise node.refuse("axes, for the shape depends on the data", "none")
    return relay.squeeze(node.expr(), sorted(axis % node.rank() for axis in axes))


@open_converter("Unsqueeze", through=28)
def convert_unsqueeze(node: Node) -> Any:
    """Insert axes of size one."""
    axes = node.ints_from("axes", 1) or []
    x = node.expr()
    for axis in sorted(axis % (node.rank() + len(axes)) for axis in axes):
        x = relay.expand_dims(x, axis)
    return x


@open_converter("Expand", through=28, deciding=(1,))
def convert_expand(node: Node) -> Any:
    """Broadcast both ways with a shape."""
    (length,) = node.shape(1)
    rank = max(length, node.rank())
    own = _with_ones(shape_vector(node.tensor(0)), rank - node.rank())
    wanted = _with_ones(relay.cast(node.expr(1), "int64"), rank - length)
    is_one = relay.equal(wanted, relay.const(1, "int64"))
    return relay.broadcast_to(node.expr(), relay.where(is_one, own, wanted))


def _with_ones(shape: Any, count: int) -> Any:
    ones = constant(np.ones(count, "int64"))
    return relay.concatenate([ones, shape], 0) if count else shape


@open_converter("Tile", through=28, deciding=(1,))
def convert_tile(node: Node) -> Any:
    """Repeat the data along each axis."""
    known = node.tensor(1).array
    if known is not None:
        return relay.tile(node.expr(), [int(each) for each in known.reshape(-1)])
    return relay.tile(node.expr(), node.expr(1))


@open_converter("Concat", through=28)
def convert_concat(node: Node) -> Any:
    """Join tensors along an axis."""
    parts = [node.expr(i) for i in range(len(node.inputs)) if 0 not in node.tensor(i).dims]
    return parts[0] if len(parts) == 1 else relay.concatenate(parts, node.axis(1))


@open_converter("ConstantOfShape", through=28, deciding=(0,))
def convert_constant_of_shape(node: Node) -> Any:
    """Fill a shape with one value."""
    value = np.asarray(node.attribute("value", np.zeros(1, "float32"))).reshape(())
    shape = relay.cast(node.expr(0), "int64")
    return relay.full(constant(value), shape, str(value.dtype))


@open_converter("Range", through=28, deciding=(0, 1, 2))
def convert_range(node: Node) -> Any:
    """Count from start to limit by delta."""
    start, limit, delta = (relay.reshape(node.expr(i), ()) for i in range(3))
    return relay.arange(start, limit, delta, node.dtype())
