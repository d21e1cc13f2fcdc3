"""Dot products (dense, batch_matmul) with everything fused around them.

The product is accumulated in a register tile of rows x vectors. What follows it element by
element is applied to the tile; what reduces its rows (softmax, norms) runs on a block of rows while
they are in the cache.
"""

from __future__ import annotations

import contextlib
import logging
import math
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.access import DotAxes, dot_axes, index_path, is_contiguous_along
from tvm_fusionx.schedules.analysis import BlockInfo, Stage, collect_blocks, describe_stage
from tvm_fusionx.schedules.cpu import Cpu
from tvm_fusionx.schedules.inline import inline_spatial
from tvm_fusionx.schedules.lane_reductions import split_lane_reductions
from tvm_fusionx.schedules.nest import (
    Late,
    detach_outputs,
    extent,
    finish,
    info_of,
    own_loops,
    vectorise_loop,
)
from tvm_fusionx.schedules.register_tile import max_rows, panel_vectors, tile_rows
from tvm_fusionx.schedules.rows import (
    MustBeAloneError,
    refuse_recomputation,
    schedule_member,
    schedule_rows,
)
from tvm_fusionx.schedules.tails import OVERLAP, PAD, widen_axis
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Template, UnschedulableError

logger = logging.getLogger(__name__)

# Multiply-adds below which a dot product stays on one thread: about 5 us of work, what it costs to
# start the others.
MIN_PARALLEL_MACS = 131072

# Share of the cores' time that the chosen split of the work keeps busy, where possible.
MIN_BALANCE = 0.9

# An epilogue with more expression nodes than this, or any transcendental function, is applied
# to the tile from memory in a loop: unrolled over all registers its code would be too large.
MAX_UNROLLED_EPILOGUE_NODES = 40

ROWS_KNOB = "tile_rows"
VECTORS_KNOB = "tile_vectors"
ROW_BLOCK_KNOB = "row_block"
MAX_VECTORS = 6


@dataclass(frozen=True)
class _Plan:
    """The sizes of one dot product and of the tile chosen for it."""

    axes: DotAxes
    batch: int
    m: int
    n: int
    k: int
    lanes: int
    rows: int
    vectors: int
    packed_width: int | None
    cores: int

    @property
    def width(self) -> int:
        return self.vectors * self.lanes

    @property
    def is_parallel(self) -> bool:
        return self.cores > 1 and self.batch * self.m * self.n * self.k >= MIN_PARALLEL_MACS


@dataclass(frozen=True)
class _Isolated:
    """A block whose product is accumulated in registers and written out by a stage of its own."""

    sch: Any
    info: BlockInfo
    reduce: str
    write: str
    plan: _Plan
    needs_pack: bool
    """Whether the right operand must be copied into panels first."""


def _why_not(info: BlockInfo) -> str | None:
    if not info.dots:
        return "it has no dot product"
    if len(info.dots) > 1:
        return "it has more than one dot product"
    stage = info.dots[0]
    axes = dot_axes(stage)
    if axes is None:
        return "the operands of its dot product are not plain tensors"
    if len(axes.n) != 1 or len(axes.m) > 1 or len(axes.k) != 1:
        return "its dot product is not a matrix product"
    if stage.writes[0].dtype not in ("float32", "float64", "float16"):
        return "it is not a floating-point product"
    spatial = [it.var for it in stage.iters if not it.is_reduction]
    indices = list(stage.block.body.indices)
    if len(indices) != len(spatial) or not all(
        isinstance(index, tir.Var) and index.same_as(var)
        for index, var in zip(indices, spatial, strict=True)
    ):
        return "its dot product does not write by its own axes"
    if not axes.m and not is_contiguous_along(axes.right, stage.iters[axes.n[0]].var):
        return "a matrix-vector product along its rows is a row reduction"
    return None


def _packed_width(load: Any) -> int | None:
    last = load.indices[-1]
    if isinstance(last, tir.FloorMod) and isinstance(last.b, tir.IntImm):
        return int(last.b)
    return None


def _plan(stage: Stage, cpu: Cpu, values: KnobValues | None = None) -> _Plan:
    axes = dot_axes(stage)
    if axes is None:
        raise UnschedulableError("the operands of the dot product are not plain tensors")
    sizes = [it.extent for it in stage.iters]

    def size(positions: tuple[int, ...]) -> int:
        return math.prod(sizes[position] for position in positions)

    n = size(axes.n)
    lanes = min(cpu.lanes, 1 << (n.bit_length() - 1))
    packed = _packed_width(axes.right)
    if packed is not None and packed % lanes == 0 and packed // lanes <= MAX_VECTORS:
        vectors = packed // lanes
    else:
        vectors = min(panel_vectors(n, cpu), max(1, n // lanes))
    rows = tile_rows(size(axes.m), vectors, cpu)
    if values is not None:
        rows, vectors = values[ROWS_KNOB], values[VECTORS_KNOB]
    return _Plan(
        axes,
        size(axes.batch),
        size(axes.m),
        n,
        size(axes.k),
        lanes,
        rows,
        vectors,
        packed,
        cpu.cores,
    )


def _knobs(info: BlockInfo, cpu: Cpu) -> Knobs:
    stage = info.anchor
    assert stage is not None
    plan = _plan(stage, cpu)
    most = max(plan.rows, max_rows(plan.vectors, cpu))
    vectors = (plan.vectors,) if plan.packed_width else tuple(range(1, MAX_VECTORS + 1))
    block = _row_block(plan, cpu)
    blocks = {
        block,
        *(plan.rows * factor for factor in (1, 2, 4, 8) if plan.rows * factor <= plan.m),
    }
    return {
        ROWS_KNOB: Knob(plan.rows, tuple(range(1, most + 1))),
        VECTORS_KNOB: Knob(plan.vectors, vectors),
        ROW_BLOCK_KNOB: Knob(block, tuple(sorted(blocks))),
    }


def _row_block(plan: _Plan, cpu: Cpu) -> int:
    """Return the rows that are computed before what reduces them runs."""
    float_bytes = 4
    most = max(plan.rows, cpu.l2_bytes // 2 // (plan.n * float_bytes))
    tiles = plan.m // plan.rows
    fitting = [
        count * plan.rows
        for count in range(1, tiles + 1)
        if plan.m % (count * plan.rows) == 0 and count * plan.rows <= most
    ]
    if not fitting:
        # No whole number of tiles: all rows together, if they fit, need no partial block.
        return plan.m if plan.m <= most else min(plan.rows, plan.m)
    if plan.n * plan.k * float_bytes * 2 <= cpu.l2_bytes:
        # The right operand stays in the cache: rows may leave it early.
        return fitting[0]
    # It streams past: as many rows as possible for each pass over it, one block for each core.
    share = -(-plan.m * plan.batch // cpu.cores)
    return max((rows for rows in fitting if rows <= share), default=fitting[0])


def _apply(sch: Any, info: BlockInfo, values: KnobValues) -> Any:
    info = detach_outputs(sch, inline_spatial(sch, info))
    dot = info.anchor
    if dot is None:
        raise UnschedulableError("the dot product is gone")
    func = split_lane_reductions(sch.mod["main"], info.cpu.lanes, keep=dot.name)
    for attempt in (_as_one_nest, _as_own_nest):
        try:
            return attempt(func, info, values)
        except (tvm.TVMError, UnschedulableError, MustBeAloneError) as error:
            if attempt is _as_own_nest:
                raise
            logger.debug("product and what follows it in one nest: %s", error)
    return None


def _isolate(func: Any, info: BlockInfo, values: KnobValues, row_block: int) -> _Isolated:
    """Accumulate the product in registers, written out by a stage of its own; widen both to tiles.

    A stage that finishes the product element by element becomes part of the writing stage,
    whatever its own layout, when TVM finds the inverse of its index map.
    """
    sch = _schedule_of(func)
    info = info_of(sch, info)
    dot = info.anchor
    if dot is None:
        raise UnschedulableError("the dot product is gone")
    plan = _plan(dot, info.cpu, values)
    write = sch.cache_write(sch.get_block(dot.name), 0, "local")
    name = sch.get(write).name_hint
    readers = info.consumers[dot.name]
    if len(readers) == 1 and not info.stages[readers[0]].is_reduction:
        with contextlib.suppress(tvm.TVMError):
            sch.reverse_compute_inline(sch.get_block(readers[0]))
    current = info_of(sch, info)
    mode = OVERLAP if name in current.outputs else PAD
    right_is_panel = is_contiguous_along(plan.axes.right, dot.iters[plan.axes.n[0]].var)
    has_tail = plan.n % plan.width != 0
    needs_pack = not right_is_panel or (has_tail and mode == PAD)
    func = widen_axis(sch.mod["main"], dot.name, name, plan.axes.n[0], plan.width, mode)
    plan = replace(plan, n=-(-plan.n // plan.width) * plan.width)
    if plan.axes.m and (mode == OVERLAP or row_block in (0, plan.m)):
        func = widen_axis(func, dot.name, name, plan.axes.m[0], plan.rows, mode)
        plan = replace(plan, m=-(-plan.m // plan.rows) * plan.rows)
    sch = _schedule_of(func)
    return _Isolated(sch, info_of(sch, info), dot.name, name, plan, needs_pack)


def _schedule_of(func: Any) -> Any:
    return tir.Schedule(tvm.IRModule({"main": func}), debug_mask="none", error_render_level="none")


def _as_one_nest(func: Any, info: BlockInfo, values: KnobValues) -> Any:
    """Compute everything that follows the product in the product's own parallel loop."""
    before = info_before(func, info)
    block = _isolate(func, info, values, values[ROW_BLOCK_KNOB])
    current = block.info
    after = current.downstream(block.write)
    late: Late = []
    if after:
        _rows_at_root(block, values, late)
    else:
        _tile_at_root(block, late)
    rest = _left_over(block) - after
    if (rest - before) & {stage for each in after for stage in current.producers[each]}:
        raise UnschedulableError("what follows the product reads another stage")
    _schedule_others(block, rest, late)
    finish(late)
    return block.sch.mod["main"]


def info_before(func: Any, info: BlockInfo) -> set[str]:
    """Return the stages that compute the product's operands."""
    current = info_of(_schedule_of(func), info)
    return current.upstream(current.anchor.name) if current.anchor is not None else set()


def _as_own_nest(func: Any, info: BlockInfo, values: KnobValues) -> Any:
    """Give the product a parallel loop of its own, and what follows it others."""
    block = _isolate(func, info, values, 0)
    late: Late = []
    _tile_at_root(block, late)
    _schedule_others(block, _left_over(block), late)
    finish(late)
    return block.sch.mod["main"]


def _left_over(block: _Isolated) -> set[str]:
    """Return the stages around the product that are still in loops of their own."""
    present = {each.name_hint for each in collect_blocks(block.sch.mod["main"])}
    return (set(block.info.stages) & present) - {block.write, block.reduce}


def _schedule_others(block: _Isolated, names: set[str], late: Late) -> None:
    if names:
        current = info_of(block.sch, block.info)
        each_alone = set(names)
        schedule_rows(block.sch, current, late, each_alone, names)


def _tile_at_root(block: _Isolated, late: Late) -> None:
    """Tile the writing block over its whole matrix and spread the tiles over the cores."""
    sch, plan = block.sch, block.plan
    write, accumulate = sch.get_block(block.write), sch.get_block(block.reduce)
    batch, m, n = _roles(sch, write, plan)
    packed = _pack_right(block) if block.needs_pack else None
    in_batch = packed is not None and plan.batch >= plan.cores
    outer_n, inner_n = sch.split(n, [None, plan.width])
    outer_m, inner_m = sch.split(m, [None, plan.rows])
    chunk, outer_m = sch.split(outer_m, [1 if in_batch else _chunks(plan), None])
    sch.reorder(*batch, chunk, outer_n, outer_m, inner_m, inner_n)
    _micro_kernel(sch, accumulate, write, outer_m, inner_m, inner_n, plan, late)
    if packed is not None:
        _schedule_pack(sch, packed, batch if in_batch else [], plan)
    around = [*batch] if in_batch else [*batch, chunk, outer_n]
    if plan.is_parallel:
        sch.parallel(sch.fuse(*around) if len(around) > 1 else around[0])


def _roles(sch: Any, block: Any, plan: _Plan) -> tuple[list[Any], Any, Any]:
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


def _chunks(plan: _Plan) -> int:
    """Return into how many parts the rows are cut so that every core has work."""
    tiles = -(-plan.m // plan.rows)
    panels = -(-plan.n // plan.width)
    best, best_balance = 1, 0.0
    for chunks in range(1, tiles + 1):
        if tiles % chunks:
            continue
        units = plan.batch * chunks * panels
        balance = units / (-(-units // plan.cores) * plan.cores)
        if balance > best_balance:
            best, best_balance = chunks, balance
        if best_balance >= MIN_BALANCE:
            break
    return best


def _micro_kernel(
    sch: Any,
    accumulate: Any,
    write: Any,
    tile_loop: Any,
    inner_m: Any,
    inner_n: Any,
    plan: _Plan,
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
        _, rows, columns = _roles(sch, tile, plan)
        column_vector, column_lane = sch.split(columns, [plan.vectors, plan.lanes])
        sch.vectorize(column_lane)
        sch.unroll(rows)
        sch.unroll(column_vector)
    else:
        sch.unroll(inner_m)
        sch.unroll(vector)
    sch.compute_at(accumulate, tile_loop, preserve_unit_loops=True)
    batch, m, n = _roles(sch, accumulate, plan)
    _, reduced = own_loops(sch, accumulate)
    n_vector, n_lane = sch.split(n, [plan.vectors, plan.lanes])
    sch.reorder(*batch, *reduced, m, n_vector, n_lane)
    sch.vectorize(n_lane)
    sch.unroll(m)
    sch.unroll(n_vector)
    late.append(lambda: _initialise(sch, accumulate, reduced[0]))


def _initialise(sch: Any, accumulate: Any, loop: Any) -> None:
    init = sch.decompose_reduction(accumulate, loop)
    row, vector, lane = sch.get_loops(init)[-3:]
    sch.vectorize(lane)
    sch.unroll(vector)
    sch.unroll(row)


def _pack_right(block: _Isolated) -> Any:
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


def _schedule_pack(sch: Any, packed: Any, batch: list[Any], plan: _Plan) -> None:
    if batch:
        sch.compute_at(packed, batch[-1], preserve_unit_loops=True)
        return
    loops = sch.get_loops(packed)
    if plan.is_parallel and len(loops) > 1:
        sch.parallel(sch.fuse(*loops[:-1]))


def _rows_at_root(block: _Isolated, values: KnobValues, late: Late) -> None:
    """Compute a block of rows of the product, then all that follows on these rows."""
    sch, plan, info = block.sch, block.plan, block.info
    leader = _leader(info, block.write)
    batch, m, n = _leader_loops(block, leader)
    accumulate, write = sch.get_block(block.reduce), sch.get_block(block.write)
    packed = _pack_right(block) if block.needs_pack else None
    outer, inner = sch.split(m, [None, min(values[ROW_BLOCK_KNOB], extent(sch, m))])
    sch.reorder(*batch, outer, inner, n)
    members = _members_of(info, leader, block.write)
    blocks = plan.batch * extent(sch, outer)
    for name in members:
        sch.compute_at(sch.get_block(name), outer, preserve_unit_loops=True)
        refuse_recomputation(sch, info.stages[name], sch.get_block(name), blocks)
    _attach_outputs(sch, info, leader, outer, plan)
    _, write_m, write_n = _roles(sch, write, plan)
    outer_n, inner_n = sch.split(write_n, [None, plan.width])
    outer_m, inner_m = sch.split(write_m, [None, plan.rows])
    sch.reorder(outer_n, outer_m, inner_m, inner_n)
    _micro_kernel(sch, accumulate, write, outer_m, inner_m, inner_n, plan, late)
    in_batch = packed is not None and plan.batch >= plan.cores
    if packed is not None:
        _schedule_pack(sch, packed, batch if in_batch else [], plan)
    for name in members:
        if name != block.write:
            schedule_member(sch, sch.get_block(name), info.cpu, late)
    vectorise_loop(sch, n, info.cpu.lanes)
    around = [*batch] if in_batch else [*batch, outer]
    if plan.is_parallel:
        sch.parallel(sch.fuse(*around) if len(around) > 1 else around[0])


def _leader_loops(block: _Isolated, leader: str) -> tuple[list[Any], Any, Any]:
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


def _attach_outputs(sch: Any, info: BlockInfo, leader: str, loop: Any, plan: _Plan) -> None:
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


DOT = Template("dot", _why_not, _knobs, _apply)
