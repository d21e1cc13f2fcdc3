"""Convolutions that add a tensor and apply a function, channels first or last."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.frontend.converters.convolution import convert_conv
from tvm_fusionx.frontend.converters.microsoft.activations import fused_activation
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.pooling import convert_max_pool
from tvm_fusionx.frontend.converters.shapes import transpose
from tvm_fusionx.frontend.values import Tensor

WINDOWS = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
POOLS = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")


def channels_first(tensor: Tensor) -> Tensor:
    """Return a tensor of (batch, ..., channels) as (batch, channels, ...)."""
    rank = tensor.rank
    order = [0, rank - 1, *range(1, rank - 1)]
    shape = tuple(tensor.shape[axis] for axis in order)
    return Tensor(transpose(tensor.expr, order), shape, tensor.dtype)


def channels_last(x: Any, rank: int) -> Any:
    """Return (batch, channels, ...) as (batch, ..., channels)."""
    return transpose(x, [0, *range(2, rank), 1])


def fused_conv(node: SchemaNode, x: Tensor, weights: Tensor, added: Any) -> Any:
    """Return act(conv(x, weights) + bias + added), channels first."""
    inputs = [x, weights, node.maybe("B")]
    result = convert_conv(node.as_standard("Conv", inputs, node.attributes_named(*WINDOWS)))
    if added is not None:
        result = result + added
    numbers = node.attribute("activation_params", [])
    return fused_activation(node, result, x.dtype, numbers)


@microsoft("FusedConv")
def convert_fused_conv(node: SchemaNode) -> Any:
    """Convolve, add, apply a function."""
    added = node.maybe("Z")
    return fused_conv(node, node.named("X"), node.named("W"), None if added is None else added.expr)


@microsoft("NhwcFusedConv", "NhwcConv")
def convert_nhwc_conv(node: SchemaNode) -> Any:
    """Convolve channels-last tensors; the weights' channels lie last, too."""
    x = channels_first(node.named("X"))
    is_fused = node.op_type.endswith("FusedConv")
    added = node.maybe("Z") if is_fused else None
    weights = channels_first(node.named("W")) if not is_fused else node.named("W")
    first = None if added is None else channels_first(added).expr
    return channels_last(fused_conv(node, x, weights, first), x.rank)


@microsoft("NhwcMaxPool")
def convert_nhwc_max_pool(node: SchemaNode) -> Any:
    """Take the largest element of each window of a channels-last tensor."""
    x = channels_first(node.tensor(0))
    pool = node.as_standard("MaxPool", [x], node.attributes_named(*POOLS))
    return channels_last(convert_max_pool(pool), x.rank)
