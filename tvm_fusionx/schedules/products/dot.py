"""Dot products (dense, batch_matmul) with everything fused around them.

The product is accumulated in a register tile of rows x vectors. What follows it element by
element is applied to the tile; what reduces its rows (softmax, norms) runs on a block of rows while
they are in the cache, or in a loop of its own where each core had to read all weights for its rows.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.parts.fetch_ahead import fetch_ahead
from tvm_fusionx.schedules.parts.nest import Late, finish, info_of
from tvm_fusionx.schedules.parts.overlap_last_vector import move_last_vectors
from tvm_fusionx.schedules.parts.peel_tests import guard_whole_tiles
from tvm_fusionx.schedules.parts.register_tile import max_rows
from tvm_fusionx.schedules.products.half_chains import chains_as_halves, with_chains
from tvm_fusionx.schedules.products.plan import (
    COLUMNS_APART,
    MAX_VECTORS,
    PARTS_KNOB,
    ROW_BLOCK_KNOB,
    TILE_ROWS_KNOB,
    TILE_STEPS_KNOB,
    TILE_VECTORS_KNOB,
    plan_dot,
    row_block_of,
    rows_together,
)
from tvm_fusionx.schedules.products.rows_after import rows_at_root
from tvm_fusionx.schedules.products.tiles import IsolatedDot, isolate, tile_at_root
from tvm_fusionx.schedules.rows.lane_reductions import split_lane_reductions
from tvm_fusionx.schedules.rows.template import MustBeAloneError, schedule_rows
from tvm_fusionx.schedules.template import (
    Knob,
    Knobs,
    KnobValues,
    Match,
    Template,
    UnschedulableError,
)
from tvm_fusionx.tir.block import BlockInfo, Stage, collect_blocks
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.half_terms import NOT_IN_HALVES
from tvm_fusionx.tir.index_maps import dot_axes, is_contiguous_along
from tvm_fusionx.tir.inline import inline_spatial
from tvm_fusionx.tir.lent_outputs import lend_outputs, return_outputs

logger = logging.getLogger(__name__)

# Of a sum's terms that follow one another without a jump; what does not divide the sum is halved.
STEPS = (1, 2, 4)


@dataclass(frozen=True)
class MatrixProduct(Match):
    """A block around one matrix product."""

    stage: Stage
    """The product."""
    sums_in_halves: bool = False
    """Whether chains of its terms are summed up in halves."""

    def knobs(self) -> Knobs:
        """Return the register tile, the parts of the sums, and the rows finished together."""
        cpu = self.info.cpu
        plan = with_chains(plan_dot(self.stage, cpu), self.info)
        most = max(plan.rows, max_rows(plan.vectors, cpu, can_lay_rows=plan.lays_rows))
        vectors = (plan.vectors,) if plan.packed_width else tuple(range(1, MAX_VECTORS + 1))
        block = row_block_of(plan, cpu)
        blocks = {
            block,
            COLUMNS_APART,
            rows_together(plan, cpu),
            *(plan.rows * factor for factor in (1, 2, 4, 8) if plan.rows * factor <= plan.m),
        }
        return {
            TILE_ROWS_KNOB: Knob(plan.rows, tuple(range(1, most + 1))),
            TILE_VECTORS_KNOB: Knob(plan.vectors, vectors),
            TILE_STEPS_KNOB: Knob(plan.steps, tuple(sorted({*STEPS, plan.steps}))),
            PARTS_KNOB: Knob(plan.parts, plan.part_choices),
            ROW_BLOCK_KNOB: Knob(block, tuple(sorted(blocks))),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        sch = fresh_schedule(self.info.func)
        info = inline_spatial(sch, self.info)
        dot = info.anchor
        if dot is None:
            raise UnschedulableError("the dot product is gone")
        func = lend_outputs(sch.mod["main"], info)
        func = split_lane_reductions(func, info.cpu.lanes, keep=frozenset([dot.name]))
        for attempt in (_as_one_nest, _as_own_nest):
            try:
                tiled = attempt(func, info, values)
                if self.sums_in_halves:
                    tiled = chains_as_halves(tiled, dot.name)
                tiled = move_last_vectors(fetch_ahead(tiled))
                return return_outputs(guard_whole_tiles(tiled))
            except (tvm.TVMError, UnschedulableError, MustBeAloneError) as error:
                if attempt is _as_own_nest:
                    raise
                logger.debug("product and what follows it in one nest: %s", error)
        return None


def _match(info: BlockInfo) -> MatrixProduct | str:
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
    if stage.writes[0].dtype not in ("float32", "float64", "float16") and not stage.sums_integers:
        return "it is neither a floating-point product nor one of packed integers"
    spatial = [it.var for it in stage.iters if not it.is_reduction]
    indices = list(stage.block.body.indices)
    if len(indices) != len(spatial) or not all(
        isinstance(index, tir.Var) and index.same_as(var)
        for index, var in zip(indices, spatial, strict=True)
    ):
        return "its dot product does not write by its own axes"
    if not axes.m and not is_contiguous_along(axes.right, stage.iters[axes.n[0]].var):
        return "a matrix-vector product along its rows is a row reduction"
    return MatrixProduct(info, stage)


def _as_one_nest(func: Any, info: BlockInfo, values: KnobValues) -> Any:
    """Compute everything that follows the product in the product's own parallel loop."""
    before = info_before(func, info)
    block = isolate(func, info, values, values[ROW_BLOCK_KNOB])
    current = block.info
    after = current.downstream(block.write)
    late: Late = []
    if after and (values[ROW_BLOCK_KNOB] == COLUMNS_APART or block.plan.parts > 1):
        return _as_own_nest(func, info, values)
    if after:
        _refuse_partial_tiles(info, values)
        rows_at_root(block, values, late)
    else:
        tile_at_root(block, late)
    rest = _left_over(block) - after
    if (rest - before) & {stage for each in after for stage in current.producers[each]}:
        raise UnschedulableError("what follows the product reads another stage")
    _schedule_others(block, rest, late, alone=set(rest))
    finish(late)
    return block.sch.mod["main"]


def _refuse_partial_tiles(info: BlockInfo, values: KnobValues) -> None:
    """Refuse blocks of rows that end inside a tile: TVM takes minutes to peel those apart."""
    assert info.anchor is not None
    rows, block = values[TILE_ROWS_KNOB], values[ROW_BLOCK_KNOB]
    if block % rows and block < plan_dot(info.anchor, info.cpu, values).m:
        raise UnschedulableError(f"a block of {block} rows is no whole number of tiles of {rows}")


def info_before(func: Any, info: BlockInfo) -> set[str]:
    """Return the stages that compute the product's operands."""
    current = info_of(fresh_schedule(func), info)
    return current.upstream(current.anchor.name) if current.anchor is not None else set()


def _as_own_nest(func: Any, info: BlockInfo, values: KnobValues) -> Any:
    """Give the product a parallel loop of its own, and what follows it others, row by row."""
    alone: set[str] = set()
    for _ in range(len(info.stages) + 1):
        block = isolate(func, info, values, COLUMNS_APART)
        late: Late = []
        tile_at_root(block, late)
        try:
            _schedule_others(block, _left_over(block), late, alone)
        except MustBeAloneError as problem:
            alone.add(problem.stage)
            continue
        finish(late)
        return block.sch.mod["main"]
    raise UnschedulableError("no set of row nests fits")


def _left_over(block: IsolatedDot) -> set[str]:
    """Return the stages around the product that are still in loops of their own."""
    present = {each.name_hint for each in collect_blocks(block.sch.mod["main"])}
    return (set(block.info.stages) & present) - {block.write, block.reduce}


def _schedule_others(block: IsolatedDot, names: set[str], late: Late, alone: set[str]) -> None:
    if names:
        schedule_rows(block.sch, info_of(block.sch, block.info), late, alone, names)


def _match_in_halves(info: BlockInfo) -> MatrixProduct | str:
    found = _match(info)
    if isinstance(found, str):
        return found
    plan = with_chains(plan_dot(found.stage, info.cpu), info)
    if plan.chain < info.cpu.lanes:
        return NOT_IN_HALVES
    if plan.lanes < info.cpu.lanes or plan.packed_width != plan.width:
        return "its weights lie in no panels of vectors of halves"
    return replace(found, sums_in_halves=True)


DOT = Template("dot", _match)
DOT_IN_HALVES = Template(DOT.name, _match_in_halves)
