"""Blocks around NCHWc convolutions of bytes, as a quantized model has them for Arm's ``sdot``."""

from __future__ import annotations

from tvm import relay

from tests.relay_modules import var

LANES, DEPTH = 4, 4


def bytes_window(
    channels: int, size: tuple[int, int], outputs: int, kernel: int, stride: int = 1
) -> relay.Expr:
    """Return a convolution of int8, its sums scaled and rounded to bytes again."""
    data = var("x", 1, channels // DEPTH, *size, DEPTH, dtype="int8")
    weights = var(
        "w", outputs // LANES, channels // DEPTH, kernel, kernel, 1, LANES, DEPTH, dtype="int8"
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
        f"NCHW{DEPTH}c",
        f"OIHW1i{LANES}o{DEPTH}i",
        f"NCHW{LANES}c",
        "int32",
    )
    of_channels = (1, outputs // LANES, 1, 1, LANES)
    moved = relay.subtract(sums, var("zero", *of_channels, dtype="int32"))
    scaled = relay.cast(moved, "float32") * var("scale", *of_channels)
    return relay.cast(relay.clip(relay.round(scaled), -128, 127), "int8")
