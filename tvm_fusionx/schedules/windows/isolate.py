"""Bring a fused block around a window into three stages: gather the input, reduce, write.

*Gather* computes the window's input (padding, gates, layout changes) where it is needed, *reduce*
is the window itself, in registers, and *write* applies everything that follows (bias, activation,
residual, changes of layout) to the registers and stores the block's output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.tir.block import BlockInfo, describe_block
from tvm_fusionx.tir.inline_into_producer import inline_into_producer


@dataclass(frozen=True)
class Isolated:
    """Names of the stages of a block around a window."""

    reduce: str
    """The window."""
    write: str
    """The stage that reads the window's result, in the window's own axes."""
    gather: str | None
    """The stage that computes the window's data, or None when the data is a parameter."""
    others: tuple[str, ...]
    """Names of stages that keep their own loop nests."""


def isolate_window(sch: Any, info: BlockInfo, window: Window) -> Isolated:
    """Inline what precedes and follows `window` in `sch`.

    Stages after the window that cannot be expressed in its axes (a resize, a pad, a concatenation)
    stay behind it, in loop nests of their own.
    """
    name = window.stage.name
    direct = [
        producer
        for producer in info.producers[name]
        if any(buffer.data.same_as(window.data.data) for buffer in info.stages[producer].writes)
    ]
    kept = {name, *info.producers[name], *info.outputs}
    for stage in info.stages:
        if stage not in kept:
            sch.compute_inline(sch.get_block(stage))
    write = sch.get(sch.cache_write(sch.get_block(name), 0, "local")).name_hint
    if name not in info.outputs:
        inline_into_producer(sch, info.outputs[0])
    known = {name, write, *direct}
    others = [
        stage for stage in describe_block(sch.mod["main"], info.cpu).stages if stage not in known
    ]
    return Isolated(name, write, direct[0] if direct else None, tuple(others))


def weights_of(reduce: Any, data: Any) -> Any:
    """Return the buffer of weights that `reduce`, the block of a window over `data`, reads."""
    others = {region.buffer.data for region in reduce.writes} | {data.data}
    (weights,) = (region.buffer for region in reduce.reads if region.buffer.data not in others)
    return weights
