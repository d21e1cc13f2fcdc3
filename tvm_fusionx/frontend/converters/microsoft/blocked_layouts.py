"""Operators on channels in blocks, as ONNX Runtime writes them at its highest level.

Between ``ReorderInput`` and ``ReorderOutput`` a tensor's shape is that of ONNX, with channels up to
a multiple of the block: it is translated as just that, and our own layouts are chosen later.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.microsoft.fused_convolution import (
    POOLS,
    channels_first,
    channels_last,
    fused_conv,
)
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.pooling import (
    convert_average_pool,
    convert_global_average_pool,
    convert_global_max_pool,
    convert_max_pool,
)
from tvm_fusionx.frontend.converters.resizing import convert_resize
from tvm_fusionx.frontend.nchwc_blocks import DOMAIN, block_size, plain_weights
from tvm_fusionx.frontend.values import Tensor


@microsoft("Conv", domain=DOMAIN)
def convert_conv(node: SchemaNode) -> Any:
    """Convolve with weights that lie in blocks, add, apply a function."""
    position = node.position("W")
    blocked = node.array(position, "its order is undone then")
    block, groups = block_size(), int(node.attribute("group"))
    if blocked.shape[0] % block:
        raise node.refuse(f"output channels in blocks of {block}", f"{blocked.shape[0]}")
    weights = Tensor.from_array(plain_weights(blocked, groups, block))
    added = node.maybe("Sum")
    return fused_conv(node, node.named("X"), weights, None if added is None else added.expr)


@microsoft("MaxPool", domain=DOMAIN)
def convert_blocked_max_pool(node: SchemaNode) -> Any:
    """Take the largest element of each window."""
    node.attribute("storage_order")
    pool = node.as_standard("MaxPool", [node.tensor(0)], node.attributes_named(*POOLS))
    return convert_max_pool(pool)


@microsoft("AveragePool", domain=DOMAIN)
def convert_blocked_average_pool(node: SchemaNode) -> Any:
    """Average over windows."""
    attributes = node.attributes_named(*POOLS, "count_include_pad")
    return convert_average_pool(node.as_standard("AveragePool", [node.tensor(0)], attributes))


@microsoft("GlobalMaxPool", domain=DOMAIN)
def convert_blocked_global_max_pool(node: SchemaNode) -> Any:
    """Take each channel's largest element."""
    return convert_global_max_pool(node)


@microsoft("GlobalAveragePool", domain=DOMAIN)
def convert_blocked_global_average_pool(node: SchemaNode) -> Any:
    """Average each channel."""
    return convert_global_average_pool(node)


@microsoft("ReorderInput", domain=DOMAIN)
def convert_reorder_input(node: SchemaNode) -> Any:
    """Move channels before rows where they lie last; fill them up with zeros to whole blocks."""
    x = node.tensor(0)
    if node.expects("channels_last", 0, 1):
        x = channels_first(x)
    missing = -x.shape[1] % block_size()
    if not missing:
        return Tensor(x.expr, x.shape, x.dtype, x.array)
    pads = [(0, 0), (0, missing), *[(0, 0)] * (x.rank - 2)]
    return relay.nn.pad(x.expr, pads, 0.0)


@microsoft("ReorderOutput", domain=DOMAIN)
def convert_reorder_output(node: SchemaNode) -> Any:
    """Drop what fills a last block up; move channels behind rows where they are to lie last."""
    x, channels = node.tensor(0), int(node.attribute("channels"))
    if not 0 < channels <= x.shape[1]:
        raise node.refuse(f"1 to {x.shape[1]} channels", str(channels))
    result = x.expr
    if channels < x.shape[1]:
        result = relay.strided_slice(result, [0], [channels], axes=[1])
    if node.expects("channels_last", 0, 1):
        return channels_last(result, x.rank)
    return result if channels < x.shape[1] else Tensor(result, x.shape, x.dtype, x.array)


@microsoft("Upsample", domain=DOMAIN)
def convert_blocked_upsample(node: SchemaNode) -> Any:
    """Repeat or interpolate rows and columns."""
    node.expects("mode", "nearest", "linear")
    scales = Tensor.from_array(np.asarray(node.attribute("scales"), "float32"))
    attributes = node.attributes_named("mode", "coordinate_transformation_mode")
    inputs = [node.tensor(0), None, scales]
    return convert_resize(
        node.as_standard("Resize", inputs, {**attributes, "nearest_mode": "floor"})
    )
