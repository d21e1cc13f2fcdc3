"""Pooling over NCHWc data: maximum or average, moving window or global, channels in the lanes."""

from __future__ import annotations

from tvm_fusionx.schedules.windows.channelwise import channelwise_template
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.tir.block import BlockInfo


def _pool_window(info: BlockInfo) -> Window | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if window.stage.is_dot or window.sums_channels:
        return "its reduction is not one tensor's window"
    return window


POOL = channelwise_template("pool", _pool_window)
