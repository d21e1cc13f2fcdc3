"""What a depthwise convolution and the pointwise one after it look like inside a fused block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.analysis import BlockInfo
from tvm_fusionx.schedules.conv_structure import BLOCKED_AXES, Window, coefficients, window_of

# Rows and columns among the axes of NCHWc data.
PIXEL_AXES = (2, 3)


@dataclass(frozen=True)
class Pair:
    """Two windows, the second of one pixel, reading the first's result and nothing else."""

    depthwise: Window
    pointwise: Window
    data: Any
    """The buffer that the depthwise window moves over, before it is padded."""
    padding: tuple[int, int]
    """Rows of zeros above the data, columns of zeros to its left."""
    pad: str | None
    """Name of the stage that pads, if there is one."""
    middle: str
    """Name of the stage that the pointwise window reads."""

    @property
    def in_shape(self) -> tuple[int, ...]:
        """Shape ``[N, C / c, H, W, c]`` of the data."""
        return tuple(int(extent) for extent in self.data.shape)


def find_pair(info: BlockInfo) -> Pair | str:
    """Return the block's reductions as a pair, or why they are none."""
    if len(info.reductions) != 2:
        return f"it has {len(info.reductions)} reductions, not two"
    if len(info.outputs) != 1:
        return f"it writes {len(info.outputs)} tensors, not one"
    windows = [window_of(stage) for stage in info.reductions]
    for window in windows:
        if isinstance(window, str):
            return window
    first, second = (window for window in windows if isinstance(window, Window))
    if not (first.stage.is_plain_dot and second.stage.is_plain_dot):
        return "its reductions are not both sums of products of elements as they are"
    if first.sums_channels or not second.sums_channels:
        return "it is no depthwise and then a dense window"
    if second.kernel != (1, 1) or second.stride != (1, 1):
        return "its second window reads more than a pixel"
    return _joined(info, first, second)


def _joined(info: BlockInfo, first: Window, second: Window) -> Pair | str:
    writer = {buffer.data: name for name, stage in info.stages.items() for buffer in stage.writes}
    middle = writer.get(second.data.data)
    if middle is None or first.stage.name not in info.upstream(middle) | {middle}:
        return "its second window does not read the first"
    if second.in_channels != first.chunks * first.lanes or second.in_block != first.lanes:
        return "its second window does not read all channels of the first"
    if second.out_shape[2:4] != first.out_shape[2:4]:
        return "its second window does not read the first's pixels in place"
    before = info.upstream(first.stage.name)
    if not before:
        return Pair(first, second, first.data, (0, 0), None, middle)
    if before != {writer.get(first.data.data)}:
        return "something is computed before the first window"
    (pad,) = before
    padded = padded_by_zeros(info.stages[pad].block)
    if padded is None:
        return "what is before the first window is no padding by zeros"
    data, padding = padded
    return Pair(first, second, data, padding, pad, middle)


def padded_by_zeros(block: Any) -> tuple[Any, tuple[int, int]] | None:
    """Return the buffer that a block pads by zeros, and the rows and columns before it."""
    padded = padded_by(block)
    if padded is None or padded[2] != 0:
        return None
    return padded[0], padded[1]


def padded_by(block: Any) -> tuple[Any, tuple[int, int], float] | None:
    """Return the buffer that a block pads, the rows and columns before it, and by what."""
    value = block.body.value
    if not (isinstance(value, tir.Call) and value.op.name == "tir.if_then_else"):
        return None
    _, load, otherwise = value.args
    if not isinstance(load, tir.BufferLoad) or len(load.indices) != BLOCKED_AXES:
        return None
    if not isinstance(otherwise, tir.FloatImm):
        return None
    widths = []
    for axis, (index, it) in enumerate(zip(load.indices, block.iter_vars, strict=True)):
        moved = coefficients(index, it.var)
        if moved is None or moved[0] != 1:
            return None
        widths.append(-moved[1])
        if axis not in PIXEL_AXES and moved[1]:
            return None
    return load.buffer, (widths[2], widths[3]), float(otherwise.value)
