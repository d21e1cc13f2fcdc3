"""Blocks around one reduction: matrix products, convolutions of every kind, pools, plain sums.

Everything that follows the reduction is applied to the registers it is accumulated in, everything
before it is computed where it is read. See ``tile_plan`` for who computes what.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.isolate import REGISTERS, Isolated, has_guard, isolate_reduction
from tvm_fusionx.schedules.gpu.staging import DEPTH, fits, stage_operands
from tvm_fusionx.schedules.gpu.textures import (
    PIXEL,
    as_texture,
    takes_pixels,
    texture_weight,
)
from tvm_fusionx.schedules.gpu.threads import (
    GROUPS,
    bind_flat,
    points_of,
    split_shares,
    work_items,
)
from tvm_fusionx.schedules.gpu.threads import ITEMS as ITEM_AXES
from tvm_fusionx.schedules.gpu.tile_plan import (
    ITEMS_X,
    ITEMS_Y,
    STAGED,
    TEXTURE,
    TILE_X,
    TILE_Y,
    Axes,
    axes_of,
    can_stage,
    tile_knobs,
    within_limits,
)
from tvm_fusionx.schedules.parts.nest import extent, own_loops
from tvm_fusionx.schedules.parts.overlap_or_pad import OVERLAP, widen_axis
from tvm_fusionx.schedules.template import (
    Knob,
    Knobs,
    KnobValues,
    Match,
    Template,
    UnschedulableError,
)
from tvm_fusionx.tir.block import BlockInfo, Stage
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.index_maps import is_contiguous_along, reads_of

# Steps of the innermost summation that are written out: enough to issue loads ahead of their use.
UNROLLED_STEPS = 4


@dataclass(frozen=True)
class Tiled(Match):
    """A block around one reduction."""

    stage: Stage
    """The reduction."""

    def knobs(self) -> Knobs:
        """Return the tile, the work-items, and where operands are read from."""
        info, stage, gpu = self.info, self.stage, self.info.gpu
        knobs = tile_knobs(stage, gpu)
        axes = axes_of(stage)
        can = texture_weight(info) is not None and takes_pixels(axes.extents[axes.x], PIXEL)
        # Images have a cache of their own; they are read in pixels, which narrow tiles take apart.
        should = can and gpu.has_textures and knobs[TILE_X].default % PIXEL == 0
        return {**knobs, TEXTURE: Knob(int(should), (0, 1) if can else (0,))}

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info = self.info
        sch = fresh_schedule(info.func)
        block = isolate_reduction(sch, info)
        chosen = within_limits(values, info.gpu)
        axes = axes_of(block.reduce)
        func = _widened(block, axes, chosen)
        wanted = chosen[TEXTURE] and not chosen[STAGED]
        is_whole = takes_pixels(axes.extents[axes.x], chosen[TILE_X])
        weight = texture_weight(info) if wanted and is_whole else None
        scheduled = _tile(func, block, axes, chosen, info.gpu)
        return scheduled if weight is None else as_texture(scheduled, weight.data)


def _match(info: BlockInfo) -> Tiled | str:
    if len(info.reductions) != 1:
        return "it has not exactly one reduction"
    stage = info.reductions[0]
    if len(stage.writes) != 1:
        return "its reduction has several results"
    spatial = [it.var for it in stage.iters if not it.is_reduction]
    indices = list(stage.block.body.indices)
    if len(indices) != len(spatial) or not all(
        isinstance(index, tir.Var) and index.same_as(var)
        for index, var in zip(indices, spatial, strict=True)
    ):
        return "its reduction does not write by its own axes"
    return Tiled(info, stage)


def _widened(block: Isolated, axes: Axes, values: KnobValues) -> Any:
    """Let the last tile of an axis move back, so that no result needs a test of its own."""
    func = block.func
    for axis, tile in ((axes.x, values[TILE_X]), (axes.y, values[TILE_Y])):
        if axis is not None and tile <= axes.extents[axis] and tile > 1:
            try:
                position = _position(block.reduce, axis)
                func = widen_axis(
                    func, block.reduce.name, block.write.name, position, tile, OVERLAP
                )
            except UnschedulableError:
                continue
    return func


def _position(stage: Stage, axis: int) -> int:
    """Return the position of a spatial axis among all axes of a stage."""
    spatial = [place for place, it in enumerate(stage.iters) if not it.is_reduction]
    return spatial[axis]


def _tile(func: Any, block: Isolated, axes: Axes, values: KnobValues, gpu: Gpu) -> Any:
    sch = fresh_schedule(func)
    for name in block.others:
        alone = sch.get_loops(sch.get_block(name))
        bind_flat(sch, alone, work_items(gpu, points_of(sch, alone)))
    write, reduce = sch.get_block(block.write.name), sch.get_block(block.reduce.name)
    loops = sch.get_loops(write)
    y = loops[axes.y] if axes.y is not None else sch.add_unit_loop(loops[0])
    outer_x, inner_x = sch.split(loops[axes.x], [None, values[TILE_X]])
    outer_y, inner_y = sch.split(y, [None, values[TILE_Y]])
    columns = [*(loops[axis] for axis in axes.between), outer_x]
    rows = [*(loops[axis] for axis in axes.before), outer_y]
    sch.reorder(*rows, *columns, inner_y, inner_x)
    group_y, item_y = split_shares(sch, rows, values[ITEMS_Y])
    group_x, item_x = split_shares(sch, columns, values[ITEMS_X])
    sch.reorder(group_y, group_x, item_y, item_x, inner_y, inner_x)
    sch.bind(group_y, GROUPS[1])
    sch.bind(group_x, GROUPS[0])
    sch.bind(item_y, ITEM_AXES[1])
    sch.bind(item_x, ITEM_AXES[0])
    sch.compute_at(reduce, item_x, preserve_unit_loops=True)
    values = {**values, ITEMS_X: extent(sch, item_x), ITEMS_Y: extent(sch, item_y)}
    is_vector = _accumulate(sch, reduce, block, axes, values, gpu)
    _write(sch, inner_y, inner_x, block, axes, is_vector)
    return sch.mod["main"]


def _accumulate(
    sch: Any, reduce: Any, block: Isolated, axes: Axes, values: KnobValues, gpu: Gpu
) -> bool:
    """Order the loops of the summation; return whether its rows are vectors."""
    spatial, reduced = own_loops(sch, reduce)
    x = spatial[axes.x]
    tile = [spatial[axes.y], x] if axes.y is not None else [x]
    rest = [loop for loop in spatial if not any(loop.same_as(each) for each in tile)]
    is_vector = is_vector_of(block.reduce, axes, extent(sch, x), gpu)
    results = math.prod(extent(sch, loop) for loop in tile)
    stage_at = None
    rows, columns = values[TILE_Y] * values[ITEMS_Y], values[TILE_X] * values[ITEMS_X]
    is_staged = values[STAGED] and can_stage(block.reduce, axes)
    if is_staged and fits(block.reduce, rows, columns, gpu):
        wide = [loop for loop in reduced if extent(sch, loop) > 1]
        position = [loop.same_as(wide[0]) for loop in reduced].index(True)
        stage_at, inside = sch.split(wide[0], [None, min(extent(sch, wide[0]), DEPTH)])
        reduced[position : position + 1] = [stage_at, inside]
    chunk = _split_chunk(sch, block.reduce, reduced, gpu) if is_vector else []
    reduced, unrolled = _unroll_steps(sch, reduced, results * (gpu.lanes if chunk else 1), gpu)
    unrolled += chunk
    sch.reorder(*rest, *reduced, *unrolled, *tile)
    for name in block.reads:
        _read_into_registers(sch, name, block, (reduced or unrolled)[-1], gpu)
    if chunk and reduced and not block.reads:
        _load_chunks(sch, reduce, block.reduce, reduced[-1], gpu)
    for loop in [*unrolled, *tile[:-1]]:
        sch.unroll(loop)
    if is_vector:
        sch.vectorize(x)
    else:
        sch.unroll(x)
    if stage_at is not None:
        stage_operands(sch, reduce, stage_at, values[ITEMS_X], values[ITEMS_Y])
    start = sch.decompose_reduction(reduce, (reduced or unrolled)[0])
    for loop in sch.get_loops(start)[-len(tile) :][:-1]:
        sch.unroll(loop)
    last = sch.get_loops(start)[-1]
    if is_vector:
        sch.vectorize(last)
    else:
        sch.unroll(last)
    return is_vector


def _split_chunk(sch: Any, stage: Stage, reduced: list[Any], gpu: Gpu) -> list[Any]:
    """Take the channels of a chunk out of the loops of a summation, to be written out last.

    `reduced` keeps the loop over chunks. The channels of one are neighbours in memory.
    """
    loops = [it for it in stage.iters if it.is_reduction]
    for place, it in enumerate(loops):
        if it.extent > gpu.lanes and it.extent % gpu.lanes == 0 and _is_chunked(stage, it.var, gpu):
            reduced[place], inside = sch.split(reduced[place], [None, gpu.lanes])
            return [inside]
    return []


def _is_chunked(stage: Stage, var: Any, gpu: Gpu) -> bool:
    """Tell whether a load's last index is the place of `var` in a chunk of one vector."""
    found = False
    for load in loads_in(stage.block.body):
        last = load.indices[-1] if load.indices else None
        if isinstance(last, tir.FloorMod) and isinstance(last.b, tir.IntImm):
            is_var = any(var.same_as(each) for each in tir.analysis.undefined_vars(last.a))
            found |= is_var and int(last.b) == gpu.lanes
    return found


def _read_into_registers(sch: Any, name: str, block: Isolated, at: Any, gpu: Gpu) -> None:
    """Compute the part of an operand that one step of the summation multiplies, once."""
    operand = sch.get_block(name)
    sch.set_scope(operand, 0, REGISTERS)
    sch.compute_at(operand, at, preserve_unit_loops=True)
    spatial, _ = own_loops(sch, operand)
    stage = block.info.stages[name]
    for loop in spatial[:-1]:
        sch.unroll(loop)
    is_chunk = extent(sch, spatial[-1]) == gpu.lanes
    if is_chunk and not has_guard(stage.block.body, stage.iters[-1].var):
        sch.vectorize(spatial[-1])
    else:
        sch.unroll(spatial[-1])


def _load_chunks(sch: Any, reduce: Any, stage: Stage, at: Any, gpu: Gpu) -> None:
    """Load the operand whose channels are chunks into registers, a vector at a time."""
    for place, region in enumerate(sch.get(reduce).reads):
        loads = reads_of(stage, region.buffer.data)
        if not any(isinstance(load.indices[-1], tir.FloorMod) for load in loads):
            continue
        copy = sch.cache_read(reduce, place, REGISTERS)
        sch.compute_at(copy, at, preserve_unit_loops=True)
        spatial, _ = own_loops(sch, copy)
        for loop in spatial[:-1]:
            sch.unroll(loop)
        if extent(sch, spatial[-1]) == gpu.lanes:
            sch.vectorize(spatial[-1])
        return


def _unroll_steps(
    sch: Any, reduced: list[Any], results: int, gpu: Gpu
) -> tuple[list[Any], list[Any]]:
    """Divide the loops of a summation into those that stay and the innermost, written out."""
    kept: list[Any] = list(reduced)
    unrolled: list[Any] = []
    budget = min(UNROLLED_STEPS, gpu.unrolled // max(1, results))
    while len(kept) > 1 and extent(sch, kept[-1]) <= budget:
        loop = kept.pop()
        budget //= max(1, extent(sch, loop))
        unrolled.insert(0, loop)
    last = kept[-1] if kept else None
    if unrolled or last is None or budget < UNROLLED_STEPS:
        return kept, unrolled
    if extent(sch, last) % UNROLLED_STEPS == 0 and extent(sch, last) > UNROLLED_STEPS:
        kept[-1], inside = sch.split(last, [None, UNROLLED_STEPS])
        unrolled.append(inside)
    return kept, unrolled


def is_vector_of(stage: Stage, axes: Axes, tile: int, gpu: Gpu) -> bool:
    """Tell whether a tile's row is one vector: of neighbours in memory, or the same for all."""
    var = [it.var for it in stage.iters if not it.is_reduction][axes.x]
    if tile not in (2, gpu.lanes) or has_guard(stage.block.body, var):
        return False
    own = stage.writes[0].data
    return all(
        load.buffer.data.same_as(own)
        or not any(var.same_as(each) for each in tir.analysis.undefined_vars(load))
        or is_contiguous_along(load, var)
        for load in loads_in(stage.block.body)
    )


def loads_in(body: Any) -> list[Any]:
    """Return the loads that a body makes."""
    found: list[Any] = []
    tir.stmt_functor.post_order_visit(
        body, lambda node: found.append(node) if isinstance(node, tir.BufferLoad) else None
    )
    return found


def _write(
    sch: Any, inner_y: Any, inner_x: Any, block: Isolated, axes: Axes, is_vector: bool
) -> None:
    sch.unroll(inner_y)
    var = block.write.iters[axes.x].var
    if is_vector and not has_guard(block.write.block.body, var):
        sch.vectorize(inner_x)
    else:
        sch.unroll(inner_x)


GPU_TILE = Template("gpu_tile", _match)
