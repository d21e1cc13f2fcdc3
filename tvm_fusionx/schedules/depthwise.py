"""Depthwise convolution over NCHWc data: each channel has its own window.

Loop order, outermost first: tasks (image, part of the channels, part of the rows, in parallel);
gather the task's input; channel chunk; row; columns of a tile; window rows; window columns, written
out, so that neighbouring columns share their loads; then bias and activation on the registers.
"""

from __future__ import annotations

from typing import Any

from tvm_fusionx.schedules.analysis import BlockInfo
from tvm_fusionx.schedules.conv_channelwise import channelwise_knobs, schedule_channelwise
from tvm_fusionx.schedules.conv_structure import Window, find_window
from tvm_fusionx.schedules.cpu import Cpu
from tvm_fusionx.schedules.template import Knobs, KnobValues, Template


def _depthwise_window(info: BlockInfo) -> Window | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if not window.stage.is_dot:
        return "its reduction is not a sum of products"
    if window.sums_channels:
        return "its channels are summed"
    return window


def _why_not(info: BlockInfo) -> str | None:
    window = _depthwise_window(info)
    return window if isinstance(window, str) else None


def _knobs(info: BlockInfo, cpu: Cpu) -> Knobs:
    window = _depthwise_window(info)
    assert isinstance(window, Window)
    return channelwise_knobs(info, window, cpu)


def _apply(sch: Any, info: BlockInfo, values: KnobValues) -> Any:
    window = _depthwise_window(info)
    assert isinstance(window, Window)
    return schedule_channelwise(sch, info, window, values)


DEPTHWISE = Template("depthwise", _why_not, _knobs, _apply)
