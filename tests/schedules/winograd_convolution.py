"""One 3x3 convolution of NCHWc data with constant weights, directly and by minimal filtering."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay

from tests.relay_modules import const, var
from tests.schedules.blocked_blocks import AVX512
from tvm_fusionx.ecg.relay_attributes import default_attributes, to_attrs
from tvm_fusionx.expressions.minimal_filtering import FILTERINGS, panel_weights, transform_weights
from tvm_fusionx.expressions.winograd import register_winograd
from tvm_fusionx.layout.blocked_convolution import pack_weights
from tvm_fusionx.layout.winograd import WINOGRAD
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.windows.output_vectors import joined_chunks
from tvm_fusionx.schedules.winograd.tiling import Problem, panel_channels

BLOCK = 8

# Of the largest output, float32. F(4 x 4, 3 x 3) multiplies by 4, 5 and 8 what it then subtracts,
# and loses a decimal digit to the direct sum: 3e-6 measured over 512 channels.
WINOGRAD_TOLERANCE = 1e-4

Shape = tuple[int, int, int, int]


def _data(shape: Shape) -> relay.Expr:
    batch, channels, rows, columns = shape
    return var("x", batch, channels // BLOCK, rows, columns, BLOCK)


def weights(channels: int, outputs: int) -> np.ndarray:
    """Return random weights ``[outputs, channels, 3, 3]``."""
    array: np.ndarray = const(outputs, channels, 3, 3, seed=9).data.numpy()
    return array


def frames_beside(x: relay.Expr, frames: int) -> relay.Expr:
    """Return `x` with the chunks of the image before and of the one after beside its own.

    Parameters
    ----------
    frames
        Images of `x`.
    """
    padded = relay.nn.pad(x, ((1, 1), *[(0, 0)] * 4))
    seen = [relay.strided_slice(padded, [i], [i + frames], [1], axes=[0]) for i in range(3)]
    return relay.concatenate(seen, 1)


def direct(
    shape: Shape, outputs: int, padding: Shape, data: relay.Expr | None = None, **attrs: Any
) -> relay.Expr:
    """Return the convolution of `data`, or of a variable, as ``nn.contrib_conv2d_NCHWc``."""
    packed = pack_weights(weights(shape[1], outputs), BLOCK, BLOCK)
    return relay.nn.contrib_conv2d_nchwc(
        _data(shape) if data is None else data,
        relay.const(packed),
        padding=padding,
        channels=outputs,
        kernel_size=(3, 3),
        data_layout=f"NCHW{BLOCK}c",
        kernel_layout=f"OIHW{BLOCK}i{BLOCK}o",
        out_layout=f"NCHW{BLOCK}c",
        **attrs,
    )


def filtered(
    shape: Shape,
    outputs: int,
    padding: Shape,
    tile: int = 4,
    data: relay.Expr | None = None,
    *,
    transforms_weights: bool = False,
    cpu: Cpu = AVX512,
) -> relay.Expr:
    """Return the convolution of `data`, or of a variable, by minimal filtering.

    Parameters
    ----------
    transforms_weights
        Whether the kernel transforms the weights.
    """
    register_winograd()
    attrs = default_attributes(
        WINOGRAD,
        tile_size=tile,
        strides=(1, 1),
        padding=padding,
        dilation=(1, 1),
        groups=1,
        channels=outputs,
        kernel_size=(3, 3),
        data_layout=f"NCHW{BLOCK}c",
        kernel_layout="OIHW",
        out_layout=f"NCHW{BLOCK}c",
        out_dtype="",
    )
    panel = panel_channels(outputs, BLOCK, cpu)
    array = weights(shape[1], outputs)
    packed = (
        panel_weights(array, panel)
        if transforms_weights
        else transform_weights(array, FILTERINGS[tile], panel)
    )
    operands = [_data(shape) if data is None else data, relay.const(packed)]
    return relay.Call(tvm.ir.Op.get(WINOGRAD), operands, to_attrs(WINOGRAD, attrs))


def problem(
    channels: int,
    size: int,
    tile: int,
    outputs: int = 0,
    *,
    transforms_weights: bool = False,
    cpu: Cpu = AVX512,
) -> Problem:
    """Return a square convolution, padded to keep its size, in numbers."""
    outputs = outputs or channels
    panel = panel_channels(outputs, BLOCK, cpu)
    return Problem(
        filtering=FILTERINGS[tile],
        in_shape=(1, channels // BLOCK, size, size, BLOCK),
        out_shape=(1, outputs // BLOCK, size, size, BLOCK),
        padding=(1, 1),
        panel=panel,
        transforms_weights=transforms_weights,
        joined=joined_chunks(panel // BLOCK, BLOCK, cpu),
    )
