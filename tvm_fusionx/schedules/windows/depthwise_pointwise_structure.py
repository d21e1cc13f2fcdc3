"""What a depthwise convolution and the pointwise one after it look like inside a fused block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm_fusionx.schedules.windows.structure import Window, padded_by_zeros, window_of
from tvm_fusionx.tir.block import BlockInfo


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
    if (
        second.in_channels != first.out_blocks * first.block_out
        or second.block_in != first.block_out
    ):
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
