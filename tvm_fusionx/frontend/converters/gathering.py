"""Operators that read or write at computed positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.slicing import slice_axis
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant

# ONNX's reduction -> Relay's mode of scatter.
SCATTER_MODES = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def non_negative(node: Node, position: int, sizes: Any) -> Any:
    """Return an index input with negative entries counted from the end.

    Parameters
    ----------
    sizes
        The indexed axis's size, or one size for each entry of the last dimension.
    """
    tensor = node.tensor(position)
    if tensor.array is not None:
        return constant(
            np.where(tensor.array < 0, tensor.array + sizes, tensor.array).astype(tensor.dtype)
        )
    if tensor.dtype.startswith("uint"):
        return tensor.expr
    size = constant(np.asarray(sizes, dtype=tensor.dtype))
    is_negative = relay.less(tensor.expr, relay.const(0, tensor.dtype))
    return relay.where(is_negative, tensor.expr + size, tensor.expr)


@converter("Gather", through=13)
def convert_gather(node: Node) -> Any:
    """Take slices at the indices; one known index is a slice."""
    axis = node.axis(0)
    size = node.shape()[axis]
    known = node.tensor(1).array
    if known is not None and known.size == 1:
        first = int(known.reshape(-1)[0]) % size
        part = slice_axis(node.expr(), axis, range(first, first + 1), size)
        shape = (*node.shape()[:axis], *known.shape, *node.shape()[axis + 1 :])
        return relay.reshape(part, shape)
    return relay.take(node.expr(), non_negative(node, 1, size), axis=axis, mode="clip")


@converter("GatherElements", through=13)
def convert_gather_elements(node: Node) -> Any:
    """Take one element for each index."""
    axis = node.axis(0)
    return relay.gather(node.expr(), axis, non_negative(node, 1, node.shape()[axis]))


def _index_first(node: Node, position: int, sizes: Any) -> Any:
    """Return an index input whose last axis, the coordinates, is moved to the front for Relay."""
    index = non_negative(node, position, np.asarray(sizes))
    rank = node.rank(position)
    return relay.transpose(index, [rank - 1, *range(rank - 1)]) if rank > 1 else index


@converter("GatherND", through=13)
def convert_gather_nd(node: Node) -> Any:
    """Take slices at index tuples."""
    batch_dims = int(node.attribute("batch_dims", 0))
    depth = node.shape(1)[-1]
    sizes = node.shape()[batch_dims : batch_dims + depth]
    index = _index_first(node, 1, sizes)
    return relay.gather_nd(node.expr(), index, batch_dims=batch_dims, index_rank=depth)


@converter("ScatterElements", "Scatter", through=18, because="TVM misplaces negative indices")
def convert_scatter_elements(node: Node) -> Any:
    """Copy the data with one element replaced for each index."""
    axis = node.axis(0)
    mode = SCATTER_MODES[node.attribute("reduction", "none")]
    index = non_negative(node, 1, node.shape()[axis])
    if 0 in node.shape(1):
        return node.tensor(0)
    return relay.scatter_elements(node.expr(0), index, node.expr(2), axis, mode)


@converter("ScatterND", through=18)
def convert_scatter_nd(node: Node) -> Any:
    """Copy the data with slices replaced at index tuples."""
    if 0 in node.shape(1):
        return node.tensor(0)
    mode = SCATTER_MODES[node.attribute("reduction", "none")]
    index = _index_first(node, 1, node.shape()[: node.shape(1)[-1]])
    return relay.scatter_nd(node.expr(0), index, node.expr(2), mode)


@converter("ai.onnx.ml.ArrayFeatureExtractor", through=1)
def convert_array_feature_extractor(node: Node) -> Any:
    """Take columns of the last axis."""
    index = relay.reshape(non_negative(node, 1, node.shape()[-1]), (-1,))
    taken = relay.take(node.expr(), index, axis=node.rank() - 1, mode="clip")
    if node.rank() == 1:
        return relay.reshape(taken, (1, math.prod(node.shape(1))))
    return taken


@converter("ai.onnx.ml.Binarizer", through=1)
def convert_binarizer(node: Node) -> Any:
    """One above the threshold, zero elsewhere."""
    threshold = relay.const(float(node.attribute("threshold", 0.0)), node.dtype())
    return relay.cast(relay.greater(node.expr(), threshold), node.dtype())
