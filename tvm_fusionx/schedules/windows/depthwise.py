"""Depthwise convolution over NCHWc data: each channel has its own window.

Loop order, outermost first: tasks (image, part of the channels, part of the rows, in parallel);
gather the task's input; channel chunk; row; columns of a tile; window rows; window columns, written
out, so that neighbouring columns share their loads; then bias and activation on the registers.
"""

from __future__ import annotations

from tvm_fusionx.schedules.windows.channelwise import channelwise_template
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.tir.block import BlockInfo


def _depthwise_window(info: BlockInfo) -> Window | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if not window.stage.is_plain_dot:
        return "its reduction is not a sum of products of elements as they are"
    if window.sums_channels:
        return "its channels are summed"
    return window


DEPTHWISE = channelwise_template("depthwise", _depthwise_window)
