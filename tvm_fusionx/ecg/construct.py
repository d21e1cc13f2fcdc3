"""Add common calls to a graph, attributes spelled out."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes


def transpose_axes(node: Node) -> tuple[int, ...]:
    """Return the permutation of a transpose, spelled out."""
    rank = len(node.operands[0].shape)
    axes = node.attrs.get("axes")
    if not axes:
        return tuple(reversed(range(rank)))
    return tuple(int(axis) % rank for axis in axes)


def reshape(graph: Graph, value: Value, shape: Sequence[int], name: str = "") -> Value:
    """Add a reshape, or return `value` if it has that shape."""
    if value.shape == tuple(shape):
        return value
    attrs = default_attributes("reshape", newshape=list(shape))
    return graph.call("reshape", [value], attrs, name=name)


def transpose(graph: Graph, value: Value, axes: Sequence[int], name: str = "") -> Value:
    """Add a transpose, or return `value` if nothing changes place."""
    if list(axes) == list(range(len(axes))):
        return value
    attrs = default_attributes("transpose", axes=list(axes))
    return graph.call("transpose", [value], attrs, name=name)


def slice_axis(
    graph: Graph, value: Value, axis: int, start: int, stop: int, name: str = ""
) -> Value:
    """Add a slice of one axis, or return `value` if it is all of it."""
    if start == 0 and stop == value.shape[axis]:
        return value
    attrs = default_attributes(
        "strided_slice", begin=[start], end=[stop], strides=[1], axes=[axis], slice_mode="end"
    )
    return graph.call("strided_slice", [value], attrs, name=name)


def dense(graph: Graph, data: Value, weight: Value, name: str = "") -> Value:
    """Add a product of ``data[M, K]`` and ``weight[N, K]``, of the data's type."""
    attrs = default_attributes("nn.dense", units=None)
    return graph.call("nn.dense", [data, weight], attrs, name=name)
