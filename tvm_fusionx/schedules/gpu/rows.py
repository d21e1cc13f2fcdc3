"""Softmax, norms, means: every row of a block's reductions computed by one work-group.

The items of a group share a row: each sums its part, the parts are summed through local memory, and
what the row's other stages read again stays there. Rows of a few elements are computed by one item
each, in registers.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.threads import DEFAULT_ITEMS, GROUPS, ITEMS, bind_shares
from tvm_fusionx.schedules.parts.nest import extent, own_loops
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
from tvm_fusionx.tir.index_maps import index_path, reads_of, variables_of
from tvm_fusionx.tir.inline import inline_spatial

logger = logging.getLogger(__name__)

ROW_ITEMS = "row_items"
ROW_ITEM_CHOICES = (1, 8, 16, 32, 64, 128, 256)

# Elements that each item of a group takes at least: the sum over the items costs a barrier for each
# doubling of them.
ELEMENTS_EACH = 2

# A shorter sum is one item's: a group would mostly wait.
SHORTEST_ROW_OF_A_GROUP = 32

# A row that one item computes is kept in its registers.
LONGEST_ROW_OF_AN_ITEM = 16


class RowsByGroup(Match):
    """A block of reductions over the rows of its result."""

    def knobs(self) -> Knobs:
        """Return the work-items that share a row."""
        info, gpu = self.info, self.info.gpu
        choices = tuple(items for items in ROW_ITEM_CHOICES if items <= gpu.items)
        length = _row_length(info)
        if length <= LONGEST_ROW_OF_AN_ITEM and _rows(info) >= DEFAULT_ITEMS:
            return {ROW_ITEMS: Knob(1, choices if not _is_wide(info, gpu) else (1,))}
        wanted = min(DEFAULT_ITEMS, length // ELEMENTS_EACH)
        fitting = [items for items in choices if 1 < items <= wanted] or [choices[0]]
        return {ROW_ITEMS: Knob(fitting[-1], choices)}

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        try:
            return _scheduled(self.info, values, recompute=False)
        except _TooLongError as error:
            # What the row's stages read again is computed again instead of kept.
            logger.debug("%s", error)
            return _scheduled(self.info, values, recompute=True)


def _match(info: BlockInfo) -> RowsByGroup | str:
    if not info.reductions:
        return "it has no reduction"
    if info.dots:
        return "it has a dot product"
    if len(info.outputs) != 1:
        return "it has several results"
    if any(len(stage.writes) != 1 for stage in info.reductions):
        return "TVM sums no pairs (argmax) over a group"
    reason = _why_one_item(info) if len(info.reductions) == 1 else None
    return RowsByGroup(info) if reason is None else reason


def _why_one_item(info: BlockInfo) -> str | None:
    """Return why each result of a block's one reduction is better summed by an item of its own."""
    stage = info.reductions[0]
    if math.prod(stage.reduced) < SHORTEST_ROW_OF_A_GROUP:
        return "its one reduction is over few elements"
    results = math.prod(stage.spatial)
    if results >= info.gpu.busy_items:
        return "its one reduction has enough results for an item each"
    if results >= DEFAULT_ITEMS and not _sums_neighbours(stage):
        return "neighbouring results, not elements of a row, are neighbours in memory"
    return None


def _sums_neighbours(stage: Stage) -> bool:
    """Tell whether a reduction runs along the last axis of what it reads."""
    summed = {it.var for it in stage.iters if it.is_reduction and it.extent > 1}
    return any(
        summed & variables_of(load.indices[-1])
        for buffer in stage.reads
        for load in reads_of(stage, buffer.data)
        if load.indices
    )


def _row_length(info: BlockInfo) -> int:
    return max(math.prod(stage.reduced) for stage in info.reductions)


def _rows(info: BlockInfo) -> int:
    return min(math.prod(stage.spatial) for stage in info.reductions)


def _is_wide(info: BlockInfo, gpu: Gpu) -> bool:
    return _row_length(info) * 4 > gpu.local_bytes


@dataclass(frozen=True)
class _Nest:
    """The last stage of a block, and what is computed row by row before it."""

    leader: str
    members: tuple[str, ...]
    rows: tuple[int, ...]
    """Positions of the leader's axes that tell one row from another."""


class _TooLongError(UnschedulableError):
    """A row does not fit local memory."""


def _scheduled(info: BlockInfo, values: KnobValues, *, recompute: bool) -> Any:
    sch = fresh_schedule(info.func)
    info = inline_spatial(sch, info, keep_operands=False, recompute=recompute)
    nest = _nest_of(info)
    if values[ROW_ITEMS] == 1:
        _row_by_item(sch, info, nest)
    else:
        _row_by_group(sch, info, nest, values[ROW_ITEMS])
    return sch.mod["main"]


def _nest_of(info: BlockInfo) -> _Nest:
    leader = info.outputs[0]
    members = tuple(name for name in reversed(info.stages) if name != leader)
    if any(name in info.outputs for name in members):
        raise UnschedulableError("it has several results")
    stage = info.stages[leader]
    spatial = [it for it in stage.iters if not it.is_reduction]
    shared = {it.var for it in spatial}
    for name in members:
        if not info.stages[name].is_reduction:
            continue
        path = index_path(info, leader, name)
        if path is None:
            raise UnschedulableError(f"{name} is read in more than one place")
        if not all(isinstance(index, (tir.Var, tir.IntImm)) for index in path):
            raise UnschedulableError(f"{name} is not read along the axes of the result")
        shared &= {var for index in path for var in variables_of(index)}
    rows = tuple(place for place, it in enumerate(stage.iters) if it.var in shared)
    return _Nest(leader, members, rows)


def _split(sch: Any, stage: Stage, block: Any, nest: _Nest) -> tuple[list[Any], list[Any]]:
    """Return the leader's loops, in order: those of rows, and those inside of one."""
    loops = sch.get_loops(block)
    if not loops:
        raise UnschedulableError("its result has no axes")
    rows = [loops[place] for place in nest.rows]
    inside = [loop for place, loop in enumerate(loops) if place not in nest.rows]
    if not rows:
        rows = [sch.add_unit_loop(loops[0])]
    sch.reorder(*rows, *inside)
    return rows, inside


def _row_by_item(sch: Any, info: BlockInfo, nest: _Nest) -> None:
    block = sch.get_block(nest.leader)
    rows, inside = _split(sch, info.stages[nest.leader], block, nest)
    item = bind_shares(sch, rows, min(DEFAULT_ITEMS, info.gpu.items))
    late = []
    for name in nest.members:
        member = sch.get_block(name)
        for place in range(len(info.stages[name].writes)):
            sch.set_scope(member, place, "local")
        sch.compute_at(member, item, preserve_unit_loops=True)
        _, reduced = own_loops(sch, member)
        if reduced:
            late.append((member, reduced[0]))
    reduced = inside[len(info.stages[nest.leader].spatial) - len(nest.rows) :]
    if info.stages[nest.leader].is_reduction and reduced:
        late.append((block, reduced[0]))
    for member, loop in late:
        sch.decompose_reduction(member, loop)


def _row_by_group(sch: Any, info: BlockInfo, nest: _Nest, items: int) -> None:
    stage = info.stages[nest.leader]
    block = sch.get_block(nest.leader)
    rows, inside = _split(sch, stage, block, nest)
    row = sch.fuse(*rows) if len(rows) > 1 else rows[0]
    sch.bind(row, GROUPS[0])
    kept = 0
    for name in nest.members:
        member = sch.get_block(name)
        for place in range(len(info.stages[name].writes)):
            sch.set_scope(member, place, "shared")
        sch.compute_at(member, row, preserve_unit_loops=True)
        spatial, reduced = own_loops(sch, member)
        kept += sum(_bytes(sch, spatial, buffer) for buffer in info.stages[name].writes)
        if kept > info.gpu.local_bytes:
            raise _TooLongError(f"a row takes {kept} bytes of local memory")
        _share(sch, reduced or spatial, items)
    _share(sch, inside, items)


def _bytes(sch: Any, loops: list[Any], buffer: Any) -> int:
    return math.prod(extent(sch, loop) for loop in loops) * tvm.DataType(buffer.dtype).bits // 8


def _share(sch: Any, loops: list[Any], items: int) -> None:
    """Give the points of `loops` to the items of a group in turn."""
    if not loops:
        return
    fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    _, item = sch.split(fused, [None, items])
    sch.bind(item, ITEMS[0])


GPU_ROWS = Template("gpu_rows", _match)
