"""Operators that give the same elements another shape or order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.element_types import dtype_of
from tvm_fusionx.frontend.node import DOES_NOT_FIT, Node
from tvm_fusionx.frontend.values import constant


def reshape(x: Any, shape: Any) -> Any:
    """Return `x` in `shape`."""
    return relay.reshape(x, tuple(int(dim) for dim in shape))


def reshaped(node: Node, shape: Any) -> Any:
    """Return the first input in `shape`, itself where that changes nothing."""
    shape = tuple(int(dim) for dim in shape)
    return node.tensor(0) if shape == node.shape() else reshape(node.expr(), shape)


@converter("Reshape", through=25, because="TVM ignores allowzero")
def convert_reshape(node: Node) -> Any:
    """Arrange the elements in the shape of the second input."""
    shape = node.ints_from("shape", 1) or []
    if not node.attribute("allowzero", 0):
        shape = [node.shape()[i] if dim == 0 else dim for i, dim in enumerate(shape)]
    if -1 in shape:
        rest = -math.prod(shape)
        shape[shape.index(-1)] = math.prod(node.shape()) // rest if rest else 0
    if math.prod(shape) != math.prod(node.shape()):
        expected = f"a shape of {math.prod(node.shape())} elements"
        raise node.refuse(expected, str(shape), DOES_NOT_FIT)
    return reshaped(node, shape)


@converter("Flatten", through=25)
def convert_flatten(node: Node) -> Any:
    """Make a matrix: the axes before `axis` by those from it on."""
    axis = node.axis(1)
    return reshaped(node, (math.prod(node.shape()[:axis]), math.prod(node.shape()[axis:])))


@converter("Squeeze", through=25)
def convert_squeeze(node: Node) -> Any:
    """Drop axes of size one."""
    shape, axes = node.shape(), node.ints_from("axes", 1)
    if axes is None:
        dropped = {i for i, dim in enumerate(shape) if dim == 1}
    else:
        dropped = {axis % len(shape) for axis in axes}
    for axis in dropped:
        if shape[axis] != 1:
            raise node.refuse(f"dimension {axis} of size 1", f"shape {list(shape)}")
    return reshaped(node, [dim for i, dim in enumerate(shape) if i not in dropped])


@converter("Unsqueeze", through=25)
def convert_unsqueeze(node: Node) -> Any:
    """Insert axes of size one."""
    axes = node.ints_from("axes", 1) or []
    rank = node.rank() + len(axes)
    inserted = {axis % rank for axis in axes}
    rest = iter(node.shape())
    return reshaped(node, [1 if i in inserted else next(rest) for i in range(rank)])


@converter("Transpose", through=25)
def convert_transpose(node: Node) -> Any:
    """Reorder the axes; without an order reverse them."""
    order = node.attribute("perm") or list(range(node.rank()))[::-1]
    return transpose(node.expr(), order)


def transpose(x: Any, order: Any) -> Any:
    """Return `x` with its axes in `order`; a transpose of a transpose becomes one."""
    order = [int(axis) for axis in order]
    is_transpose = isinstance(x, relay.Call) and getattr(x.op, "name", "") == "transpose"
    if is_transpose and x.attrs.axes:
        inner = [int(axis) for axis in x.attrs.axes]
        return transpose(x.args[0], [inner[axis] for axis in order])
    return x if order == sorted(order) else relay.transpose(x, order)


@converter("Expand", through=13, because="TVM infers the broadcast shape with compiled kernels")
def convert_expand(node: Node) -> Any:
    """Broadcast both ways with a shape."""
    shape = np.broadcast_shapes(node.shape(), tuple(node.ints(1)))
    return broadcast(node, shape)


def broadcast(node: Node, shape: tuple[int, ...]) -> Any:
    """Return the first input broadcast to `shape`."""
    return node.tensor(0) if shape == node.shape() else relay.broadcast_to(node.expr(), shape)


@converter("Tile", through=13)
def convert_tile(node: Node) -> Any:
    """Repeat the data along each axis."""
    repeats = node.ints(1)
    if node.version == 1:
        repeats = [repeats[0] if i == node.scalar(2) else 1 for i in range(node.rank())]
    return node.tensor(0) if set(repeats) <= {1} else relay.tile(node.expr(), repeats)


@converter("Concat", through=13)
def convert_concat(node: Node) -> Any:
    """Join tensors along an axis."""
    # An empty part adds nothing, and TVM has no kernel for it.
    parts = [i for i in range(len(node.inputs)) if 0 not in node.shape(i)]
    if len(parts) == 1:
        return node.tensor(parts[0])
    return relay.concatenate([node.expr(i) for i in parts], node.axis(1))


@converter("Shape", through=25)
def convert_shape(node: Node) -> Any:
    """Return the input's shape, which is known."""
    start, end = node.attribute("start", 0), node.attribute("end")
    return np.asarray(node.shape()[start:end], dtype="int64")


@converter("Size", through=25)
def convert_size(node: Node) -> Any:
    """Return the input's number of elements, which is known."""
    return np.asarray(math.prod(node.shape()), dtype="int64")


@converter("ConstantOfShape", through=25)
def convert_constant_of_shape(node: Node) -> Any:
    """Fill a shape with one value."""
    value = np.asarray(node.attribute("value", np.zeros(1, "float32")))
    return np.full(node.ints(0), value.reshape(-1)[0], value.dtype)


@converter("Range", through=27)
def convert_range(node: Node) -> Any:
    """Count from start to limit by delta."""
    # Halves are counted in single, as is ``stash_type``'s default: 2049 + 1 is 2048 in half.
    dtype = "float32" if node.dtype() in ("float16", "bfloat16") else node.dtype()
    start, limit, delta = (node.scalar(i) for i in range(3))
    if not delta:
        raise node.refuse("a delta that is not zero", "0")
    return np.arange(start, limit, delta, dtype=dtype).astype(node.dtype())


@converter("EyeLike", through=22)
def convert_eye_like(node: Node) -> Any:
    """Return ones on a diagonal of the input's shape."""
    to = node.attribute("dtype")
    dtype = node.dtype() if to is None else dtype_of(int(to), f"EyeLike node {node.name!r}")
    rows, columns = node.shape()
    return np.eye(rows, columns, k=int(node.attribute("k", 0)), dtype=dtype)


@converter("Trilu", through=14, because="TVM fails on empty tensors")
def convert_trilu(node: Node) -> Any:
    """Keep the triangle above or below a diagonal, zero elsewhere."""
    shape = node.shape()
    k = node.scalar(1) if node.has(1) else 0
    keep = np.tri(shape[-2], shape[-1], k if not node.attribute("upper", 1) else k - 1, dtype=bool)
    mask = ~keep if node.attribute("upper", 1) else keep
    return relay.where(constant(mask), node.expr(), relay.const(0, node.dtype()))


@converter("DepthToSpace", through=28)
def convert_depth_to_space(node: Node) -> Any:
    """Move blocks of channels into the image."""
    n, c, h, w = node.shape()
    b = int(node.attribute("blocksize"))
    c //= b * b
    if node.attribute("mode", "DCR") == "DCR":
        split, order = (n, b, b, c, h, w), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (n, c, b, b, h, w), (0, 1, 4, 2, 5, 3)
    return reshape(relay.transpose(reshape(node.expr(), split), order), (n, c, h * b, w * b))


@converter("SpaceToDepth", through=28)
def convert_space_to_depth(node: Node) -> Any:
    """Move blocks of the image into channels."""
    n, c, h, w = node.shape()
    b = int(node.attribute("blocksize"))
    parts = reshape(node.expr(), (n, c, h // b, b, w // b, b))
    is_depth_first = node.attribute("mode", "DCR") == "DCR"
    moved = relay.transpose(parts, (0, 3, 5, 1, 2, 4) if is_depth_first else (0, 1, 3, 5, 2, 4))
    return reshape(moved, (n, c * b * b, h // b, w // b))
