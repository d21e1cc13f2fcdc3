"""Arithmetic operations of one call; a multiply and an add are two."""

from __future__ import annotations

import math

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.operators import (
    AXIS_NORMALIZATIONS,
    CONTRACTIONS,
    MOVEMENTS,
    PACKED_PRODUCTS,
    SPARSE_PRODUCTS,
    MappingType,
    mapping_type_of,
)

# Maximum, subtraction, exponential, sum, division.
_NORMALIZATION_PASSES = 5

# Of a convolution that does not say.
_KERNEL_LAYOUT = "OIHW"

_DENSE = PACKED_PRODUCTS | {"fusionx.batched_integers", "nn.contrib_dense_pack", "nn.dense"}

# OIHWio.
BLOCKED_WEIGHT_AXES = 6


def flops(node: Node) -> int:
    """Return the arithmetic operations of a call, counted from its shapes.

    Elementwise operators count one for each result element whatever they compute; reductions one
    for each input element; contractions two for each product.
    """
    if not node.is_call or node.op in MOVEMENTS or not node.outputs:
        return 0
    elements = sum(output.elements for output in node.outputs)
    if node.op in SPARSE_PRODUCTS:
        return _sparse(node)
    if node.op in CONTRACTIONS:
        return 2 * elements * _products_per_element(node)
    if node.op in AXIS_NORMALIZATIONS:
        return _NORMALIZATION_PASSES * elements
    if mapping_type_of(node.op) is MappingType.MANY_TO_MANY and node.operands:
        return max(elements, node.operands[0].type.elements)
    return elements


def _sparse(node: Node) -> int:
    """Return two operations for each stored number and place of the result."""
    result = node.outputs[0].shape
    channels = result[1] * (result[4] if len(result) > 2 else 1)
    return 2 * node.operands[1].type.elements * (node.outputs[0].elements // channels)


def _products_per_element(node: Node) -> int:
    data, weight = node.operands[0].shape, node.operands[1].shape
    if node.op == "nn.batch_matmul":
        return data[-2] if node.attrs.get("transpose_a") else data[-1]
    if node.op == "nn.matmul":
        return data[0] if node.attrs.get("transpose_a") else data[-1]
    if node.op in _DENSE:
        return data[-1]
    if node.op == "nn.contrib_conv2d_NCHWc":
        # Of integers, those that one instruction multiplies are the last axis.
        packed = weight[-1] if len(weight) > BLOCKED_WEIGHT_AXES else 1
        return math.prod(weight[1:5]) * packed
    if node.op == "nn.contrib_depthwise_conv2d_NCHWc":
        return math.prod(weight[2:4])
    if node.op == "nn.contrib_conv2d_winograd_without_weight_transform":
        # Counted as the direct convolution it stands for, so that reports compare.
        return data[1] * data[-1] * math.prod(node.attrs["kernel_size"])
    if "transpose" in node.op:
        # Each input element meets every weight of its channel once.
        return max(
            1, node.operands[0].type.elements * math.prod(weight[1:]) // node.outputs[0].elements
        )
    layout = filter(str.isalpha, str(node.attrs.get("kernel_layout") or _KERNEL_LAYOUT))
    # A deformable convolution's second operand is its offsets; the weights are always last.
    extents = zip(layout, node.operands[-1].shape, strict=True)
    return math.prod(extent for letter, extent in extents if letter.upper() != "O")
