"""A bias of whole steps is added to the sum of integers, and not to the float that becomes of it.

A quantized layer keeps its bias in 32-bit integers, in steps of the data's scale times that of the
weights. What its model means is the bias in floats behind the product; the sum of integers takes it
as it is stored, beside what the zero point costs, and is exact where floats are rounded::

    float32(sum - excess) * s + bias    ->    float32(sum - (excess - bias / s)) * s
"""

from __future__ import annotations

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.rewrite.quantized import PRODUCTS, SUM

BIAS_ADD = "nn.bias_add"

# How far a bias may lie from whole steps, relative to itself: it was multiplied by both scales, and
# the steps are a product of them as well, each rounded to 24 bits.
ROUNDED = 2.0**-21


def biases_into_sums(graph: Graph) -> int:
    """Add biases of whole steps to sums of integers, in place; return how many."""
    count = 0
    for node in graph.calls():
        if node.op not in (BIAS_ADD, "add") or not graph.contains(node):
            continue
        result = _with_bias(graph, node)
        if result is not None:
            graph.replace(node[0], result)
            count += 1
    if count:
        graph.prune()
    return count


def _with_bias(graph: Graph, node: Node) -> Value | None:
    """Return what a bias is added to with the bias in its sum; None where it is no such sum."""
    scaled, bias = node.operands
    if scaled.op != "multiply" or not bias.is_constant or not graph.has_single_user(scaled):
        return None
    if scaled.shape != node.outputs[0].shape:
        return None
    floats, scale = scaled.node.operands
    if not scale.is_constant or floats.op != "cast" or not graph.has_single_user(floats):
        return None
    total, constant = floats.node.operands[0], None
    if total.op == "subtract" and total.node.operands[1].is_constant:
        total, constant = total.node.operands
    if total.op not in PRODUCTS or total.dtype != SUM or not total.node.operands[1].is_constant:
        return None
    steps = _steps(node, bias.array, scale.array)
    if steps is None:
        return None
    excess = -steps
    if constant is not None:
        excess = excess + constant.array.astype(np.int64).reshape(-1, *steps.shape[1:])
    if np.abs(excess).max() + _largest(total.node) > np.iinfo(SUM).max:
        return None
    name = floats.node.name
    with_bias = graph.call("subtract", [total, graph.constant(excess.astype(SUM))], name=name)
    made = graph.call("cast", [with_bias], {"dtype": floats.dtype}, name=name)
    return graph.call("multiply", [made, scale], name=scaled.node.name)


def _steps(node: Node, bias: np.ndarray, scale: np.ndarray) -> np.ndarray | None:
    """Return a bias in steps of each channel's scale, in the shape of that; None of other ones."""
    if bias.size not in (1, scale.size) or not (scale > 0).all():
        return None
    is_by_channel = node.op == BIAS_ADD or bias.shape[-scale.ndim :] == scale.shape
    if bias.size > 1 and not is_by_channel:
        return None
    exact = bias.astype(np.float64).reshape(-1, *scale.shape[1:]) / scale.astype(np.float64)
    steps = np.rint(exact)
    if not np.isfinite(exact).all() or (np.abs(exact - steps) > ROUNDED * np.abs(steps)).any():
        return None
    return steps.astype(np.int64) if np.abs(steps).max() <= np.iinfo(SUM).max else None


def _largest(product: Node) -> int:
    """Return what no sum of a product exceeds."""
    data, weights = product.operands
    limits = np.iinfo(data.dtype)
    axes = tuple(range(1, len(weights.shape)))
    most = np.abs(weights.array.astype(np.int64)).sum(axis=axes).max()
    return int(most) * max(-int(limits.min), int(limits.max))
