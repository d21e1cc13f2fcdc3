"""Products of quantized matrices.

Operands are dequantized, and a pass of ours multiplies their integers where the processor has an
instruction for it; elsewhere, and for sides that are quantized at run time, the numbers of levels
are multiplied as floats, whose sums are exact up to 2**24.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.linear import matmul
from tvm_fusionx.frontend.converters.microsoft.quantized_numbers import (
    quantize_by_range,
    quantized,
)
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.quantization import dequantized, dequantized_bias
from tvm_fusionx.frontend.converters.shapes import transpose
from tvm_fusionx.frontend.values import Tensor


def dequantized_columns(
    node: SchemaNode, weights: Tensor, scale: Tensor, zero: Tensor | None
) -> Tensor:
    """Return the right side of a product, each column by its scale and zero point."""
    if zero is not None and zero.shape != scale.shape and zero.array is not None:
        # One of them may be given for all columns together.
        size = scale.shape if np.size(zero.array) == 1 else zero.shape
        zero = Tensor.from_array(np.broadcast_to(zero.array.reshape(-1), size))
    return dequantized(node, weights, scale, zero, weights.rank - 1)


@microsoft("QGemm")
def convert_qgemm(node: SchemaNode) -> Any:
    """Alpha * (A' - za) (B' - zb) + C, at the scale of the result where there is one."""
    a_scale, b_scale = node.named("a_scale"), node.named("b_scale")
    is_a_turned, is_b_turned = bool(node.attribute("transA")), bool(node.attribute("transB"))
    a = dequantized(node, node.named("A"), a_scale, node.named("a_zero_point"))
    columns = 0 if is_b_turned else 1
    b = dequantized(node, node.named("B"), b_scale, node.named("b_zero_point"), columns)
    left = transpose(a.expr, (1, 0)) if is_a_turned else a.expr
    right = b.expr if is_b_turned else transpose(b.expr, (1, 0))
    result = relay.nn.dense(left, right)
    bias = node.maybe("C")
    if bias is not None:
        result = result + dequantized_bias(bias, a_scale, b_scale)
    alpha = float(node.attribute("alpha"))
    if alpha != 1.0:
        result = result * scalar(alpha, "float32")
    y_scale, y_zero = node.maybe("y_scale"), node.maybe("y_zero_point")
    like = node.named("A")
    return result if y_scale is None else quantized(result, y_scale, y_zero, like)


@microsoft("MatMulIntegerToFloat")
def convert_matmul_integer_to_float(node: SchemaNode) -> Any:
    """Return (A - za) (B - zb) * sa * sb + bias."""
    source = node.named("A")
    rows = max(source.rank - 2, 0)
    a = dequantized(node, source, node.named("a_scale"), node.maybe("a_zero_point"), rows)
    b = dequantized_columns(
        node, node.named("B"), node.named("b_scale"), node.maybe("b_zero_point")
    )
    result = matmul(a.expr, a.shape, b.expr, b.shape)
    bias = node.maybe("bias")
    return result if bias is None else result + bias.expr


@microsoft("DynamicQuantizeMatMul")
def convert_dynamic_quantize_matmul(node: SchemaNode) -> Any:
    """Quantize A by its range, multiply, rescale, add the bias."""
    a = node.named("A")
    b = dequantized_columns(
        node, node.named("B"), node.named("b_scale"), node.maybe("b_zero_point")
    )
    levels, point, scale = quantize_by_range(a.expr)
    product = matmul(relay.cast(levels - point, "float32"), a.shape, b.expr, b.shape)
    result = product * scale
    bias = node.maybe("bias")
    return result if bias is None else result + bias.expr


@microsoft("MatMulInteger16")
def convert_matmul_integer16(node: SchemaNode) -> Any:
    """Multiply matrices of 16-bit integers in 32 bits."""
    a, b = node.named("A"), node.named("B")
    left, right = (cast(x.expr, x.dtype, "int32") for x in (a, b))
    return matmul(left, a.shape, right, b.shape, "int32")
