"""Pooling over NCHWc data: maximum or average, moving window or global, channels in the lanes."""

from __future__ import annotations

from tvm_fusionx.schedules.analysis import BlockInfo
from tvm_fusionx.schedules.conv_channelwise import channelwise_template
from tvm_fusionx.schedules.conv_structure import Window, find_window


def _pool_window(info: BlockInfo) -> Window | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if window.stage.is_dot or window.sums_channels:
        return "its reduction is not one tensor's window"
    return window


POOL = channelwise_template("pool", _pool_window)
