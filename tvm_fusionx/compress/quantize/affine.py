"""Scales and zero points, and numbers rounded by them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_fusionx.compress.quantize.ranges import Range

# Of a tensor that is zero everywhere, and of channels that are: any will do that is not denormal.
LEAST_SCALE = float(np.float32(1e-12))

INT8_MOST = 127
# A bias is an int32; half of its range leaves room for the sum that it is added to.
BIAS_MOST = 2**30


@dataclass(frozen=True)
class Affine:
    """``real = (integer - zero) * scale``.

    Attributes
    ----------
    scale
        A float32.
    zero
        The integer that stands for zero.
    dtype
        ``"uint8"`` or ``"int8"``.
    """

    scale: float
    zero: int
    dtype: str

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """Return the numbers that the integers nearest to `values` stand for, in float32."""
        limits = np.iinfo(self.dtype)
        steps = np.rint(values.astype(np.float32) / np.float32(self.scale)) + self.zero
        kept = np.clip(steps, limits.min, limits.max) - self.zero
        result: np.ndarray = (kept * np.float32(self.scale)).astype(np.float32)
        return result

    @property
    def bounds(self) -> Range:
        """Return the smallest and the largest number that an integer stands for."""
        limits = np.iinfo(self.dtype)
        return (limits.min - self.zero) * self.scale, (limits.max - self.zero) * self.scale


def affine_of(bounds: Range, dtype: str) -> Affine:
    """Return the scale and zero point that spread an integer type over a range with zero in it."""
    low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    limits = np.iinfo(dtype)
    scale = max(float(np.float32((high - low) / (limits.max - limits.min))), LEAST_SCALE)
    zero = int(np.clip(np.rint(limits.min - low / scale), limits.min, limits.max))
    return Affine(scale, zero, dtype)


def channel_scales(weights: np.ndarray, axis: int) -> np.ndarray:
    """Return the scale of each channel along `axis` for symmetric int8, ``(channels,)`` float32."""
    axes = tuple(each for each in range(weights.ndim) if each != axis)
    largest = np.abs(weights).max(axis=axes)
    return np.maximum(largest / INT8_MOST, LEAST_SCALE).astype(np.float32)


def quantized_weights(weights: np.ndarray, axis: int, scales: np.ndarray) -> np.ndarray:
    """Return symmetric int8 weights, -127 to 127."""
    shape = [-1 if each == axis else 1 for each in range(weights.ndim)]
    steps = np.rint(weights / scales.reshape(shape))
    return np.clip(steps, -INT8_MOST, INT8_MOST).astype(np.int8)


def rounded_weights(weights: np.ndarray, axis: int) -> np.ndarray:
    """Return what int8 weights with a scale for each channel stand for, in float32."""
    scales = channel_scales(weights, axis)
    shape = [-1 if each == axis else 1 for each in range(weights.ndim)]
    integers = quantized_weights(weights, axis, scales).astype(np.float32)
    result: np.ndarray = integers * scales.reshape(shape)
    return result


def scales_for_bias(scales: np.ndarray, bias: np.ndarray, data_scale: float) -> np.ndarray:
    """Return scales of weights, widened where the bias in steps of both would not fit int32."""
    least = np.abs(bias).astype(np.float64) / (BIAS_MOST * data_scale)
    return np.maximum(scales, least).astype(np.float32)
