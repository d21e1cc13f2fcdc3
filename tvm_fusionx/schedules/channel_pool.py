"""Pooling whose channels are an outer axis: one channel a task, with what is computed before it.

A pool over ``[N, C, ...]`` reads only its own channel. So a task takes one channel: what comes
before (pieces put together, padding) is computed for that channel and stays in the core's cache
while the window moves over it, also where it is a result of the kernel that others read. Without
padding in the window's own loops, a row of the result is one vector, summed up in registers.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.access import single_access, variables_of
from tvm_fusionx.schedules.analysis import BlockInfo, Stage
from tvm_fusionx.schedules.cpu import Cpu
from tvm_fusionx.schedules.inline import inline_spatial
from tvm_fusionx.schedules.nest import MIN_FILLED_SHARE, extent, info_of, own_loops
from tvm_fusionx.schedules.outputs import lend_outputs, return_outputs
from tvm_fusionx.schedules.parallelism import should_parallelise
from tvm_fusionx.schedules.rows import MustBeAloneError, refuse_recomputation
from tvm_fusionx.schedules.template import Knobs, KnobValues, Template, UnschedulableError

# Axes before those that the window moves over: image and channel.
OUTER_AXES = 2

# A row of prime length is one vector of several registers, as long as it is not too long.
MAX_VECTORS_A_ROW = 4

# Windows of at most this many elements are written out; 3 x 3 x 3 is 27.
MAX_UNROLLED_WINDOW = 32


def _why_not(info: BlockInfo) -> str | None:
    if len(info.reductions) != 1:
        return f"it has {len(info.reductions)} reductions, not one"
    stage = info.reductions[0]
    if stage.is_dot:
        return "its reduction sums products"
    if info.consumers[stage.name]:
        return "work follows the window"
    if len(stage.reads) != 1:
        return "its window moves over several tensors"
    window = len(stage.reduced)
    if window == 0 or len(stage.spatial) != OUTER_AXES + window:
        return "its window does not move over all axes but image and channel"
    if not _reads_own_channel(stage):
        return "a channel reads others"
    return None if _moves_by_one(stage) else "its window moves by more than one element"


def _reads_own_channel(stage: Stage) -> bool:
    """Tell whether image and channel of what is read are the result's, and the window the rest."""
    outer = [it for it in stage.iters if not it.is_reduction][:OUTER_AXES]
    reduced = {it.var for it in stage.iters if it.is_reduction}
    indices = single_access(stage, stage.reads[0].data)
    return (
        indices is not None
        and len(indices) == len(stage.spatial)
        and all(
            index.same_as(it.var) or (it.extent == 1 and isinstance(index, tir.IntImm))
            for index, it in zip(indices, outer, strict=False)
        )
        and all(len(variables_of(index) & reduced) <= 1 for index in indices[OUTER_AXES:])
    )


def _moves_by_one(stage: Stage) -> bool:
    """Tell whether neighbours in a row of the result read neighbours, so that one load has all."""
    row = [it for it in stage.iters if not it.is_reduction][-1]
    indices = single_access(stage, stage.reads[0].data)
    linear = tvm.arith.detect_linear_equation(indices[-1], [row.var]) if indices else []
    return len(linear) > 0 and isinstance(linear[0], tir.IntImm) and int(linear[0]) == 1


def _knobs(info: BlockInfo, cpu: Cpu) -> Knobs:
    return {}


def _apply(sch: Any, info: BlockInfo, values: KnobValues) -> Any:
    pool = info.reductions[0].name
    info = inline_spatial(sch, info, keep=frozenset(info.producers[pool]))
    func = lend_outputs(sch.mod["main"], info)
    sch = tir.Schedule(tvm.IRModule({"main": func}), debug_mask="none", error_render_level="none")
    info = info_of(sch, info)
    if set(info.outputs) != {pool}:
        raise UnschedulableError("a result is not on the way to the window")
    stage = info.stages[pool]
    block = sch.get_block(pool)
    write = sch.cache_write(block, 0, "local")
    image, channel, *_, row = sch.get_loops(write)
    task = sch.fuse(image, channel)
    if should_parallelise(info.stages.values(), info.cpu.cores):
        sch.parallel(task)
    vector = _vector(sch, row, info.cpu.lanes)
    at = sch.get_loops(write)[-2]
    sch.compute_at(block, at, preserve_unit_loops=True)
    sch.vectorize(vector)
    for name in reversed([each for each in info.stages if each != pool]):
        member = sch.get_block(name)
        sch.compute_at(member, task, preserve_unit_loops=True)
        try:
            refuse_recomputation(sch, info.stages[name], member, math.prod(stage.spatial[:2]))
        except MustBeAloneError as error:
            raise UnschedulableError(f"{name} is computed for several channels") from error
        sch.vectorize(_vector(sch, own_loops(sch, member)[0][-1], info.cpu.lanes))
    _accumulate(sch, block)
    return return_outputs(sch.mod["main"])


def _vector(sch: Any, row: Any, lanes: int) -> Any:
    """Return the loop over equal parts of a row, each one vector, filled or not."""
    length = extent(sch, row)
    width = max(each for each in range(1, lanes + 1) if length % each == 0)
    if width * MIN_FILLED_SHARE < lanes and length <= MAX_VECTORS_A_ROW * lanes:
        width = length
    return row if width == length else sch.split(row, [None, width])[1]


def _accumulate(sch: Any, block: Any) -> None:
    spatial, reduced = own_loops(sch, block)
    sch.reorder(*reduced, spatial[-1])
    sch.vectorize(spatial[-1])
    if math.prod(extent(sch, loop) for loop in reduced) <= MAX_UNROLLED_WINDOW:
        for loop in reduced:
            sch.unroll(loop)
    initial = sch.decompose_reduction(block, reduced[0])
    sch.vectorize(sch.get_loops(initial)[-1])


CHANNEL_POOL = Template("channel_pool", _why_not, _knobs, _apply)
