"""Quantized convolutions and pools, channels first or last."""

from __future__ import annotations

from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.microsoft.fused_convolution import (
    channels_first,
    channels_last,
)
from tvm_fusionx.frontend.converters.microsoft.quantized_numbers import (
    centred,
    numbers,
    parameter,
    quantized,
)
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.pooling import convert_average_pool
from tvm_fusionx.frontend.converters.quantization import convert_qlinear_conv
from tvm_fusionx.frontend.values import Tensor

CONVOLUTION = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
CONVOLUTION_INPUTS = 9


def _data(node: SchemaNode, name: str) -> tuple[Tensor, bool]:
    """Return the data with channels first, and whether they came last."""
    is_last = bool(node.attribute("channels_last"))
    tensor = node.named(name)
    return channels_first(tensor) if is_last else tensor, is_last


@microsoft("QLinearConv")
def convert_contrib_qlinear_conv(node: SchemaNode) -> Any:
    """Convolve in 32-bit integers, then rescale once; weights have their channels first always."""
    x, is_last = _data(node, "x")
    rest = [
        node.tensor(position) if node.has(position) else None
        for position in range(1, CONVOLUTION_INPUTS)
    ]
    result = convert_qlinear_conv(
        node.as_standard("QLinearConv", [x, *rest], node.attributes_named(*CONVOLUTION))
    )
    return channels_last(result, x.rank) if is_last else result


@microsoft("QLinearAveragePool")
def convert_qlinear_average_pool(node: SchemaNode) -> Any:
    """Average the numbers of each window."""
    x, is_last = _data(node, "X")
    wide = Tensor(
        numbers(node, x, node.named("x_scale"), node.maybe("x_zero_point")), x.shape, "float32"
    )
    pool = node.as_standard("AveragePool", [wide], node.attributes_named(*POOL))
    mean = convert_average_pool(pool)
    result = quantized(mean, node.named("y_scale"), node.maybe("y_zero_point"), x)
    return channels_last(result, x.rank) if is_last else result


@microsoft("QLinearGlobalAveragePool")
def convert_qlinear_global_average_pool(node: SchemaNode) -> Any:
    """Average each channel: a sum of integers, rescaled once."""
    x, is_last = _data(node, "X")
    axes = list(range(2, x.rank))
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    total = relay.sum(centred(x, node.maybe("x_zero_point")), axes, True)
    mean = relay.cast(total, "float32") * (
        parameter(node.named("x_scale"), "float32") / relay.const(float(count), "float32")
    )
    result = quantized(mean, node.named("y_scale"), node.named("y_zero_point"), x)
    return channels_last(result, x.rank) if is_last else result
