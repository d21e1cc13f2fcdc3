"""Blocks around NCHWc convolutions of bytes, as a quantized model has them for Arm."""

from __future__ import annotations

import tvm
from tvm import relay

from tests.relay_modules import var
from tvm_fusionx.expressions.integer_products import register_integer_products
from tvm_fusionx.expressions.round_even import ROUND_EVEN, register_rounding

LANES, DEPTH = 4, 4


def bytes_window(
    channels: int,
    size: tuple[int, int],
    outputs: int,
    kernel: int,
    stride: int = 1,
    *,
    depth: int = DEPTH,
    chunk: int = DEPTH,
) -> relay.Expr:
    """Return a convolution of int8, its sums scaled and rounded to bytes again.

    Parameters
    ----------
    depth
        Bytes that one instruction multiplies for a sum.
    chunk
        Channels of a chunk of the data.
    """
    register_integer_products()
    data = var("x", 1, channels // chunk, *size, chunk, dtype="int8")
    groups = chunk // depth
    weights = var(
        *("w", outputs // LANES, channels // chunk, kernel, kernel, groups, LANES, depth),
        dtype="int8",
    )
    sums = relay.nn.contrib_conv2d_nchwc(
        data,
        weights,
        (stride, stride),
        (kernel // 2,) * 4,
        (1, 1),
        1,
        outputs,
        (kernel, kernel),
        f"NCHW{chunk}c",
        f"OIHW{groups}i{LANES}o{depth}i",
        f"NCHW{LANES}c",
        "int32",
    )
    return _rounded(sums, outputs)


def bytes_depthwise(
    channels: int, size: tuple[int, int], kernel: int, stride: int = 1, zero: int = 0
) -> relay.Expr:
    """Return a convolution of uint8 less a zero point that keeps channels apart, rounded again."""
    data = relay.cast(var("x", 1, channels // LANES, *size, LANES, dtype="uint8"), "int16")
    if zero:
        data = data - relay.const(zero, "int16")
    weights = var("w", channels // LANES, 1, kernel, kernel, 1, LANES, dtype="int16")
    sums = relay.nn.contrib_depthwise_conv2d_nchwc(
        data,
        weights,
        (stride, stride),
        (kernel // 2,) * 4,
        (1, 1),
        channels,
        channels,
        (kernel, kernel),
        f"NCHW{LANES}c",
        f"OIHW1i{LANES}o",
        f"NCHW{LANES}c",
        "int32",
    )
    return _rounded(sums, channels)


def _rounded(sums: relay.Expr, outputs: int) -> relay.Expr:
    of_channels = (1, outputs // LANES, 1, 1, LANES)
    moved = relay.subtract(sums, var("zero", *of_channels, dtype="int32"))
    register_rounding()
    scaled = relay.cast(moved, "float32") * var("scale", *of_channels)
    rounded = relay.Call(tvm.ir.Op.get(ROUND_EVEN), [scaled])
    return relay.cast(relay.clip(rounded, -128, 127), "int8")
