"""Maximum pooling whose channels are an outer axis: channel by channel, with what comes before it.

A pool over ``[N, C, ...]`` reads only its own channel. So a task takes one channel after another:
what comes before (pieces put together) is computed for that channel and stays in the core's cache
while the window moves over it, also where it is a result of the kernel that others read. The window
itself is taken axis by axis (:mod:`tvm_fusionx.schedules.channel_pools.axis_by_axis`), or row by
row where its columns are apart (:mod:`tvm_fusionx.schedules.channel_pools.strided`), and never over
a padded copy of the channel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.channel_pools.axis_by_axis import ChannelPoolKernel
from tvm_fusionx.schedules.channel_pools.strided import StridedPoolKernel
from tvm_fusionx.schedules.channel_pools.window import (
    MAX_MOVING_AXES,
    OUTER_AXES,
    Before,
    ChannelWindow,
    three,
)
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knobs, KnobValues, Match, Template, UnschedulableError
from tvm_fusionx.tir.block import BlockInfo, Stage
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.index_maps import coefficients, single_access
from tvm_fusionx.tir.inline import inline_spatial
from tvm_fusionx.tir.root_block import with_root

KERNEL = "channel_pool"

_IF_THEN_ELSE = tvm.ir.Op.get("tir.if_then_else")

# The window of each axis is written out, and where columns are apart, that of rows and planes.
MAX_UNROLLED_WINDOW = 32

# Elements that are further apart than this are found by loading many that are not needed.
MAX_STEP = 2


def _find(info: BlockInfo) -> ChannelWindow | str:
    """Return the block's window, or why the template does not serve it."""
    if len(info.reductions) != 1:
        return f"it has {len(info.reductions)} reductions, not one"
    stage = info.reductions[0]
    if stage.is_dot:
        return "its reduction sums products"
    if info.consumers[stage.name]:
        return "work follows the window"
    if len(stage.reads) != 1:
        return "its window moves over several tensors"
    moving = len(stage.reduced)
    if not 0 < moving <= MAX_MOVING_AXES or len(stage.spatial) != OUTER_AXES + moving:
        return "its window does not move over all axes but image and channel"
    body, init = stage.block.body, stage.block.init
    if not isinstance(body.value, tir.Max) or not isinstance(body.value.b, tir.BufferLoad):
        return "it does not take the largest element"
    indices = single_access(stage, stage.reads[0].data)
    if indices is None or not _reads_own_channel(stage, indices):
        return "a channel reads others"
    steps = _steps(stage, indices)
    if steps is None:
        return "its windows are not next elements, a step apart"
    if steps[-1] > MAX_STEP:
        return f"its window moves by more than {MAX_STEP} elements"
    if max(stage.reduced) > MAX_UNROLLED_WINDOW:
        return f"its window is longer than {MAX_UNROLLED_WINDOW} elements"
    padded = _padded(info, stage, init.value)
    data, padding = padded if padded is not None else (stage.reads[0], [0] * moving)
    window = ChannelWindow(
        data,
        stage.writes[0],
        three(stage.reduced),
        three(steps),
        (*[0] * (MAX_MOVING_AXES - moving), *padding),
        init.value,
    )
    if not window.is_over_data():
        return "a window has nothing but padding under it"
    return _why_not_apart(window) or window


def _why_not_apart(window: ChannelWindow) -> str | None:
    """Return why a window whose columns are apart is not served."""
    if window.stride[-1] == 1:
        return None
    if window.size[-1] == 1:
        return "it moves over rows of one element"
    if math.prod(window.kernel[:-1]) > MAX_UNROLLED_WINDOW:
        return f"its window, of elements apart, is over more than {MAX_UNROLLED_WINDOW} rows"
    return None


def _is_own(index: Any, var: Any, size: int) -> bool:
    return index.same_as(var) or (size == 1 and isinstance(index, tir.IntImm))


def _reads_own_channel(stage: Stage, indices: list[Any]) -> bool:
    """Tell whether image and channel of what is read are the result's."""
    outer = [it for it in stage.iters if not it.is_reduction][:OUTER_AXES]
    return len(indices) == len(stage.spatial) and all(
        _is_own(index, it.var, it.extent) for index, it in zip(indices, outer, strict=False)
    )


def _steps(stage: Stage, indices: list[Any]) -> list[int] | None:
    """Return by how much the window moves along each axis; None where it skips elements."""
    spatial = [it for it in stage.iters if not it.is_reduction][OUTER_AXES:]
    reduced = [it for it in stage.iters if it.is_reduction]
    steps = []
    for index, out, tap in zip(indices[OUTER_AXES:], spatial, reduced, strict=True):
        found = coefficients(index, out.var, tap.var)
        if found is None or found[-1] != 0 or (tap.extent > 1 and found[1] != 1):
            return None
        steps.append(found[0] if out.extent > 1 else 1)
    return steps


def _padded(info: BlockInfo, stage: Stage, lowest: Any) -> tuple[Any, list[int]] | None:
    """Return what is padded by `lowest` before the window, and by how much before each axis."""
    name = _pad_of(info, stage, lowest)
    if name is None:
        return None
    block = info.stages[name].block
    load = block.body.value.args[1]
    moved = [
        coefficients(index, it.var) for index, it in zip(load.indices, block.iter_vars, strict=True)
    ]
    return load.buffer, [-each[1] if each is not None else 0 for each in moved[OUTER_AXES:]]


def _pad_of(info: BlockInfo, stage: Stage, lowest: Any) -> str | None:
    """Return the stage that pads what `stage` reads by `lowest`, and only for it."""
    for name in info.producers[stage.name]:
        block = info.stages[name].block
        value = getattr(block.body, "value", None)
        if name in info.outputs or info.consumers[name] != (stage.name,):
            continue
        if not isinstance(value, tir.Call) or not value.op.same_as(_IF_THEN_ELSE):
            continue
        _, load, otherwise = value.args
        if (
            isinstance(load, tir.BufferLoad)
            and len(load.indices) == len(block.iter_vars)
            and tvm.ir.structural_equal(otherwise, lowest)
            and all(
                _is_moved(index, it, axis < OUTER_AXES)
                for axis, (index, it) in enumerate(zip(load.indices, block.iter_vars, strict=True))
            )
        ):
            return name
    return None


def _is_moved(index: Any, it: Any, is_outer: bool) -> bool:
    """Tell whether an axis is read in place, or moved by what is before the data."""
    if is_outer:
        return _is_own(index, it.var, int(it.dom.extent))
    moved = coefficients(index, it.var)
    return moved is not None and moved[0] == 1


@dataclass(frozen=True)
class ChannelPool(Match):
    """A maximum over windows of each channel, with what comes before it."""

    window: ChannelWindow

    def knobs(self) -> Knobs:
        """Return nothing: channels are dealt out evenly, and vectors fill the rows."""
        return {}

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info = self.info
        parallel = should_parallelise(info.stages.values(), info.cpu.cores)
        stage = info.reductions[0]
        pad = _pad_of(info, stage, self.window.lowest)
        before = info.producers[stage.name if pad is None else pad]
        kept = {stage.name, *before, *(() if pad is None else (pad,))}
        sch = fresh_schedule(info.func)
        info = inline_spatial(sch, info, keep=frozenset(kept))
        if info.stages.keys() != kept:
            raise UnschedulableError("a result is not on the way to the window")
        # The buffers are others once stages were inlined.
        window = _find(info)
        if isinstance(window, str):
            raise UnschedulableError(window)
        source = info.stages[before[0]] if before else None
        func = sch.mod["main"]
        params = {buffer.data for buffer in func.buffer_map.values()}
        members = [stage for stage in info.stages.values() if stage.name != pad]
        kernel = StridedPoolKernel if window.stride[-1] > 1 else ChannelPoolKernel
        computed = None if source is None else Before(source, source.name in info.outputs)
        stmt = kernel(window, info.cpu.lanes, computed).build(info.cpu.cores if parallel else 1)
        block = tir.Block(
            [],
            [_whole(each) for stage in members for each in stage.reads if each.data in params],
            [_whole(each) for stage in members for each in stage.writes if each.data in params],
            KERNEL,
            stmt,
        )
        return with_root(func, tir.BlockRealize([], tir.const(True, "bool"), block), [])


def _match(info: BlockInfo) -> ChannelPool | str:
    window = _find(info)
    return window if isinstance(window, str) else ChannelPool(info, window)


def _whole(buffer: Any) -> Any:
    return tir.BufferRegion(buffer, [tvm.ir.Range(0, extent) for extent in buffer.shape])


CHANNEL_POOL = Template("channel_pool", _match)
