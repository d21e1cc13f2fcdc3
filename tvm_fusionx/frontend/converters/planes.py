"""Convolutions over one or three axes, written as ones over two.

Those over two axes are what layouts and templates know: blocked channels, register tiles, minimal
filtering. A sequence is a picture of one row. A volume is computed frame by frame: what a window
sees along the first axis is put beside one another as channels. No number is computed twice, and
none in another order but the sums over the window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.converters.windows import Windows
from tvm_fusionx.frontend.values import constant

SEQUENCE_AXES = 1
VOLUME_AXES = 3


def can_be_flat(windows: Windows, groups: int) -> bool:
    """Tell whether a convolution over one or three axes can be computed over two.

    The groups of a volume would have to be taken apart, and a depthwise one gains nothing from
    channels.
    """
    return windows.rank == SEQUENCE_AXES or (windows.rank == VOLUME_AXES and groups == 1)


def convolve_flat(
    x: Any, batch: int, weights: np.ndarray[Any, Any], bias: Any, windows: Windows, groups: int = 1
) -> Any:
    """Return the convolution of `x` over one or three axes, plus the bias where there is one.

    Parameters
    ----------
    x
        ``(batch, channels, *windows.sizes)``.
    batch
        The first extent of `x`.
    weights
        ``(outputs, channels / groups, *windows.kernel)``.
    bias
        ``(outputs,)``, or None.
    windows
        Sizes, kernel, strides, dilations and padding of the axes.
    groups
        1 for volumes.
    """
    if windows.rank == SEQUENCE_AXES:
        return _of_a_row(x, batch, weights, bias, windows, groups)
    if _is_along_depth(windows):
        return _along_depth(x, batch, weights, bias, windows)
    return _by_frame(x, batch, weights, bias, windows)


def _of_a_row(
    x: Any, batch: int, weights: np.ndarray[Any, Any], bias: Any, windows: Windows, groups: int
) -> Any:
    """Convolve a sequence as a picture of one row."""
    outputs, channels = weights.shape[:2]
    result = _conv2d(
        reshape(x, (batch, channels * groups, 1, *windows.sizes)),
        weights.reshape(outputs, channels, 1, *windows.kernel),
        bias,
        strides=(1, *windows.strides),
        padding=(0, *windows.pads_begin, 0, *windows.pads_end),
        dilation=(1, *windows.dilations),
        groups=groups,
    )
    return reshape(result, (batch, outputs, windows.output(0)))


def _is_along_depth(windows: Windows) -> bool:
    """Tell whether every window is one pixel high and wide, at every pixel."""
    plane = (windows.kernel, windows.strides)
    pads = (*windows.pads_begin[1:], *windows.pads_end[1:])
    return all(each == (1, 1) for each in (part[1:] for part in plane)) and not any(pads)


def _along_depth(
    x: Any, batch: int, weights: np.ndarray[Any, Any], bias: Any, windows: Windows
) -> Any:
    """Convolve over depth and all pixels of a frame in a row: reshapes move nothing."""
    depth, height, width = windows.sizes
    outputs, channels = weights.shape[:2]
    rows = reshape(x, (batch, channels, depth, height * width))
    result = _conv2d(
        rows,
        weights.reshape(outputs, channels, windows.kernel[0], 1),
        bias,
        strides=(windows.strides[0], 1),
        padding=(windows.pads_begin[0], 0, windows.pads_end[0], 0),
        dilation=(windows.dilations[0], 1),
    )
    return reshape(result, (batch, outputs, windows.output(0), height, width))


def _by_frame(
    x: Any, batch: int, weights: np.ndarray[Any, Any], bias: Any, windows: Windows
) -> Any:
    """Convolve each frame of the result as a picture of its own."""
    _, height, width = windows.sizes
    outputs, channels = weights.shape[:2]
    frames = relay.transpose(x, (0, 2, 1, 3, 4))
    begin, end = windows.pads_begin[0], windows.pads_end[0]
    if begin or end:
        frames = relay.nn.pad(frames, ((0, 0), (begin, end), (0, 0), (0, 0), (0, 0)))
    count, stride = windows.output(0), windows.strides[0]
    seen = []
    for step in range(windows.kernel[0]):
        first = step * windows.dilations[0]
        last = first + (count - 1) * stride + 1
        if (first, last, stride) == (0, windows.sizes[0] + begin + end, 1):
            seen.append(frames)
        else:
            seen.append(relay.strided_slice(frames, [first], [last], [stride], axes=[1]))
    beside = seen[0] if len(seen) == 1 else relay.concatenate(seen, 2)
    pictures = reshape(beside, (batch * count, len(seen) * channels, height, width))
    # The order of the channels is the concatenation's: all of a step's, step by step.
    flat = weights.transpose(0, 2, 1, 3, 4).reshape(outputs, -1, *windows.kernel[1:])
    result = _conv2d(
        pictures,
        flat,
        bias,
        strides=windows.strides[1:],
        padding=(*windows.pads_begin[1:], *windows.pads_end[1:]),
        dilation=windows.dilations[1:],
    )
    shape = (batch, count, outputs, windows.output(1), windows.output(2))
    return relay.transpose(reshape(result, shape), (0, 2, 1, 3, 4))


def _conv2d(x: Any, weights: np.ndarray[Any, Any], bias: Any, **attributes: Any) -> Any:
    result = relay.nn.conv2d(
        x,
        constant(np.ascontiguousarray(weights)),
        channels=weights.shape[0],
        kernel_size=weights.shape[2:],
        **attributes,
    )
    return result if bias is None else relay.nn.bias_add(result, bias)
