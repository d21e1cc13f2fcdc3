"""Resizing: along each axis, a weighted sum of elements at known positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx._tvm.arrays import is_floating
from tvm_fusionx.frontend.converters.elementwise import round_half_even
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.slicing import take
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant

Floats = np.ndarray[Any, np.dtype[np.float64]]
# ONNX Runtime computes coordinates in this type; a wider one falls on the other side of ties.
COORDINATE_TYPE = np.float32
SINGLE = "float32"


@dataclass(frozen=True)
class AxisResize:
    """How one axis is resized."""

    axis: int
    size: int
    output: int
    scale: float
    start: float = 0.0
    end: float = 1.0


def _half_pixel(places: Any, r: AxisResize) -> Any:
    return (places + COORDINATE_TYPE(0.5)) / COORDINATE_TYPE(r.scale) - COORDINATE_TYPE(0.5)


def _half_pixel_symmetric(places: Any, r: AxisResize) -> Any:
    """Keep the centre in place where the output size is rounded."""
    adjustment = r.output / (r.scale * r.size)
    return COORDINATE_TYPE(r.size / 2 * (1 - adjustment)) + _half_pixel(places, r)


def _pytorch_half_pixel(places: Any, r: AxisResize) -> Any:
    return _half_pixel(places, r) if r.output > 1 else np.zeros_like(places)


def _align_corners(places: Any, r: AxisResize) -> Any:
    if r.output == 1:
        return np.zeros_like(places)
    return places * COORDINATE_TYPE(r.size - 1) / COORDINATE_TYPE(r.output - 1)


def _asymmetric(places: Any, r: AxisResize) -> Any:
    return places / COORDINATE_TYPE(r.scale)


def _crop_and_resize(places: Any, r: AxisResize) -> Any:
    start, end = r.start * (r.size - 1), r.end * (r.size - 1)
    if r.output == 1:
        return np.full_like(places, (start + end) / 2)
    return COORDINATE_TYPE(start) + places * COORDINATE_TYPE((end - start) / (r.output - 1))


COORDINATES: dict[str, Callable[[Any, AxisResize], Any]] = {
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_crop_and_resize": _crop_and_resize,
    "tf_half_pixel_for_nn": lambda places, r: (
        (places + COORDINATE_TYPE(0.5)) / COORDINATE_TYPE(r.scale)
    ),
}

ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda x: np.ceil(x - COORDINATE_TYPE(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + COORDINATE_TYPE(0.5)),
    "floor": np.floor,
    "ceil": np.ceil,
}

# Modes whose coordinates depend on the output's length: ONNX Runtime rounds it, ONNX does not.
LENGTH_DEPENDENT = ("align_corners", "tf_crop_and_resize")


def _linear_kernel(distance: Any, _: float) -> Any:
    return np.clip(1 - np.abs(distance), 0, None)


def _cubic_kernel(distance: Any, a: float) -> Any:
    """Keys, "Cubic Convolution Interpolation for Digital Image Processing" (1981), equation 15."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


# mode -> (kernel, how many elements it reaches to either side).
KERNELS = {"linear": (_linear_kernel, 1), "cubic": (_cubic_kernel, 2)}


def axis_taps(node: Node, r: AxisResize) -> tuple[Any, Any, Any]:
    """Return positions and weights, both [taps, output], and is_outside [output], of one axis."""
    mode = node.attribute("coordinate_transformation_mode", _default_mode(node))
    x = COORDINATES[mode](np.arange(r.output, dtype=COORDINATE_TYPE), r)
    is_outside = (x < 0) | (x > r.size - 1)
    method = node.attribute("mode", "nearest")
    if method == "nearest":
        rounding = node.attribute("nearest_mode", _default_rounding(node))
        positions = np.clip(ROUNDINGS[rounding](x), 0, r.size - 1)[None]
        return positions.astype(int), np.ones(positions.shape), is_outside
    kernel, reach = KERNELS[method]
    shrink = min(r.scale, 1.0) if node.attribute("antialias", 0) else 1.0
    base = np.ceil(x).astype(int) - 1
    first = math.floor(-reach / shrink) + 1
    offsets = np.arange(first, 2 - first)[:, None]
    distance = (offsets + base[None] - x[None].astype(np.float64)) * shrink
    weights = kernel(distance, float(node.attribute("cubic_coeff_a", -0.75)))
    positions = base[None] + offsets
    if node.attribute("exclude_outside", 0):
        weights = np.where((positions < 0) | (positions >= r.size), 0.0, weights)
    if shrink < 1 or node.attribute("exclude_outside", 0):
        weights = weights / weights.sum(axis=0)
    return np.clip(positions, 0, r.size - 1), weights, is_outside


def _default_mode(node: Node) -> str:
    return "asymmetric" if node.op_type == "Upsample" or node.version < 11 else "half_pixel"


def _default_rounding(node: Node) -> str:
    return "floor" if node.op_type == "Upsample" or node.version < 11 else "round_prefer_floor"


def apply_taps(
    x: Any, axis: int, rank: int, positions: Any, weights: Any, size: int, dtype: str
) -> Any:
    """Return the weighted sum of `x` at `positions` along `axis`."""
    count = positions.shape[1]
    total = None
    for places, weight in zip(positions, weights, strict=True):
        if not weight.any():
            continue
        factor = count // size if size else 0
        if factor > 1 and np.array_equal(places, np.arange(count) // factor) and count % size == 0:
            part = relay.repeat(x, factor, axis)
        elif np.array_equal(places, np.arange(size)):
            part = x
        else:
            part = take(x, places, axis)
        if not (weight == 1).all():
            shape = [count if i == axis else 1 for i in range(rank)]
            part = part * constant(weight.reshape(shape).astype(dtype))
        total = part if total is None else total + part
    return total


def _scales_of(node: Node, axes: list[int]) -> list[AxisResize]:
    """Return what is asked of each axis that is named; sizes win over scales."""
    shape = node.shape()
    if node.op_type == "Upsample":
        scales = node.array(1).reshape(-1) if node.has(1) else np.asarray(node.attribute("scales"))
        return [
            _by_scale(axis, shape[axis], float(s)) for axis, s in zip(axes, scales, strict=True)
        ]
    is_first = node.version < 11
    scales_at = 1 if is_first else 2
    if not is_first and node.has(3) and node.tensor(3).shape != (0,):
        sizes = _keep_ratio(node, axes, node.ints(3))
        return [
            AxisResize(axis, shape[axis], size, scale or size / shape[axis])
            for axis, (size, scale) in zip(axes, sizes, strict=True)
        ]
    scales = node.array(scales_at).reshape(-1)
    return [_by_scale(axis, shape[axis], float(s)) for axis, s in zip(axes, scales, strict=True)]


def _by_scale(axis: int, size: int, scale: float) -> AxisResize:
    return AxisResize(axis, size, math.floor(size * scale), scale)


def _keep_ratio(node: Node, axes: list[int], sizes: list[int]) -> list[tuple[int, float | None]]:
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return [(size, None) for size in sizes]
    ratios = [size / node.shape()[axis] for axis, size in zip(axes, sizes, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [(math.floor(scale * node.shape()[axis] + 0.5), scale) for axis in axes]


def _with_roi(node: Node, resizes: list[AxisResize]) -> list[AxisResize]:
    if node.attribute("coordinate_transformation_mode") != "tf_crop_and_resize":
        return resizes
    roi = [float(v) for v in node.array(1).reshape(-1)]
    count = len(resizes)
    return [
        AxisResize(r.axis, r.size, r.output, r.scale, roi[i], roi[count + i])
        for i, r in enumerate(resizes)
    ]


@converter("Resize", "Upsample", through=19, because="TVM needs four dimensions and ignores axes")
def convert_resize(node: Node) -> Any:
    """Resize one axis after the other; ONNX's modes are all separable."""
    rank, dtype = node.rank(), node.dtype()
    axes = [axis % rank for axis in node.attribute("axes") or range(rank)]
    mode = node.attribute("coordinate_transformation_mode", _default_mode(node))
    resizes = _with_roi(node, _scales_of(node, axes))
    if mode in LENGTH_DEPENDENT:
        _check_lengths(node, mode, resizes)
    outputs = {r.axis: r.output for r in resizes}
    if 0 in outputs.values():
        return np.zeros([outputs.get(i, extent) for i, extent in enumerate(node.shape())], dtype)
    data, outside = _in_floats(node), np.zeros((1,) * rank, dtype=bool)
    x = data
    for r in resizes:
        is_identity = r.output == r.size and r.scale == 1 and (r.start, r.end) == (0.0, 1.0)
        if is_identity:
            continue
        positions, weights, is_outside = axis_taps(node, r)
        x = apply_taps(x, r.axis, rank, positions, weights, r.size, _weighs_in(node))
        shape = [-1 if i == r.axis else 1 for i in range(rank)]
        outside = outside | is_outside.reshape(shape)
    if mode == "tf_crop_and_resize" and outside.any():
        value = relay.const(float(node.attribute("extrapolation_value", 0.0)), _weighs_in(node))
        x = relay.where(constant(outside), value, x)
    return node.tensor(0) if x is data else _in_type_of_data(node, x)


def _check_lengths(node: Node, mode: str, resizes: list[AxisResize]) -> None:
    for r in resizes:
        if not math.isclose(r.scale * r.size, r.output):
            raise node.refuse(
                f"a scale that makes a whole number of elements for mode {mode!r}",
                f"{r.size} * {r.scale}, on which ONNX and ONNX Runtime disagree",
                "Give sizes instead of scales.",
            )


def _weighs_in(node: Node) -> str:
    """Return the type of the weights: whole numbers are weighed in float32, for 0.25 is none."""
    is_weighed = node.attribute("mode", "nearest") != "nearest" and not is_floating(node.dtype())
    return SINGLE if is_weighed else node.dtype()


def _in_floats(node: Node) -> Any:
    return node.expr() if _weighs_in(node) == node.dtype() else relay.cast(node.expr(), SINGLE)


def _in_type_of_data(node: Node, x: Any) -> Any:
    """Return whole numbers again: linear ones cut off, as in ONNX Runtime, and others rounded."""
    dtype = node.dtype()
    if _weighs_in(node) == dtype:
        return x
    is_cut = node.attribute("mode") == "linear" and not node.attribute("antialias", 0)
    bounds = np.iinfo(dtype)
    most = np.float32(bounds.max)
    if most > bounds.max:
        most = np.nextafter(most, np.float32(0))
    whole = relay.trunc(x) if is_cut else round_half_even(x, SINGLE)
    return relay.cast(relay.clip(whole, float(bounds.min), float(most)), dtype)
