"""Quantized tensors as numbers, and back; ranges that are found at run time."""

from __future__ import annotations

from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.elementwise import round_half_even, scalar
from tvm_fusionx.frontend.converters.quantization import dequantized, saturate
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor

# Levels of an unsigned byte.
HIGHEST = 255.0


def parameter(tensor: Tensor | None, dtype: str, shape: tuple[int, ...] = ()) -> Any:
    """Return a scale or zero point as `dtype`, in a shape that broadcasts; None as zero.

    Parameters
    ----------
    tensor
        One number, or as many as `shape` has room for.
    shape
        Where several numbers lie, with -1 at their axis.
    """
    if tensor is None:
        return scalar(0, dtype)
    is_one = all(size == 1 for size in tensor.shape)
    return cast(reshape(tensor.expr, () if is_one else shape), tensor.dtype, dtype)


def centred(x: Tensor, zero: Tensor | None, shape: tuple[int, ...] = ()) -> Any:
    """Return x - zero point, in 32 bits."""
    wide = cast(x.expr, x.dtype, "int32")
    return wide if zero is None else wide - parameter(zero, "int32", shape)


def numbers(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None) -> Any:
    """Return (x - zero point) * scale."""
    if zero is not None and zero.shape != scale.shape:
        # Both are one number, in a shape or in none.
        scale, zero = (Tensor(reshape(t.expr, ()), (), t.dtype, _one(t)) for t in (scale, zero))
    return dequantized(node, x, scale, zero).expr


def _one(tensor: Tensor) -> Any:
    return None if tensor.array is None else tensor.array.reshape(())


def quantized(x: Any, scale: Tensor, zero: Tensor | None, like: Tensor) -> Any:
    """Return round(x / scale) + zero point, saturated to the type of the zero point or `like`."""
    kind = like if zero is None else zero
    scaled = x / parameter(scale, "float32")
    point = None if zero is None else parameter(zero, "int32")
    return saturate(scaled, point, kind.element, kind.dtype)


def quantize_by_range(x: Any) -> tuple[Any, Any, Any]:
    """Return float32 numbers as unsigned bytes (in int32), less their zero point, and the scale.

    The range is that of all numbers, zero among them, as ``DynamicQuantizeLinear`` defines it.
    """
    zero, top = scalar(0, "float32"), scalar(HIGHEST, "float32")
    low, high = relay.minimum(relay.min(x), zero), relay.maximum(relay.max(x), zero)
    spread = high - low
    scale = relay.where(relay.equal(spread, zero), scalar(1, "float32"), spread / top)
    point = round_half_even(relay.clip(zero - low / scale, 0.0, HIGHEST), "float32")
    levels = relay.clip(round_half_even(x / scale, "float32") + point, 0.0, HIGHEST)
    return relay.cast(levels, "int32"), relay.cast(point, "int32"), scale
