"""Bicubic sampling in chunks of channels, as a tensor expression of our own.

TVM's spells a reflected place out for each of the sixteen pixels, and in each it stands some forty
times: a kernel of 150,000 characters of TensorIR, which takes six times as long to schedule and to
compile as this one. The pixels and the order of the sums are TVM's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tir

# Of the cubic; PyTorch's choice, and so TVM's and ONNX's.
A = -0.75
TAPS = 4


def sample_bicubic(
    data: Any, grid: Any, padding_mode: str, align_corners: bool, shape: Sequence[Any]
) -> Any:
    """Return the samples of an image.

    Parameters
    ----------
    data
        The image, ``[N, C / c, H, W, c]``.
    grid
        Columns and rows of the places, -1 to 1, ``[N, 2, OH, OW]``.
    padding_mode
        "zeros", "border" or "reflection".
    align_corners
        Whether -1 and 1 are the centres of the outermost pixels, and not their edges.
    shape
        Of the result, ``[N, C / c, OH, OW, c]``.
    """
    _, _, height, width, _ = data.shape
    sizes = (width, height)

    def place(n: Any, side: int, y: Any, x: Any) -> Any:
        at, size = grid[n, side, y, x], sizes[side]
        return (at + 1) * (size - 1) / 2 if align_corners else -0.5 + (at + 1) * size / 2

    def taps(n: Any, side: int, y: Any, x: Any) -> list[Any]:
        first = te.floor(place(n, side, y, x)).astype("int32")
        return [
            within(first + (tap - 1), sizes[side], padding_mode, align_corners)
            for tap in range(TAPS)
        ]

    def weights(n: Any, side: int, y: Any, x: Any) -> list[Any]:
        at = place(n, side, y, x)
        fraction = at - te.floor(at).astype("int32")
        return [_far(fraction + 1), _near(fraction), _near(1 - fraction), _far(2 - fraction)]

    def pixel(n: Any, chunk: Any, row: Any, column: Any, lane: Any) -> Any:
        value = data[n, chunk, row, column, lane]
        if padding_mode != "zeros":
            return value
        is_inside = te.all(row >= 0, column >= 0, row < height, column < width)
        return te.if_then_else(is_inside, value, tir.const(0.0, data.dtype))

    def sample(n: Any, chunk: Any, y: Any, x: Any, lane: Any) -> Any:
        columns, column_weights = taps(n, 0, y, x), weights(n, 0, y, x)
        rows = [
            _sum([pixel(n, chunk, row, column, lane) for column in columns], column_weights)
            for row in taps(n, 1, y, x)
        ]
        return _sum(rows, weights(n, 1, y, x))

    return te.compute(shape, sample, name="chunks")


def within(place: Any, size: Any, padding_mode: str, align_corners: bool) -> Any:
    """Return the pixel that stands for one at a place that may lie outside an axis of `size`."""
    if padding_mode == "border":
        return te.min(te.max(place, 0), size - 1)
    if padding_mode != "reflection":
        return place
    if not align_corners:
        # About the edges: the outermost pixel comes twice.
        at = tir.truncmod(te.max(place, -1 - place), 2 * size)
        return te.min(at, 2 * size - 1 - at)
    if int(size) == 1:
        return tir.const(0, "int32")  # a single pixel stands for all
    # About the centres of the outermost pixels.
    at = tir.truncmod(te.max(place, -place), 2 * (size - 1))
    return te.min(at, 2 * (size - 1) - at)


def _near(fraction: Any) -> Any:
    """Return the weight of a pixel at most one away."""
    return ((A + 2) * fraction - (A + 3)) * fraction * fraction + 1


def _far(fraction: Any) -> Any:
    """Return the weight of a pixel between one and two away."""
    return ((A * fraction - 5 * A) * fraction + 8 * A) * fraction - 4 * A


def _sum(values: Sequence[Any], weights: Sequence[Any]) -> Any:
    first, *others = (value * weight for value, weight in zip(values, weights, strict=True))
    for other in others:
        first = first + other
    return first
