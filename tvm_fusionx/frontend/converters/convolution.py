"""Convolutions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.planes import (
    SEQUENCE_AXES,
    Weights,
    can_be_flat,
    convolve_flat,
)
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.converters.transposed_sequences import Spread, spread_sequence
from tvm_fusionx.frontend.converters.windows import windows_of
from tvm_fusionx.frontend.node import Node

CONVOLUTIONS = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}
TRANSPOSED = {
    2: relay.nn.conv2d_transpose,
    3: relay.nn.conv3d_transpose,
}


def convolve(
    node: Node, x: Any, weights: Any, weights_shape: tuple[int, ...], out_dtype: str
) -> Any:
    """Return the convolution of `x`, with the node's windows."""
    windows = windows_of(node, weights_shape[2:])
    padding = windows.padding
    if any(pad < 0 for pad in padding):
        raise node.refuse("padding of at least zero", str(list(padding)))
    return CONVOLUTIONS[windows.rank](
        x,
        weights,
        strides=windows.strides,
        padding=padding,
        dilation=windows.dilations,
        groups=int(node.attribute("group", 1)),
        channels=weights_shape[0],
        kernel_size=windows.kernel,
        out_dtype=out_dtype,
    )


@converter("Conv", through=22, because="TVM computes SAME_LOWER of a dilated kernel wrongly")
def convert_conv(node: Node) -> Any:
    """Convolve, and add the bias where there is one."""
    weights = Weights.of(node.tensor(1))
    windows = windows_of(node, node.shape(1)[2:])
    groups = int(node.attribute("group", 1))
    if weights is not None and can_be_flat(windows):
        bias = _bias(node) if node.has(2) else None
        batch = node.shape()[0]
        return convolve_flat(node.expr(0), batch, weights, bias, windows, groups)
    result = convolve(node, node.expr(0), node.expr(1), node.shape(1), "")
    return relay.nn.bias_add(result, _bias(node)) if node.has(2) else result


@converter("ConvInteger", through=10)
def convert_conv_integer(node: Node) -> Any:
    """Convolve 8-bit integers less their zero points, in 32 bits."""
    x = cast(node.expr(0), node.dtype(0), "int32")
    weights = cast(node.expr(1), node.dtype(1), "int32")
    if node.has(2):
        x = x - cast(reshape(node.expr(2), ()), node.dtype(2), "int32")
    if node.has(3):
        shape = () if node.tensor(3).rank == 0 else (-1, *(1,) * (node.rank(1) - 1))
        weights = weights - cast(reshape(node.expr(3), shape), node.dtype(3), "int32")
    return convolve(node, x, weights, node.shape(1), "int32")


def _transposed_pads(node: Node, rank: int, extents: list[int], strides: list[int]) -> list[int]:
    """Return how much is cut off the full result at each side; ``output_shape`` decides."""
    sizes = node.shape()[2:]
    extra = node.attribute("output_padding") or [0] * rank
    auto = node.attribute("auto_pad", "NOTSET")
    output_shape = node.attribute("output_shape")
    if output_shape is None and auto in ("NOTSET", "VALID"):
        return (
            list(node.attribute("pads") or [0] * (2 * rank))
            if auto == "NOTSET"
            else [0] * (2 * rank)
        )
    wanted = (
        output_shape[-rank:]
        if output_shape
        else [s * t for s, t in zip(sizes, strides, strict=True)]
    )
    totals = [
        stride * (size - 1) + out + extent - want
        for stride, size, out, extent, want in zip(
            strides, sizes, extra, extents, wanted, strict=True
        )
    ]
    small = [total // 2 for total in totals]
    large = [total - total // 2 for total in totals]
    return small + large if auto == "SAME_UPPER" else large + small


def _bias(node: Node) -> Any:
    """Return the bias in the type of the data: torch's exporter folds norms into one of float32."""
    return cast(node.expr(2), node.dtype(2), node.dtype())


@converter(
    "ConvTranspose",
    through=22,
    because="TVM ignores dilations, and swaps the pads of SAME_UPPER and SAME_LOWER",
)
def convert_conv_transpose(node: Node) -> Any:
    """Spread each input element over a window, cut off the pads, add the bias."""
    weights, shape = node.expr(1), node.shape(1)
    rank = len(shape) - 2
    if rank not in (SEQUENCE_AXES, *TRANSPOSED):
        raise node.refuse("one to three spatial axes", f"weights {list(shape)}")
    strides = list(node.attribute("strides") or [1] * rank)
    dilations = list(node.attribute("dilations") or [1] * rank)
    extents = [(k - 1) * d + 1 for k, d in zip(shape[2:], dilations, strict=True)]
    if max(dilations) > 1:
        # Relay's transposed convolution has no dilation: spread the kernel with zeros instead.
        weights = relay.nn.dilate(weights, [1, 1, *dilations])
    pads = _transposed_pads(node, rank, extents, strides)
    extra = list(node.attribute("output_padding") or [0] * rank)
    # A cut below zero adds rows; behind the data that is what an output padding does.
    extra = [e + max(0, -pad) for e, pad in zip(extra, pads[rank:], strict=True)]
    pads = [*pads[:rank], *(max(0, pad) for pad in pads[rank:])]
    if any(pad < 0 for pad in pads):
        raise node.refuse(
            "an output no larger than the full transposed convolution", f"pads {pads}"
        )
    can_take_extra = all(e < s for e, s in zip(extra, strides, strict=True))
    if not can_take_extra:
        raise node.refuse("output_padding below the strides", f"{extra} with strides {strides}")
    groups = int(node.attribute("group", 1))
    data = node.expr(0)
    length = None
    if rank == SEQUENCE_AXES:
        # A sequence is a picture of one row, which layouts and templates know.
        size, known = node.shape(), node.tensor(1).array
        length = strides[0] * (size[2] - 1) + extents[0] - sum(pads) + extra[0]
        if known is not None:
            spread_out = np.zeros((*shape[:2], extents[0]), known.dtype)
            spread_out[..., :: dilations[0]] = known
            spread = Spread(strides[0], pads[0], length, groups)
            result = spread_sequence(data, size, spread_out, spread)
            return relay.nn.bias_add(result, _bias(node)) if node.has(2) else result
        data = reshape(data, (*size[:2], 1, size[2]))
        weights = reshape(weights, (*shape[:2], 1, extents[0]))
        rank, strides, extra, extents = 2, [1, *strides], [0, *extra], [1, *extents]
        pads = [0, pads[0], 0, pads[1]]
    # TVM has groups for two axes only; otherwise each group is a convolution of its own.
    parts = groups if rank != 2 else 1
    transposed = functools.partial(
        TRANSPOSED[rank],
        strides=strides,
        padding=pads,
        output_padding=extra,
        groups=groups // parts,
        channels=shape[1] * groups // parts,
        kernel_size=extents,
    )
    result = _by_parts(transposed, data, weights, parts)
    if length is not None:
        result = reshape(result, (node.shape()[0], shape[1] * groups, length))
    return relay.nn.bias_add(result, _bias(node)) if node.has(2) else result


def _by_parts(convolve_part: Callable[[Any, Any], Any], data: Any, weights: Any, parts: int) -> Any:
    """Return the convolutions of each part of the channels, side by side."""
    if parts == 1:
        return convolve_part(data, weights)
    pairs = zip(relay.split(data, parts, 1), relay.split(weights, parts, 0), strict=True)
    return relay.concatenate([convolve_part(x, w) for x, w in pairs], 1)
