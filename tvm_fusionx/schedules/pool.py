"""Pooling over NCHWc data: maximum or average, moving window or global, channels in the lanes."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.schedules.analysis import BlockInfo
from tvm_fusionx.schedules.conv_channelwise import channelwise_knobs, schedule_channelwise
from tvm_fusionx.schedules.conv_structure import Window, find_window
from tvm_fusionx.schedules.cpu import Cpu
from tvm_fusionx.schedules.template import Knobs, KnobValues, Template


def _pool_window(info: BlockInfo) -> Window | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if window.stage.is_dot or window.sums_channels:
        return "its reduction is not one tensor's window"
    return window


def _why_not(info: BlockInfo) -> str | None:
    window = _pool_window(info)
    return window if isinstance(window, str) else None


def _knobs(info: BlockInfo, cpu: Cpu) -> Knobs:
    window = _pool_window(info)
    assert isinstance(window, Window)
    return channelwise_knobs(info, window, cpu)


def _apply(sch: Any, info: BlockInfo, values: KnobValues) -> Any:
    window = _pool_window(info)
    assert isinstance(window, Window)
    return schedule_channelwise(sch, info, window, values)


POOL = Template("pool", _why_not, _knobs, _apply)
