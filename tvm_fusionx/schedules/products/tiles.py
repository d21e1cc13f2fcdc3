"""A dot product in register tiles, spread over the cores."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import Any

from tvm import tir

from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts.fetch_ahead import PIECES, pauses_in
from tvm_fusionx.schedules.parts.nest import NARROWEST_VECTOR, Late, extent, info_of, own_loops
from tvm_fusionx.schedules.parts.overlap_or_pad import OVERLAP, PAD, widen_axis
from tvm_fusionx.schedules.products.half_chains import initialise, sum_in_chains, with_chains
from tvm_fusionx.schedules.products.laid_rows import lay_rows
from tvm_fusionx.schedules.products.plan import (
    COLUMNS_APART,
    DotPlan,
    chunks_of,
    chunks_of_parts,
    plan_dot,
)
from tvm_fusionx.schedules.template import KnobValues, UnschedulableError
from tvm_fusionx.tir.block import BlockInfo, Stage, describe_stage, loads_of
from tvm_fusionx.tir.flat_access import step_of
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.index_maps import dot_axes, is_contiguous_along
from tvm_fusionx.tir.inline import why_not_inline
from tvm_fusionx.tir.inline_into_producer import inline_into_producer
from tvm_fusionx.tir.lent_outputs import is_lent

logger = logging.getLogger(__name__)

# An epilogue with more expression nodes than this, or any transcendental function, is applied
# to the tile from memory in a loop: unrolled over all registers its code would be too large.
MAX_UNROLLED_EPILOGUE_NODES = 40


@dataclass(frozen=True)
class IsolatedDot:
    """A block whose product is accumulated in registers and written out by a stage of its own."""

    sch: Any
    info: BlockInfo
    reduce: str
    write: str
    plan: DotPlan
    needs_pack: bool
    """Whether the right operand must be copied into panels first."""


def isolate(func: Any, info: BlockInfo, values: KnobValues, row_block: int) -> IsolatedDot:
    """Accumulate the product in registers, written out by a stage of its own; widen both to tiles.

    A stage that finishes the product element by element becomes part of the writing stage,
    whatever its own layout, when TVM finds the inverse of its index map and no axis that it splits
    has to be widened.
    """
    try:
        return _isolate(func, info, values, row_block, finishes=True)
    except UnschedulableError as error:
        logger.debug("what finishes the product stays a stage of its own: %s", error)
    return _isolate(func, info, values, row_block, finishes=False)


def _isolate(
    func: Any, info: BlockInfo, values: KnobValues, row_block: int, finishes: bool
) -> IsolatedDot:
    sch = fresh_schedule(func)
    info = info_of(sch, info)
    dot = info.anchor
    if dot is None:
        raise UnschedulableError("the dot product is gone")
    plan = with_chains(plan_dot(dot, info.cpu, values), info)
    write = sch.cache_write(sch.get_block(dot.name), 0, "local")
    name = sch.get(write).name_hint
    if finishes:
        _inline_what_finishes(sch, info, name, plan.n)
    current = info_of(sch, info)
    mode = OVERLAP if name in current.outputs else PAD
    right_is_panel = is_contiguous_along(plan.axes.right, dot.iters[plan.axes.n[0]].var)
    has_tail = plan.n % plan.width != 0
    needs_pack = not right_is_panel or (has_tail and mode == PAD)
    func = widen_axis(sch.mod["main"], dot.name, name, plan.axes.n[0], plan.width, mode)
    plan = replace(plan, n=-(-plan.n // plan.width) * plan.width)
    if plan.axes.m and (mode == OVERLAP or row_block in (COLUMNS_APART, plan.m)):
        func = widen_axis(func, dot.name, name, plan.axes.m[0], plan.rows, mode)
        plan = replace(plan, m=-(-plan.m // plan.rows) * plan.rows)
    sch = fresh_schedule(func)
    return IsolatedDot(sch, info_of(sch, info), dot.name, name, plan, needs_pack)


def _inline_what_finishes(sch: Any, info: BlockInfo, write: str, columns: int) -> None:
    """Make what follows `write` element by element part of it, while it alone reads the result.

    What stores the `columns` of a row in runs that vectors straddle stays apart: each number of
    such a vector would be stored by itself.
    """
    while True:
        current = info_of(sch, info)
        stage, readers = current.stages[write], current.consumers[write]
        if (
            len(readers) != 1
            or current.stages[readers[0]].is_reduction
            or _straddled(current.stages[readers[0]], stage.writes[0], columns, info.cpu.lanes)
            or is_lent(stage.writes[0])
            or why_not_inline(current, stage, stage.expensive, stage.nodes) is not None
            or not inline_into_producer(sch, readers[0])
        ):
            return


def _straddled(stage: Stage, product: Any, columns: int, lanes: int) -> bool:
    """Tell whether `stage` takes the rows of `product` apart into runs that no vectors fill."""
    store = stage.block.body
    if not isinstance(store, tir.BufferStore):
        return False
    load = next(each for each in loads_of(store) if each.buffer.data.same_as(product.data))
    run, taken = 1, 1
    for it in reversed([it for it in stage.iters if it.extent > 1]):
        step = step_of(load, it.var)
        if step == taken == run and step_of(store, it.var) == run:
            run *= it.extent
        if step is not None and 0 < step < columns:
            taken *= it.extent
    return NARROWEST_VECTOR <= run < taken and run % lanes != 0


def tile_at_root(block: IsolatedDot, late: Late) -> None:
    """Tile the writing block over its whole matrix and spread the tiles over the cores."""
    sch, plan = block.sch, block.plan
    if plan.parts > 1 and not block.needs_pack:
        _parts_at_root(block, late)
        return
    write, accumulate = sch.get_block(block.write), sch.get_block(block.reduce)
    batch, m, n = roles(sch, write, plan)
    packed = pack_right(block) if block.needs_pack else None
    lay_rows(sch, block.info, block.reduce, plan)
    in_batch = packed is not None and plan.batch >= plan.cores
    outer_n, inner_n = sch.split(n, [None, plan.width])
    outer_m, inner_m = sch.split(m, [None, plan.rows])
    chunk, outer_m = sch.split(outer_m, [1 if in_batch else chunks_of(plan, block.info.cpu), None])
    sch.reorder(*batch, chunk, outer_n, outer_m, inner_m, inner_n)
    micro_kernel(sch, accumulate, write, outer_m, inner_m, inner_n, plan, late)
    if packed is not None:
        schedule_pack(sch, packed, batch if in_batch else [], plan)
    around = [*batch] if in_batch else [*batch, chunk, outer_n]
    if plan.is_parallel:
        sch.parallel(sch.fuse(*around) if len(around) > 1 else around[0])


def _parts_at_root(block: IsolatedDot, late: Late) -> None:
    """Sum part after part of all products of a task, then write it out.

    A panel of a long sum would leave the second-level cache before the next rows meet it.
    """
    sch, plan = block.sch, block.plan
    write, sums = sch.get_block(block.write), sch.get_block(block.reduce)
    chunks, groups = chunks_of_parts(plan, block.info.cpu)
    _, m, n = roles(sch, write, plan)
    outer_n, inner_n = sch.split(n, [None, plan.width])
    outer_m, inner_m = sch.split(m, [None, plan.rows])
    chunk, outer_m = sch.split(outer_m, [chunks, None])
    group, outer_n = sch.split(outer_n, [groups, None])
    sch.reorder(chunk, group, outer_n, outer_m, inner_m, inner_n)
    _, lane = sch.split(inner_n, [plan.vectors, plan.lanes])
    sch.vectorize(lane)

    _, (terms,) = own_loops(sch, sums)
    part, _ = sch.split(terms, [plan.parts, None])
    products = sch.rfactor(part, 0)
    sch.set_scope(products, 0, "local")
    sch.set_scope(sums, 0, "global")
    sch.compute_at(sums, group, preserve_unit_loops=True)
    _, m, n = roles(sch, sums, plan)
    _, (part,) = own_loops(sch, sums)
    outer_n, inner_n = sch.split(n, [None, plan.width])
    outer_m, inner_m = sch.split(m, [None, plan.rows])
    sch.reorder(part, outer_n, outer_m, inner_m, inner_n)
    micro_kernel(sch, products, sums, outer_m, inner_m, inner_n, _plan_of_a_part(plan), late)
    late.append(lambda: sch.vectorize(sch.get_loops(sch.decompose_reduction(sums, part))[-1]))
    if plan.is_parallel:
        sch.parallel(sch.fuse(chunk, group))


def _plan_of_a_part(plan: DotPlan) -> DotPlan:
    """Return the plan of the products of one part, whose parts are an axis before the others."""
    axes = plan.axes
    shifted = [tuple(axis + 1 for axis in each) for each in (axes.m, axes.n)]
    return replace(plan, k=plan.k // plan.parts, axes=replace(axes, m=shifted[0], n=shifted[1]))


def roles(sch: Any, block: Any, plan: DotPlan) -> tuple[list[Any], Any, Any]:
    """Return the batch loops, the row loop and the column loop of a block in the product's axes."""
    loops, _ = own_loops(sch, block)
    axes = plan.axes
    n = loops[axes.n[0]]
    m = loops[axes.m[0]] if axes.m else None
    batch = [loop for loop in loops if loop is not n and loop is not m]
    if m is None:
        is_unit = bool(batch) and extent(sch, batch[-1]) == 1
        m = batch.pop() if is_unit else sch.add_unit_loop(n)
    return batch, m, n


def micro_kernel(
    sch: Any,
    accumulate: Any,
    write: Any,
    tile_loop: Any,
    inner_m: Any,
    inner_n: Any,
    plan: DotPlan,
    late: Late,
) -> None:
    """Compute the tile in registers at `tile_loop`, and write it out under it."""
    stage = describe_stage(sch.get(write))
    is_heavy = stage.transcendentals > 0 or stage.nodes > MAX_UNROLLED_EPILOGUE_NODES
    vector, lane = sch.split(inner_n, [plan.vectors, plan.lanes])
    sch.vectorize(lane)
    if is_heavy:
        position = [buffer.scope() for buffer in stage.reads].index("local")
        tile = sch.cache_read(write, stage.reads[position].name, "global")
        sch.compute_at(tile, tile_loop, preserve_unit_loops=True)
        _, rows, columns = roles(sch, tile, plan)
        column_vector, column_lane = sch.split(columns, [plan.vectors, plan.lanes])
        sch.vectorize(column_lane)
        sch.unroll(rows)
        sch.unroll(column_vector)
    else:
        sch.unroll(inner_m)
        sch.unroll(vector)
    if plan.chain:
        sum_in_chains(sch, accumulate, tile_loop, plan, roles, late)
        return
    sch.compute_at(accumulate, tile_loop, preserve_unit_loops=True)
    batch, m, n = roles(sch, accumulate, plan)
    _, reduced = own_loops(sch, accumulate)
    n_vector, n_lane = sch.split(n, [plan.vectors, plan.lanes])
    sch.reorder(*batch, *reduced, m, n_vector, n_lane)
    sch.vectorize(n_lane)
    sch.unroll(m)
    sch.unroll(n_vector)
    if plan.packed_width is not None and len(reduced) == 1:
        reduced = _in_pieces(sch, reduced[0], plan, extent(sch, tile_loop))
    if (steps := math.gcd(extent(sch, reduced[-1]), plan.steps)) > 1:
        reduced[-1], step = sch.split(reduced[-1], [None, steps])
        sch.unroll(step)
    late.append(lambda: initialise(sch, accumulate, reduced[0]))


def _in_pieces(sch: Any, terms: Any, plan: DotPlan, tiles: int) -> list[Any]:
    """Return the loop over the terms of a sum, divided where the next panel is to be fetched."""
    panel_bytes = plan.k * plan.width * FLOAT_BYTES
    pauses = pauses_in(plan.k, plan.rows * plan.vectors, panel_bytes, tiles)
    if pauses is None:
        return [terms]
    pieces, term = sch.split(terms, [None, pauses.steps])
    sch.annotate(pieces, PIECES, pauses.lines)
    return [pieces, term]


def pack_right(block: IsolatedDot) -> Any:
    """Store the right operand in column panels, which the product then reads in order."""
    sch, info, width = block.sch, block.info, block.plan.width
    accumulate = sch.get_block(block.reduce)
    axes = dot_axes(info.stages[block.reduce])
    if axes is None:
        raise UnschedulableError("the operands of the dot product are not plain tensors")
    data = axes.right.buffer.data
    position = [region.buffer.data for region in sch.get(accumulate).reads].index(data)
    own = [
        name
        for name in info.producers[block.reduce]
        if info.consumers[name] == (block.reduce,)
        and info.stages[name].writes[0].data.same_as(data)
    ]
    packed = sch.reindex(accumulate, ("read", position))
    for name in own:
        if not info.stages[name].is_reduction:
            sch.compute_inline(sch.get_block(name))

    def panels(*indices: Any) -> list[Any]:
        *outer, column, depth = indices
        return [*outer, column // width, depth, column % width]

    sch.transform_layout(accumulate, ("read", position), panels)
    return packed


def schedule_pack(sch: Any, packed: Any, batch: list[Any], plan: DotPlan) -> None:
    """Fill the panels in the innermost of the `batch` loops, or before everything else."""
    if batch:
        sch.compute_at(packed, batch[-1], preserve_unit_loops=True)
        return
    loops = sch.get_loops(packed)
    if plan.is_parallel and len(loops) > 1:
        sch.parallel(sch.fuse(*loops[:-1]))
