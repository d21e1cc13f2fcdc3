"""Convolutions and matrix products whose similar rows share products, as calibration chose them.

A layer is known by the name of its ONNX node. A bias and a cut of negative results that nothing
else reads are computed in the same kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.expressions.similar_products import (
    REUSE,
    REUSE_KEPT,
    REUSED,
    register_similar_products,
)
from tvm_fusionx.layout.blocked_convolution import DENSE_BLOCKED
from tvm_fusionx.layout.blocked_tensor import reshape
from tvm_fusionx.layout.dense import BATCH_MATMUL, MATMUL, by_column, why_not_constant
from tvm_fusionx.layout.dense import DENSE as MATRIX_PRODUCT
from tvm_fusionx.reuse.across_calls import kept_products
from tvm_fusionx.reuse.choice import Choice
from tvm_fusionx.reuse.layer import PANEL, ReuseLayer

FLOAT = "float32"

# Fewer channels than this fill no vector of any processor.
FEWEST_CHANNELS = 4

PRODUCTS = frozenset([MATRIX_PRODUCT, MATMUL, BATCH_MATMUL, DENSE_BLOCKED])

# A matrix as an image: one column of rows, whose channels are its columns.
ONE_PIXEL = ((1, 1), (1, 1), (1, 1), (0, 0, 0, 0))


def why_not_reused(node: Node) -> str | None:
    """Return why the rows of a product cannot share products, or None."""
    if node.op != DENSE_BLOCKED:
        reason = why_not_constant(node)
        if reason is not None:
            return reason
    elif not node.operands[1].is_constant:
        return "its weights are not constant"
    elif int(node.attrs["groups"]) != 1:
        return f"its channels are in {node.attrs['groups']} groups"
    types = {*(value.dtype for value in node.operands[:2]), node.outputs[0].dtype}
    if types != {FLOAT}:
        return f"it multiplies {node.operands[0].dtype} by {node.operands[1].dtype}"
    if node.outputs[0].shape[-1] < FEWEST_CHANNELS:
        return f"{node.outputs[0].shape[-1]} channels side by side fill no vector"
    return None


def reuse_layer(node: Node, choice: Choice) -> ReuseLayer | str:
    """Return a product as its kernel sees it, or why it cannot be put together so."""
    reason = why_not_reused(node)
    if reason is not None:
        return reason
    data, result = node.operands[0].shape, node.outputs[0].shape
    if node.op == DENSE_BLOCKED:
        attrs = node.attrs
        kernel = node.operands[1].shape[2:4]
        window = (kernel, attrs["strides"], attrs["dilation"], attrs["padding"])
        layer = ReuseLayer.of(data, window, (result[1] * result[-1], result[-1]), choice)
    else:
        shape = (1, 1, math.prod(data[:-1]), 1, data[-1])
        layer = ReuseLayer.of(shape, ONE_PIXEL, (result[-1], result[-1]), choice)
    if len(choice.thresholds) != layer.segment_count:
        told = f"thresholds of {len(choice.thresholds)} segments"
        return f"it was chosen for another layer: {told}, and its rows have {layer.segment_count}"
    return layer


def reuse_similar(graph: Graph, choices: Mapping[str, Choice]) -> dict[str, str | None]:
    """Put the operator that reuses products in the place of each chosen layer, in place.

    Parameters
    ----------
    graph
        The graph, after :func:`tvm_fusionx.layout.pack_convolutions`.
    choices
        By the names of the layers.

    Returns
    -------
    dict
        For each layer that is there None, or why it stays as it is.
    """
    told: dict[str, str | None] = {}
    for node in list(graph.calls()):
        choice = choices.get(node.name) if node.op in PRODUCTS else None
        if choice is None:
            continue
        layer = reuse_layer(node, choice)
        told[node.name] = layer if isinstance(layer, str) else None
        if isinstance(layer, ReuseLayer):
            _replace(graph, node, layer, choice)
    graph.prune()
    return told


def _replace(graph: Graph, node: Node, layer: ReuseLayer, choice: Choice) -> None:
    """Replace a product, and what follows it that the kernel computes too."""
    register_similar_products()
    last = node[0]
    bias = np.zeros(layer.channels, FLOAT)
    added = _added(graph, last, is_image=node.op == DENSE_BLOCKED)
    if added is not None:
        last, bias = added
    following = _only_reader(graph, last)
    if following is not None and following.op == "nn.relu":
        last, layer = following[0], replace(layer, has_relu=True)
    missing = ((0, 0), (0, PANEL - layer.bits))
    constants = [
        row_weights(node),
        np.pad(choice.projections(), missing),
        np.pad(choice.threshold_array(), missing),
        bias,
    ]
    data, shape = node.operands[0], last.shape
    if node.op != DENSE_BLOCKED:
        data = reshape(graph, data, (1, 1, layer.height, 1, layer.depth))
    operator = REUSE
    if choice.kept is not None:
        operator = REUSE_KEPT
        table = choice.kept.table(layer.bits)
        constants += [table, kept_products(layer, choice.kept, constants[0])]
    operands = [data, *map(graph.constant, constants)]
    made = graph.call(operator, operands, {REUSED: layer.text()}, name=node.name)
    graph.replace(last, made if made.shape == shape else reshape(graph, made, shape))


def row_weights(node: Node) -> np.ndarray:
    """Return the weights ``[columns, O]``, rows as windows are read: pixel by pixel."""
    if node.op != DENSE_BLOCKED:
        return np.ascontiguousarray(by_column(node).T)
    array = node.operands[1].array.transpose(2, 3, 1, 4, 0, 5)
    return np.ascontiguousarray(array.reshape(math.prod(array.shape[:4]), -1))


def _only_reader(graph: Graph, value: Value) -> Node | None:
    return graph.users(value.node)[0] if graph.has_single_user(value) else None


def _added(graph: Graph, value: Value, *, is_image: bool) -> tuple[Value, np.ndarray] | None:
    """Return the sum of a product and a constant for each channel, and that constant."""
    reader = _only_reader(graph, value)
    if reader is None or reader.op != "add" or reader.outputs[0].shape != value.shape:
        return None
    left, right = reader.operands
    other = right if left is value else left
    if not other.is_constant or other.dtype != FLOAT or other is value:
        return None
    # Of channels alone: chunks and lanes of an image in blocks, columns of matrices.
    last = len(value.shape) - 1
    axes = (1, last) if is_image else (last,)
    shape = (1,) * (len(value.shape) - len(other.shape)) + tuple(other.shape)
    if any(size != 1 and axis not in axes for axis, size in enumerate(shape)):
        return None
    whole = tuple(value.shape[axis] if axis in axes else 1 for axis in range(len(value.shape)))
    array = np.broadcast_to(other.array.reshape(shape), whole)
    return reader[0], np.ascontiguousarray(array.reshape(-1))
