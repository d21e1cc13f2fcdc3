"""Quantizing and dequantizing as ONNX Runtime had them for 16 and 4 bits before ONNX did."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.quantization import (
    convert_dequantize_linear,
    convert_quantize_linear,
)
from tvm_fusionx.frontend.node import Node


def _standard(node: SchemaNode, op_type: str) -> Node:
    inputs = [node.tensor(position) if node.has(position) else None for position in range(3)]
    return node.as_standard(op_type, inputs, node.attributes_named("axis"))


@microsoft("QuantizeLinear")
def convert_contrib_quantize_linear(node: SchemaNode) -> Any:
    """round(x / scale) + zero point, saturated."""
    return convert_quantize_linear(_standard(node, "QuantizeLinear"))


@microsoft("DequantizeLinear")
def convert_contrib_dequantize_linear(node: SchemaNode) -> Any:
    """(x - zero point) * scale."""
    return convert_dequantize_linear(_standard(node, "DequantizeLinear"))
