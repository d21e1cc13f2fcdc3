"""One 3x3 convolution of NCHWc data with constant weights, directly and by minimal filtering."""

from __future__ import annotations

import numpy as np
from tvm import relay

from tests.relay_modules import const, var
from tvm_fusionx.ecg.relay_attributes import default_attributes, to_attrs
from tvm_fusionx.layout.blocked_convolution import pack_weights
from tvm_fusionx.layout.winograd import WINOGRAD, register_winograd, transform_weights

BLOCK = 8


def _data(shape: tuple[int, ...]) -> relay.Expr:
    batch, channels, rows, columns = shape
    return var("x", batch, channels // BLOCK, rows, columns, BLOCK)


def weights(channels: int, outputs: int) -> np.ndarray:
    """Return random weights ``[outputs, channels, 3, 3]``."""
    array: np.ndarray = const(outputs, channels, 3, 3, seed=9).data.numpy()
    return array


def direct(
    shape: tuple[int, int, int, int], outputs: int, padding: tuple[int, int, int, int]
) -> relay.Expr:
    """Return the convolution as ``nn.contrib_conv2d_NCHWc``."""
    packed = pack_weights(weights(shape[1], outputs), BLOCK, BLOCK)
    return relay.nn.contrib_conv2d_nchwc(
        _data(shape),
        relay.const(packed),
        padding=padding,
        channels=outputs,
        kernel_size=(3, 3),
        data_layout=f"NCHW{BLOCK}c",
        kernel_layout=f"OIHW{BLOCK}i{BLOCK}o",
        out_layout=f"NCHW{BLOCK}c",
    )


def filtered(
    shape: tuple[int, int, int, int], outputs: int, padding: tuple[int, int, int, int]
) -> relay.Expr:
    """Return the convolution by minimal filtering."""
    register_winograd()
    attrs = default_attributes(
        WINOGRAD,
        tile_size=4,
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
    transformed = relay.const(transform_weights(weights(shape[1], outputs), BLOCK))
    return relay.Call(
        relay.op.get(WINOGRAD), [_data(shape), transformed], to_attrs(WINOGRAD, attrs)
    )
