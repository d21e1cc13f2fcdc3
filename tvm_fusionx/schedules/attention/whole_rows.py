"""Attention in one kernel: scores, what reduces their rows, and the product with the values.

For each head and each block of query rows, the scores of the rows go to a buffer that stays in the
cache; the softmax runs on them there; and the rows then multiply the values. Both products are
accumulated in register tiles. No score is ever written to memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tvm import tir

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.nest import Late, finish, info_of
from tvm_fusionx.schedules.parts.overlap_last_vector import move_last_vectors
from tvm_fusionx.schedules.parts.overlap_or_pad import OVERLAP, PAD, widen_axis
from tvm_fusionx.schedules.parts.register_tile import MAX_ROWS, max_rows
from tvm_fusionx.schedules.products.plan import FLOAT_BYTES, ROW_BLOCK_KNOB, DotPlan, plan_dot
from tvm_fusionx.schedules.products.tiles import (
    IsolatedDot,
    micro_kernel,
    pack_right,
    roles,
    schedule_pack,
)
from tvm_fusionx.schedules.rows.lane_reductions import split_lane_reductions
from tvm_fusionx.schedules.rows.template import refuse_recomputation, schedule_member, schedule_rows
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Template, UnschedulableError
from tvm_fusionx.tir.block import BlockInfo, Stage, collect_blocks
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.index_maps import dot_axes, is_contiguous_along
from tvm_fusionx.tir.inline import inline_spatial
from tvm_fusionx.tir.inline_into_producer import inline_into_producer

# Share of the first-level cache that the scores of a block of rows may take; three copies of them
# (scores, exponentials, weights) live at once. Of 8 to 128 rows, so many measured fastest at 128 to
# 2048 columns on Zen 4.
SCORES_SHARE = 4


def _why_not(info: BlockInfo) -> str | None:
    if len(info.dots) != PRODUCTS:
        return "it has not two dot products"
    scores, values = info.dots
    if values.name not in info.downstream(scores.name):
        return "its dot products do not follow each other"
    for stage in (scores, values):
        axes = dot_axes(stage)
        if axes is None:
            return "the operands of its dot products are not plain tensors"
        if not len(axes.m) == len(axes.n) == len(axes.k) == 1:
            return "its dot products are not matrix products"
        if stage.writes[0].dtype != "float32":
            return "it is not a product of float32"
    rows = _rows_of(scores)
    if _rows_of(values) != rows or tile_height(rows, info.cpu) is None:
        return f"its {rows} rows are no whole number of tiles"
    if len(info.outputs) != 1:
        return "it has several results"
    return None


PRODUCTS = 2
WRITE_SUFFIX = "_write"


def _rows_of(stage: Stage) -> int:
    axes = dot_axes(stage)
    assert axes is not None
    return stage.iters[axes.m[0]].extent


# Fewer rows than this in a tile use each loaded key and value too seldom.
LEAST_ROWS = 4


def tile_heights(cpu: Cpu) -> tuple[int, ...]:
    """Return the rows of the register tiles that serve, the tallest first."""
    return tuple(range(min(MAX_ROWS, max_rows(PRODUCTS, cpu)), LEAST_ROWS - 1, -1))


def tile_height(rows: int, cpu: Cpu) -> int | None:
    """Return the rows of a register tile that divides `rows`, or None when no good one does."""
    return next((height for height in tile_heights(cpu) if rows % height == 0), None)


def most_columns(cpu: Cpu) -> int:
    """Return how long a row of scores may be: those of one tile fill half of the second cache."""
    return cpu.l2_bytes // 2 // (tile_heights(cpu)[0] * FLOAT_BYTES)


def row_block(rows: int, columns: int, height: int, cpu: Cpu) -> int:
    """Return the rows whose scores are held at once: as many tiles as fit, dividing `rows`."""
    most = max(height, cpu.l1_bytes // SCORES_SHARE // (columns * FLOAT_BYTES))
    fitting = [size for size in range(height, rows + 1, height) if rows % size == 0]
    return max(size for size in fitting if size <= max(height, most))


def _knobs(info: BlockInfo, cpu: Cpu) -> Knobs:
    rows = _rows_of(info.dots[0])
    height = tile_height(rows, cpu)
    assert height is not None
    columns = plan_dot(info.dots[0], cpu).n
    choices = tuple(size for size in range(height, rows + 1, height) if rows % size == 0)
    return {ROW_BLOCK_KNOB: Knob(row_block(rows, columns, height, cpu), choices)}


@dataclass(frozen=True)
class _Product:
    """One of the two products: its stages and its tile."""

    reduce: str
    write: str
    plan: DotPlan


def _apply(sch: Any, info: BlockInfo, values: KnobValues) -> Any:
    info = inline_spatial(sch, info)
    names = [stage.name for stage in info.dots]
    if len(names) != PRODUCTS:
        raise UnschedulableError("a dot product is gone")
    func = split_lane_reductions(sch.mod["main"], info.cpu.lanes, keep=frozenset(names))
    func, info, scores, result = _isolate(func, info, names)
    sch = fresh_schedule(func)
    info = info_of(sch, info)
    late: Late = []
    write = sch.get_block(result.write)
    batch, m, n = roles(sch, write, result.plan)
    packed = [(each, _pack(sch, info, each)) for each in (scores, result)]
    outer, inner = sch.split(m, [None, values[ROW_BLOCK_KNOB]])
    outer_m, inner_m = sch.split(inner, [None, result.plan.rows])
    outer_n, inner_n = sch.split(n, [None, result.plan.width])
    sch.reorder(*batch, outer, outer_n, outer_m, inner_m, inner_n)
    micro_kernel(
        sch, sch.get_block(result.reduce), write, outer_m, inner_m, inner_n, result.plan, late
    )
    between = info.upstream(result.reduce) & (info.downstream(scores.write) | {scores.write})
    blocks = scores.plan.batch * (scores.plan.m // values[ROW_BLOCK_KNOB])
    for name in reversed([each for each in info.stages if each in between]):
        sch.compute_at(sch.get_block(name), outer, preserve_unit_loops=True)
        refuse_recomputation(sch, info.stages[name], sch.get_block(name), blocks)
        if name != scores.write:
            schedule_member(sch, sch.get_block(name), info.cpu, late)
    _, score_m, score_n = roles(sch, sch.get_block(scores.write), scores.plan)
    outer_n, inner_n = sch.split(score_n, [None, scores.plan.width])
    outer_m, inner_m = sch.split(score_m, [None, scores.plan.rows])
    sch.reorder(outer_n, outer_m, inner_m, inner_n)
    micro_kernel(
        sch,
        sch.get_block(scores.reduce),
        sch.get_block(scores.write),
        outer_m,
        inner_m,
        inner_n,
        scores.plan,
        late,
    )
    in_batch = scores.plan.batch >= scores.plan.cores
    for product, panels in packed:
        if panels is not None:
            schedule_pack(sch, panels, batch if in_batch else [], product.plan)
    around = [*batch] if in_batch else [*batch, outer]
    if scores.plan.is_parallel:
        sch.parallel(sch.fuse(*around) if len(around) > 1 else around[0])
    _schedule_rest(sch, info, {*between, scores.reduce, result.reduce, result.write}, late)
    finish(late)
    return move_last_vectors(sch.mod["main"])


def _schedule_rest(sch: Any, info: BlockInfo, done: set[str], late: Late) -> None:
    """Give every stage that is left, as a mask that is computed, a nest of its own."""
    present = {block.name_hint for block in collect_blocks(sch.mod["main"])}
    rest = (set(info.stages) & present) - done
    if rest:
        schedule_rows(sch, info_of(sch, info), late, set(rest), rest)


def _isolate(
    func: Any, info: BlockInfo, names: list[str]
) -> tuple[Any, BlockInfo, _Product, _Product]:
    """Accumulate both products in registers, each written out by a stage of its own."""
    products = []
    for name in names:
        sch = fresh_schedule(func)
        info = info_of(sch, info)
        stage = info.stages[name]
        plan = plan_dot(stage, info.cpu)
        height = tile_height(plan.m, info.cpu)
        if height is None:
            raise UnschedulableError("its rows are no whole number of tiles")
        plan = replace(plan, rows=height)
        write = sch.get(sch.cache_write(sch.get_block(name), 0, "local")).name_hint
        readers = info.consumers[name]
        if len(readers) == 1 and not info.stages[readers[0]].is_reduction:
            inline_into_producer(sch, readers[0])
        mode = OVERLAP if write in info_of(sch, info).outputs else PAD
        func = widen_axis(sch.mod["main"], name, write, plan.axes.n[0], plan.width, mode)
        func = _renamed(func, write, name + WRITE_SUFFIX)
        plan = replace(plan, n=-(-plan.n // plan.width) * plan.width)
        products.append(_Product(name, name + WRITE_SUFFIX, plan))
    if mode != OVERLAP:
        raise UnschedulableError("what follows the values is not part of their product")
    return func, info, products[0], products[1]


def _renamed(func: Any, old: str, new: str) -> Any:
    """Give a block a name of its own: TVM names the copies of like buffers alike."""

    def rename(block: Any) -> Any:
        if block.name_hint != old:
            return None
        return tir.Block(
            block.iter_vars,
            block.reads,
            block.writes,
            new,
            block.body,
            block.init,
            block.alloc_buffers,
            block.match_buffers,
            block.annotations,
        )

    return func.with_body(tir.stmt_functor.ir_transform(func.body, None, rename, ["tir.Block"]))


def _pack(sch: Any, info: BlockInfo, product: _Product) -> Any | None:
    """Copy the right operand into panels where its columns are not neighbours."""
    axes = product.plan.axes
    column = info.stages[product.reduce].iters[axes.n[0]].var
    if is_contiguous_along(axes.right, column):
        return None
    return pack_right(
        IsolatedDot(sch, info, product.reduce, product.write, product.plan, needs_pack=True)
    )


ATTENTION = Template("attention", _why_not, _knobs, _apply)
