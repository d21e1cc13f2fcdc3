"""What reduces the rows of a dot product, on a block of rows while they are in the cache."""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.nest import Late, extent, own_loops, vectorise_loop
from tvm_fusionx.schedules.products.laid_rows import lay_rows
from tvm_fusionx.schedules.products.plan import ROW_BLOCK_KNOB, DotPlan
from tvm_fusionx.schedules.products.tiles import (
    IsolatedDot,
    micro_kernel,
    pack_right,
    roles,
    schedule_pack,
)
from tvm_fusionx.schedules.rows.template import refuse_recomputation, schedule_member
from tvm_fusionx.schedules.template import KnobValues, UnschedulableError
from tvm_fusionx.tir.block import BlockInfo, Stage
from tvm_fusionx.tir.index_maps import index_path


def rows_at_root(block: IsolatedDot, values: KnobValues, late: Late) -> None:
    """Compute a block of rows of the product, then all that follows on these rows."""
    sch, plan, info = block.sch, block.plan, block.info
    leader = _leader(info, block.write)
    batch, m, n = _leader_loops(block, leader)
    accumulate, write = sch.get_block(block.reduce), sch.get_block(block.write)
    packed = pack_right(block) if block.needs_pack else None
    lay_rows(sch, block.info, block.reduce, plan)
    outer, inner = sch.split(m, [None, min(values[ROW_BLOCK_KNOB], extent(sch, m))])
    sch.reorder(*batch, outer, inner, n)
    members = _members_of(info, leader, block.write)
    blocks = plan.batch * extent(sch, outer)
    for name in members:
        sch.compute_at(sch.get_block(name), outer, preserve_unit_loops=True)
        refuse_recomputation(sch, info.stages[name], sch.get_block(name), blocks)
    _attach_outputs(sch, info, leader, outer, plan)
    _, write_m, write_n = roles(sch, write, plan)
    outer_n, inner_n = sch.split(write_n, [None, plan.width])
    outer_m, inner_m = sch.split(write_m, [None, plan.rows])
    sch.reorder(outer_n, outer_m, inner_m, inner_n)
    micro_kernel(sch, accumulate, write, outer_m, inner_m, inner_n, plan, late)
    in_batch = packed is not None and plan.batch >= plan.cores
    if packed is not None:
        schedule_pack(sch, packed, batch if in_batch else [], plan)
    for name in members:
        if name != block.write:
            schedule_member(sch, sch.get_block(name), info.cpu, late)
    vectorise_loop(sch, n, info.cpu.lanes)
    around = [*batch] if in_batch else [*batch, outer]
    if plan.is_parallel:
        sch.parallel(sch.fuse(*around) if len(around) > 1 else around[0])


def _leader_loops(block: IsolatedDot, leader: str) -> tuple[list[Any], Any, Any]:
    """Return the leader's loops in the product's roles: batch, rows, columns."""
    sch, info, axes = block.sch, block.info, block.plan.axes
    path = index_path(info, leader, block.write)
    if path is None:
        raise UnschedulableError("what follows the product does not read it in one place")
    path = _by_own_axes(info.stages[block.write], path)
    variables = [it.var for it in info.stages[leader].iters]
    wide = [index for index in path if not isinstance(index, tir.IntImm)]
    if not all(isinstance(index, tir.Var) and index in variables for index in wide):
        raise UnschedulableError("what follows the product has another layout")
    all_loops = sch.get_loops(sch.get_block(leader))
    loops = dict(zip(variables, all_loops, strict=True))
    n_index = path[axes.n[0]]
    m_index = path[axes.m[0]] if axes.m else None
    if not isinstance(n_index, tir.Var) or not isinstance(m_index, tir.Var):
        raise UnschedulableError("what follows the product does not keep its rows and columns")
    n, m = loops[n_index], loops[m_index]
    batch = [loop for loop in all_loops if loop is not n and loop is not m]
    used = [loops[index] for index in wide]
    if any(extent(sch, loop) > 1 and loop not in used for loop in batch):
        raise UnschedulableError("what follows the product has more axes")
    return batch, m, n


def _by_own_axes(write: Stage, path: list[Any]) -> list[Any]:
    """Return where a reader reads `write`, by the block variables of `write`."""
    stored = dict(zip(write.block.body.indices, path, strict=True))
    missing = [it for it in write.iters if it.extent > 1 and it.var not in stored]
    if missing:
        raise UnschedulableError("what finishes the product changes its layout")
    zero = tir.const(0, "int64")
    return [stored.get(it.var, zero) for it in write.iters]


def _leader(info: BlockInfo, write_name: str) -> str:
    """Return the output stage that most other stages lead to."""
    after = info.downstream(write_name)
    outputs = [name for name in info.outputs if name in after]
    if not outputs:
        raise UnschedulableError("nothing after the product is an output")
    leader = max(outputs, key=lambda name: len(info.upstream(name)))
    if info.stages[leader].is_reduction:
        raise UnschedulableError("the block ends in a reduction")
    return leader


def _members_of(info: BlockInfo, leader: str, write_name: str) -> list[str]:
    after = info.downstream(write_name) | {write_name}
    return [
        name
        for name in reversed(list(info.stages))
        if name in after and name != leader and name not in info.outputs
    ]


def _attach_outputs(sch: Any, info: BlockInfo, leader: str, loop: Any, plan: DotPlan) -> None:
    """Write the block's other outputs in the same loop."""
    for name in info.outputs:
        if name == leader:
            continue
        if info.stages[name].is_reduction:
            raise UnschedulableError("an output is a reduction")
        block = sch.get_block(name)
        sch.reverse_compute_at(block, loop, preserve_unit_loops=True)
        spatial, _ = own_loops(sch, block)
        vectorise_loop(sch, spatial[-1], plan.lanes)
