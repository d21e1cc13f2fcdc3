"""Products of quantized matrices, in 32-bit integers."""

from __future__ import annotations

import math
from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.linear import matmul
from tvm_fusionx.frontend.converters.microsoft.quantized_numbers import (
    centred,
    parameter,
    quantize_by_range,
    quantized,
)
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.shapes import transpose
from tvm_fusionx.frontend.values import Tensor


def per_column(tensor: Tensor | None, dtype: str) -> Any:
    """Return one number, or one for each column, as it broadcasts over rows."""
    if tensor is not None and tensor.rank > 1 and math.prod(tensor.shape) > 1:
        # (batch..., 1, columns): each matrix of a batch has its own.
        return cast(tensor.expr, tensor.dtype, dtype)
    return parameter(tensor, dtype, (-1,))


def _less(x: Tensor, zero: Tensor | None) -> Any:
    wide = cast(x.expr, x.dtype, "int32")
    return wide if zero is None else wide - per_column(zero, "int32")


@microsoft("QGemm")
def convert_qgemm(node: SchemaNode) -> Any:
    """Alpha * (A' - za) (B' - zb) + C, at the scale of the result where there is one."""
    a, b = node.named("A"), node.named("B")
    is_a_turned, is_b_turned = bool(node.attribute("transA")), bool(node.attribute("transB"))
    left = centred(a, node.named("a_zero_point"))
    left = transpose(left, (1, 0)) if is_a_turned else left
    column = (-1, 1) if is_b_turned else (-1,)
    right = centred(b, node.named("b_zero_point"), column)
    right = right if is_b_turned else transpose(right, (1, 0))
    product = relay.nn.dense(left, right, out_dtype="int32")
    bias = node.maybe("C")
    if bias is not None:
        product = product + bias.expr
    scale = per_column(node.named("b_scale"), "float32") * parameter(
        node.named("a_scale"), "float32"
    )
    alpha = float(node.attribute("alpha"))
    if alpha != 1.0:
        scale = scale * scalar(alpha, "float32")
    result = relay.cast(product, "float32") * scale
    y_scale, y_zero = node.maybe("y_scale"), node.maybe("y_zero_point")
    return result if y_scale is None else quantized(result, y_scale, y_zero, a)


@microsoft("MatMulIntegerToFloat")
def convert_matmul_integer_to_float(node: SchemaNode) -> Any:
    """Return (A - za) (B - zb) * sa * sb + bias."""
    a, b = node.named("A"), node.named("B")
    zero = node.maybe("a_zero_point")
    left = centred(a, zero, (-1, 1))
    product = matmul(left, a.shape, _less(b, node.maybe("b_zero_point")), b.shape, "int32")
    scale = parameter(node.named("a_scale"), "float32", (-1, 1))
    result = relay.cast(product, "float32") * (scale * per_column(node.named("b_scale"), "float32"))
    bias = node.maybe("bias")
    return result if bias is None else result + bias.expr


@microsoft("DynamicQuantizeMatMul")
def convert_dynamic_quantize_matmul(node: SchemaNode) -> Any:
    """Quantize A by its range, multiply integers, rescale, add the bias."""
    a, b = node.named("A"), node.named("B")
    levels, point, scale = quantize_by_range(a.expr)
    right = _less(b, node.maybe("b_zero_point"))
    product = matmul(levels - point, a.shape, right, b.shape, "int32")
    result = relay.cast(product, "float32") * (scale * per_column(node.named("b_scale"), "float32"))
    bias = node.maybe("bias")
    return result if bias is None else result + bias.expr


@microsoft("MatMulInteger16")
def convert_matmul_integer16(node: SchemaNode) -> Any:
    """Multiply matrices of 16-bit integers in 32 bits."""
    a, b = node.named("A"), node.named("B")
    left, right = (cast(x.expr, x.dtype, "int32") for x in (a, b))
    return matmul(left, a.shape, right, b.shape, "int32")
