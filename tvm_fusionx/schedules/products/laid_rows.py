"""The rows of a dot product laid side by side, term after term, before it begins.

    left [M, K]  ->  [M / rows][K][rows]

A tile then loads what all its rows multiply by with a few vectors, and takes their lanes: no
register is needed for each row, and the loads need no base for each row.
"""

from __future__ import annotations

from typing import Any

from tvm_fusionx.schedules.parts.nest import extent
from tvm_fusionx.schedules.parts.turn_squares import turn_square
from tvm_fusionx.schedules.products.plan import DotPlan
from tvm_fusionx.schedules.template import UnschedulableError
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.index_maps import coefficients, dot_axes, variables_of


def lay_rows(sch: Any, info: BlockInfo, reduce: str, plan: DotPlan) -> bool:
    """Copy the left operand of stage `reduce` to where tiles read it, in a loop of its own.

    Returns
    -------
    bool
        Whether it was: a last tile of fewer rows, or a plan without, leaves it where it is.

    Raises
    ------
    UnschedulableError
        The operands are not plain tensors.
    """
    if not plan.lays_rows or plan.m % plan.rows:
        return False
    if info.stages[reduce].sums_matrices:
        return lay_groups(sch, info, reduce, plan)
    accumulate = sch.get_block(reduce)
    axes = dot_axes(info.stages[reduce])
    if axes is None:
        raise UnschedulableError("the operands of the dot product are not plain tensors")
    data = axes.left.buffer.data
    position = [region.buffer.data for region in sch.get(accumulate).reads].index(data)
    laid = sch.reindex(accumulate, ("read", position))
    rows = plan.rows

    def side_by_side(*indices: Any) -> list[Any]:
        *outer, row, term = indices
        return [*outer, row // rows, term, row % rows]

    sch.transform_layout(accumulate, ("read", position), side_by_side)
    *batch, row, term = sch.get_loops(laid)
    tile, inside = sch.split(row, [None, rows])
    vector, lane = sch.split(inside, [None, plan.lanes])
    terms, each = sch.split(term, [None, plan.lanes if plan.k % plan.lanes == 0 else 1])
    sch.reorder(*batch, tile, terms, vector, each, lane)
    if plan.k % plan.lanes or not turn_square(sch, each, plan.lanes):
        sch.vectorize(lane)
    sch.unroll(vector)
    if plan.is_parallel and extent(sch, tile) > 1:
        sch.parallel(sch.fuse(*batch, tile) if batch else tile)
    return True


def lay_groups(sch: Any, info: BlockInfo, reduce: str, plan: DotPlan) -> bool:
    """Copy the left operand so that the groups that instructions multiply lie row beside row.

    ::

        left [M, K]  ->  [M / rows][K / depth][rows][depth]

    Returns
    -------
    bool
        Whether it was: an operand whose rows are no axis of its own stays where it is.
    """
    stage = info.stages[reduce]
    axes = dot_axes(stage)
    if axes is None or len(axes.m) != 1 or len(axes.k) != 1:
        return False
    load, row, group = axes.left, stage.iters[axes.m[0]].var, stage.iters[axes.k[0]].var
    *outer, at, place = load.indices
    if not at.same_as(row) or any(variables_of(each) for each in outer):
        return False
    depth = stage.depth
    if coefficients(place, group) != (depth, 0):
        return False
    accumulate, rows, data = sch.get_block(reduce), plan.rows, load.buffer.data
    position = [region.buffer.data for region in sch.get(accumulate).reads].index(data)
    laid = sch.cache_read(accumulate, position, "global")

    def in_groups(*indices: Any) -> list[Any]:
        *outer, at, place = indices
        return [*outer, at // rows, place // depth, at % rows, place % depth]

    sch.transform_layout(accumulate, ("read", position), in_groups)
    *batch, row, term = sch.get_loops(laid)
    tile, inside = sch.split(row, [None, rows])
    group, each = sch.split(term, [None, depth])
    sch.reorder(*batch, tile, group, inside, each)
    sch.vectorize(each)
    sch.unroll(inside)
    if plan.is_parallel and extent(sch, tile) > 1:
        sch.parallel(sch.fuse(*batch, tile) if batch else tile)
    return True
