"""Convolutions and pools over one or three axes, written as ones over two.

Those over two axes are what layouts and templates know: blocked channels, register tiles, minimal
filtering. A sequence is a picture of one row. A volume is a batch of pictures, its frames one after
another: a convolution puts what a window sees along the first axis beside one another as channels
(one of groups adds up what each of those frames gives), a pool takes the largest of neighbouring
frames. No number is computed twice, and none in another order but the sums over the window.
Between two of them the transposes cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
from tvm import relay
from tvm.ir import Op
from tvm.relay.op import OpPattern

from tvm_fusionx._tvm.arrays import numpy_of
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.converters.windows import Windows
from tvm_fusionx.frontend.values import Tensor, constant

SEQUENCE_AXES = 1
VOLUME_AXES = 3

DEQUANTIZE = "qnn.dequantize"

# How volumes (batch, channels, depth, ...) come of pictures (depth, batch, channels, ...).
OF_PICTURES = (1, 2, 0, 3, 4)


def can_be_flat(windows: Windows) -> bool:
    """Tell whether a convolution over its axes can be computed over two, and is not yet."""
    return windows.rank in (SEQUENCE_AXES, VOLUME_AXES)


@dataclass(frozen=True)
class Weights:
    """Constant weights as they are stored, ``(outputs, channels / groups, *kernel)``.

    Attributes
    ----------
    array
        Floats, or the integers that `scale` and `zero` make floats of.
    scale, zero
        Constants in Relay, of one number or of one for each output; None for floats.
    """

    array: np.ndarray[Any, Any]
    scale: Any = None
    zero: Any = None

    @classmethod
    def of(cls, tensor: Tensor) -> Weights | None:
        """Return the weights that a tensor is, or None where they are computed."""
        if tensor.array is not None:
            return cls(np.asarray(tensor.array))
        made = tensor.expr
        if not _is_dequantized(made) or not isinstance(made.args[0], relay.Constant):
            return None
        integers, scale, zero = made.args
        # One number for all of them has no axis.
        is_by_output = int(made.attrs.axis) == 0 or not (scale.data.shape or zero.data.shape)
        return cls(numpy_of(integers.data), scale, zero) if is_by_output else None

    def laid(self, change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Any:
        """Return the floats in Relay once `change` has moved them; outputs stay where they are."""
        moved = constant(np.ascontiguousarray(change(self.array)))
        if self.scale is None:
            return moved
        return relay.qnn.op.dequantize(moved, self.scale, self.zero, axis=0)


@dataclass(frozen=True)
class _Data:
    """What a convolution reads, as it is stored.

    Attributes
    ----------
    stored
        Floats, or integers.
    floats
        Makes floats of it, or of what it was moved to.
    nought
        What stands for zero.
    """

    stored: Any
    floats: Callable[[Any], Any] = lambda moved: moved
    nought: Any = 0

    @classmethod
    def of(cls, x: Any) -> _Data:
        """Return `x` before it was dequantized, where one number is the scale of all of it."""
        if not _is_dequantized(x):
            return cls(x)
        integers, scale, zero = x.args
        if scale.data.shape or zero.data.shape:
            return cls(x)
        # A model's own input has no type yet.
        axis, dtype = int(x.attrs.axis), relay.transform.InferTypeLocal(integers).dtype
        nought = constant(numpy_of(zero.data).astype(dtype))
        return cls(
            integers, lambda moved: relay.qnn.op.dequantize(moved, scale, zero, axis=axis), nought
        )


def _is_dequantized(x: Any) -> bool:
    return isinstance(x, relay.Call) and isinstance(x.op, Op) and x.op.name == DEQUANTIZE


def convolve_flat(
    x: Any, batch: int, weights: Weights, bias: Any, windows: Windows, groups: int = 1
) -> Any:
    """Return the convolution of `x` over one or three axes, plus the bias where there is one.

    Parameters
    ----------
    x
        ``(batch, channels, *windows.sizes)``.
    batch
        The first extent of `x`.
    weights
        Of `windows.kernel`.
    bias
        ``(outputs,)``, or None.
    windows
        Sizes, kernel, strides, dilations and padding of the axes.
    groups
        Of channels, each convolved alone.
    """
    data = _Data.of(x)
    if windows.rank == SEQUENCE_AXES:
        return _of_a_row(data, batch, weights, bias, windows, groups)
    if _is_along_depth(windows):
        return _along_depth(data, batch, weights, bias, windows, groups)
    return _by_frame(data, batch, weights, bias, windows, groups)


def _of_a_row(
    data: _Data, batch: int, weights: Weights, bias: Any, windows: Windows, groups: int
) -> Any:
    """Convolve a sequence as a picture of one row."""
    outputs, channels = weights.array.shape[:2]
    shape = (outputs, channels, 1, *windows.kernel)
    result = _conv2d(
        data.floats(reshape(data.stored, (batch, channels * groups, 1, *windows.sizes))),
        weights.laid(lambda array: array.reshape(shape)),
        shape,
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
    data: _Data, batch: int, weights: Weights, bias: Any, windows: Windows, groups: int
) -> Any:
    """Convolve over depth and all pixels of a frame in a row: reshapes move nothing."""
    depth, height, width = windows.sizes
    outputs, channels = weights.array.shape[:2]
    shape = (outputs, channels, windows.kernel[0], 1)
    result = _conv2d(
        data.floats(reshape(data.stored, (batch, channels * groups, depth, height * width))),
        weights.laid(lambda array: array.reshape(shape)),
        shape,
        bias,
        strides=(windows.strides[0], 1),
        padding=(windows.pads_begin[0], 0, windows.pads_end[0], 0),
        dilation=(windows.dilations[0], 1),
        groups=groups,
    )
    return reshape(result, (batch, outputs, windows.output(0), height, width))


def _by_frame(
    data: _Data, batch: int, weights: Weights, bias: Any, windows: Windows, groups: int
) -> Any:
    """Convolve each frame of the result as a picture of its own.

    What a window sees along the first axis are more channels. Those of a group do not lie together
    then: groups are convolved frame by frame of the window, and the results added up.
    """
    outputs = weights.array.shape[0]
    channels = weights.array.shape[1] * groups
    frames = _as_pictures(data.stored, batch, channels, windows)
    begin, end = windows.pads_begin[0], windows.pads_end[0]
    if begin or end:
        widths = ((begin * batch, end * batch), (0, 0), (0, 0), (0, 0))
        frames = relay.nn.pad(frames, widths, data.nought)
    depth, count, stride = windows.sizes[0] + begin + end, windows.output(0), windows.strides[0]
    shape = (depth, batch, channels, *windows.sizes[1:])
    seen = [
        _every(frames, shape, step * windows.dilations[0], count, stride)
        for step in range(windows.kernel[0])
    ]
    plane: dict[str, Any] = {
        "strides": windows.strides[1:],
        "padding": (*windows.pads_begin[1:], *windows.pads_end[1:]),
        "dilation": windows.dilations[1:],
    }
    if groups > 1:
        shape = (outputs, channels // groups, *windows.kernel[1:])
        parts = [
            _conv2d(
                data.floats(each),
                weights.laid(partial(_step_of, step=step)),
                shape,
                bias if step == 0 else None,
                groups=groups,
                **plane,
            )
            for step, each in enumerate(seen)
        ]
        result = reduce(relay.add, parts)
    else:
        beside = seen[0] if len(seen) == 1 else relay.concatenate(seen, 1)
        # The order of the channels is the concatenation's: all of a step's, step by step.
        shape = (outputs, channels * windows.kernel[0], *windows.kernel[1:])
        laid = weights.laid(lambda array: array.transpose(0, 2, 1, 3, 4).reshape(shape))
        result = _conv2d(data.floats(beside), laid, shape, bias, **plane)
    return _as_volumes(result, (count, batch, outputs, windows.output(1), windows.output(2)))


def _step_of(array: np.ndarray[Any, Any], step: int) -> np.ndarray[Any, Any]:
    """Return the weights of one frame of each window."""
    return array[:, :, step]


def can_be_pooled_flat(x: Any, windows: Windows) -> bool:
    """Tell whether a pool over three axes is worth writing as one over two.

    Its operand is of pictures already, or would have to be transposed for nothing. Its windows lie
    side by side: then every frame is read once, and the convolution before the pool may take it
    over its tiles; windows that overlap would read frames again.
    """
    return (
        windows.rank == VOLUME_AXES
        and windows.kernel == windows.strides
        and all(step == 1 for step in windows.dilations)
        and not (windows.pads_begin[0] or windows.pads_end[0])
        and _is_of_pictures(x)
    )


def _is_of_pictures(x: Any) -> bool:
    """Tell whether `x` is :func:`_as_volumes` of something, or elementwise work on it."""
    while isinstance(x, relay.Call) and isinstance(x.op, Op):
        if x.op.name == "transpose":
            return tuple(map(int, x.attrs.axes)) == OF_PICTURES
        is_elementwise = x.op.get_attr("TOpPattern") in (OpPattern.ELEMWISE, OpPattern.BROADCAST)
        if not is_elementwise and not _is_dequantized(x):
            return False
        x = x.args[0]
    return False


def pool_flat(x: Any, batch: int, channels: int, windows: Windows) -> Any:
    """Return the largest element of each window over three axes that lie side by side.

    Parameters
    ----------
    x
        ``(batch, channels, *windows.sizes)``.
    batch, channels
        Its first extents.
    windows
        For which :func:`can_be_pooled_flat` holds; the padding is that of whole windows.
    """
    pictures = _as_pictures(x, batch, channels, windows)
    # The smaller tensor is the better one to look for neighbours in, but a convolution takes over
    # no windows that leave the image: then the neighbours are looked for while the pool reads them.
    if any((*windows.pads_begin, *windows.pads_end)):
        result = _pool2d(
            _largest_of_frames(pictures, batch, channels, windows.sizes, windows), windows
        )
    else:
        plane = (windows.output(1), windows.output(2))
        sizes = (windows.sizes[0], *plane)
        result = _largest_of_frames(_pool2d(pictures, windows), batch, channels, sizes, windows)
    return _as_volumes(
        result, (windows.output(0), batch, channels, windows.output(1), windows.output(2))
    )


def _largest_of_frames(
    pictures: Any, batch: int, channels: int, sizes: tuple[int, ...], windows: Windows
) -> Any:
    """Return the largest elements of the frames of each window."""
    deep, count = windows.kernel[0], windows.output(0)
    shape = (sizes[0], batch, channels, *sizes[1:])
    frames = [_every(pictures, shape, step, count, deep) for step in range(deep)]
    return reduce(relay.maximum, frames)


def _pool2d(pictures: Any, windows: Windows) -> Any:
    return relay.nn.max_pool2d(
        pictures,
        pool_size=windows.kernel[1:],
        strides=windows.strides[1:],
        padding=(*windows.pads_begin[1:], *windows.pads_end[1:]),
    )


def _as_pictures(x: Any, batch: int, channels: int, windows: Windows) -> Any:
    """Return volumes as pictures: the first frames of a batch, then the second ones."""
    depth, height, width = windows.sizes
    frames = relay.transpose(x, (2, 0, 1, 3, 4))
    return reshape(frames, (depth * batch, channels, height, width))


def _as_volumes(pictures: Any, shape: tuple[int, ...]) -> Any:
    """Return pictures of ``(depth, batch, channels, height, width)`` as volumes."""
    return relay.transpose(reshape(pictures, shape), OF_PICTURES)


def _every(pictures: Any, shape: tuple[int, ...], first: int, count: int, stride: int) -> Any:
    """Return `count` frames of pictures, each `stride` behind the one before.

    Parameters
    ----------
    shape
        ``(depth, batch, channels, height, width)`` of the pictures.
    """
    depth, batch, *image = shape
    if (first, count, stride) == (0, depth, 1):
        return pictures
    if batch == 1 or stride == 1:
        last = first * batch + (count * batch - 1) * stride + 1
        return relay.strided_slice(pictures, [first * batch], [last], [stride], axes=[0])
    frames = reshape(pictures, shape)
    last = first + (count - 1) * stride + 1
    part = relay.strided_slice(frames, [first], [last], [stride], axes=[0])
    return reshape(part, (count * batch, *image))


def _conv2d(x: Any, weights: Any, shape: tuple[int, ...], bias: Any, **attributes: Any) -> Any:
    """Return the convolution by weights of a shape, plus the bias where there is one."""
    result = relay.nn.conv2d(x, weights, channels=shape[0], kernel_size=shape[2:], **attributes)
    return result if bias is None else relay.nn.bias_add(result, bias)
