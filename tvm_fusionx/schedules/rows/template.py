"""Row-wise blocks: every stage of a softmax or a norm computed row by row in one parallel loop."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.nest import (
    MIN_FILLED_SHARE,
    NARROWEST_VECTOR,
    Late,
    extent,
    finish,
    info_of,
    is_reducing,
    iters_of,
    own_loops,
    vectorise_member,
    vectorise_reduction,
    vectorise_spatial,
)
from tvm_fusionx.schedules.parts.overlap_last_vector import move_last_vectors
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.rows.across_rows import is_contiguous, takes_long_rows
from tvm_fusionx.schedules.rows.few_rows import parts_in, share_few_rows
from tvm_fusionx.schedules.rows.knobs import (
    RECOMPUTE_KNOB,
    USUAL,
    RowChoices,
    chosen,
    knobs_of_rows,
)
from tvm_fusionx.schedules.rows.lane_reductions import split_lane_reductions
from tvm_fusionx.schedules.rows.memory_order import drop_proved_choices, sum_in_memory_order
from tvm_fusionx.schedules.rows.order import ordered_rows, share_columns, shared_loops
from tvm_fusionx.schedules.rows.side_by_side import rows_side_by_side
from tvm_fusionx.schedules.rows.split_chains import split_chains
from tvm_fusionx.schedules.template import Knobs, KnobValues, Match, Template, UnschedulableError
from tvm_fusionx.tir.block import BlockInfo, Stage
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.index_maps import index_path, variables_of
from tvm_fusionx.tir.inline import inline_spatial
from tvm_fusionx.tir.lent_outputs import lend_outputs, return_outputs

# A stage computed at a row may cover at most this multiple of its share of points: beyond, rows
# overlap and the stage is cheaper on its own.
MAX_RECOMPUTATION = 1.5


class RowByRow(Match):
    """Any block: its stages are computed row by row in one parallel loop, where they can be."""

    def knobs(self) -> Knobs:
        """Return width of vectors, what is recomputed or shared, and rows side by side."""
        return knobs_of_rows(self.info)

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info, choices = chosen(self.info, values)
        sch = fresh_schedule(info.func)
        info = inline_spatial(sch, info, recompute=bool(values.get(RECOMPUTE_KNOB)))
        func = sum_in_memory_order(drop_proved_choices(lend_outputs(sch.mod["main"], info)))
        func = share_few_rows(func, info.cpu, choices.parallel_work)
        shared = parts_in(func)
        func = split_lane_reductions(func, info.cpu.lanes, parts=shared)
        func = split_chains(func, info.cpu, choices.chains)
        return move_last_vectors(return_outputs(schedule_stages(func, info, choices, shared)))


def schedule_stages(
    func: Any, info: BlockInfo, choices: RowChoices = USUAL, lead: Collection[str] = ()
) -> Any:
    """Return `func` with all its stages scheduled as row nests; a nest that fails is split up.

    The stages `lead` are members of no other nest.
    """
    alone = set(lead)
    for _ in range(len(info.stages) + 1):
        sch = fresh_schedule(func)
        late: Late = []
        try:
            schedule_rows(sch, info_of(sch, info), late, alone, choices=choices)
        except MustBeAloneError as problem:
            alone.add(problem.stage)
            continue
        finish(late)
        return sch.mod["main"]
    raise UnschedulableError("no set of row nests fits")


class MustBeAloneError(Exception):
    """A stage cannot be computed row by row inside the nest of its consumer."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self.stage = stage


@dataclass
class Rows:
    """The leader's loops, rows first."""

    rows: list[Any]
    columns: list[Any]
    lane: Any | None
    """The vector loop, when the contiguous axis is a row axis."""

    together: Any | None = None
    """The loop over rows that are summed side by side, just outside the vector loop."""


def schedule_rows(
    sch: Any,
    info: BlockInfo,
    late: Late,
    alone: set[str],
    names: set[str] | None = None,
    choices: RowChoices = USUAL,
) -> None:
    """Schedule the stages `names` (default: all) as nests of rows, last stage first."""
    pending = [name for name in info.stages if names is None or name in names]
    nested: set[str] = set()
    for leader in reversed(pending):
        if leader in nested:
            continue
        members = _members(info, leader, pending, nested, alone)
        nested |= {leader, *members}
        _schedule_nest(sch, info, leader, members, late, choices)


def _members(
    info: BlockInfo, leader: str, pending: list[str], nested: set[str], alone: set[str]
) -> list[str]:
    """Return the stages whose every reader is in `leader`'s nest, readers first."""
    inside = {leader}
    members = []
    for name in reversed(pending):
        if name in nested or name in alone or name in inside or name in info.outputs:
            continue
        readers = info.consumers[name]
        if readers and all(reader in inside for reader in readers):
            inside.add(name)
            members.append(name)
    return members


def _schedule_nest(
    sch: Any, info: BlockInfo, leader: str, members: list[str], late: Late, choices: RowChoices
) -> None:
    stage = info.stages[leader]
    block = sch.get_block(leader)
    cpu = info.cpu
    reductions = [name for name in members if info.stages[name].is_reduction]
    rows = _split_rows(sch, info, stage, block, reductions, choices)
    if members and not rows.rows:
        raise MustBeAloneError(members[0])
    count = math.prod(extent(sch, loop) for loop in rows.rows)
    if count < cpu.cores:
        _refuse_to_keep_cores_idle(info, leader, reductions, choices)
    depth = 0
    if rows.rows:
        depth = len(sch.get_loops(block)[: len(rows.rows)])
        at = rows.rows[-1]
        for name in members:
            member = sch.get_block(name)
            try:
                sch.compute_at(member, at, preserve_unit_loops=True)
            except tvm.TVMError as error:
                raise MustBeAloneError(name) from error
            refuse_recomputation(sch, info.stages[name], member, count)
        is_summed = stage.is_reduction or bool(reductions)
        shared, inner = (rows.rows, []) if is_summed else shared_loops(sch, rows.rows, cpu.cores)
        fused = sch.fuse(*shared) if len(shared) > 1 else shared[0]
        depth = 1 + len(inner)
        stages = [stage, *(info.stages[name] for name in members)]
        if count > 1 and should_parallelise(stages, cpu.cores, choices.parallel_work):
            sch.parallel(fused)
    for name in members:
        schedule_member(sch, sch.get_block(name), cpu, late, choices.chains)
    _schedule_leader(sch, block, rows, cpu, late, depth)


def refuse_recomputation(sch: Any, stage: Stage, block: Any, count: int) -> None:
    """Raise when computing a stage at each of `count` rows would repeat too much of its work.

    So it would where what a row needs depends on the row: nobody knows how much is repeated.
    """
    spatial, _ = own_loops(sch, block)
    if not all(isinstance(sch.get(loop).extent, tir.IntImm) for loop in spatial):
        raise MustBeAloneError(stage.name)
    points = math.prod(extent(sch, loop) for loop in spatial) * count
    if points > MAX_RECOMPUTATION * max(1, math.prod(stage.spatial)):
        raise MustBeAloneError(stage.name)


def _refuse_to_keep_cores_idle(
    info: BlockInfo, leader: str, reductions: list[str], choices: RowChoices
) -> None:
    """Raise for a nest of fewer rows than cores where a stage of it could be shared by its own.

    So that what is computed of each element of a norm over a whole image is shared, its sums go.
    """
    cpu = info.cpu

    def could_share(name: str) -> bool:
        stage = info.stages[name]
        has_rows = math.prod(stage.spatial) >= cpu.cores * cpu.lanes
        return has_rows and should_parallelise([stage], cpu.cores, choices.parallel_work)

    for name in reductions:
        if could_share(name) or could_share(leader):
            raise MustBeAloneError(name)


def schedule_member(sch: Any, block: Any, cpu: Cpu, late: Late, chains: int = USUAL.chains) -> None:
    """Vectorise a stage that was just computed at a row."""
    spatial, reduced = own_loops(sch, block)
    if reduced:
        vectorise_reduction(sch, block, spatial, reduced, cpu.lanes, late, chains)
    else:
        vectorise_member(sch, block, spatial, cpu.lanes)


def _schedule_leader(sch: Any, block: Any, rows: Rows, cpu: Cpu, late: Late, depth: int) -> None:
    reduced = sch.get_loops(block)[depth + len(rows.columns) :]
    if rows.lane is not None:
        reduced = reduced[: -1 if rows.together is None else -2]
        inner = rows.lane
        if extent(sch, inner) > cpu.lanes and not extent(sch, inner) % cpu.lanes:
            outer, inner = sch.split(inner, [None, cpu.lanes])
            sch.unroll(outer)
        sch.vectorize(inner)
        if rows.together is not None:
            sch.unroll(rows.together)
        if reduced:
            late.append(lambda: _decompose_with_lane(sch, block, reduced[0], cpu.lanes))
    elif reduced:
        vectorise_reduction(sch, block, rows.columns, reduced, cpu.lanes, late)
    else:
        vectorise_spatial(sch, rows.columns, cpu.lanes)


def _decompose_with_lane(sch: Any, block: Any, loop: Any, lanes: int) -> None:
    init = sch.decompose_reduction(block, loop)
    last = sch.get_loops(init)[-1]
    if extent(sch, last) <= lanes or extent(sch, last) % lanes:
        sch.vectorize(last)


def _split_rows(
    sch: Any,
    info: BlockInfo,
    stage: Stage,
    block: Any,
    reductions: list[str],
    choices: RowChoices,
) -> Rows:
    """Order the leader's loops: rows that every reduction shares, then the rest."""
    loops = sch.get_loops(block)
    spatial = [
        (it, loop) for it, loop in zip(stage.iters, loops, strict=True) if not it.is_reduction
    ]
    reduced = [loop for it, loop in zip(stage.iters, loops, strict=True) if it.is_reduction]
    paths = [path for name in reductions if (path := index_path(info, stage.name, name))]
    if stage.is_reduction or not reductions:
        row_vars = {it.var for it, _ in spatial}
    else:
        row_vars = _shared_variables(paths, {it.var for it, _ in spatial})
    if not stage.is_reduction and reductions and _needs_linear_rows(paths):
        return _linear_rows(sch, info, stage, [loop for _, loop in spatial], reductions)
    if stage.is_reduction and paths:
        row_vars &= _shared_variables(paths, row_vars)
    wide = [(it, loop) for it, loop in spatial if it.extent > 1]
    lane = None
    cpu = info.cpu
    row_loops = [loop for it, loop in spatial if it.var in row_vars]
    columns = [loop for it, loop in spatial if it.var not in row_vars]
    if not reductions and not stage.is_reduction:
        ordered = ordered_rows(sch, stage, spatial, cpu.lanes)
        if should_parallelise([stage], cpu.cores, choices.parallel_work):
            ordered = share_columns(sch, *ordered, cpu.cores, cpu.lanes)
        return Rows(*ordered, None)
    if (
        wide
        and wide[-1][0].var in row_vars
        and wide[-1][0].extent >= min(cpu.lanes, NARROWEST_VECTOR)
        and is_contiguous(stage, wide[-1][0])
        and not any(takes_long_rows(info.stages[name]) for name in reductions)
    ):
        last = wide[-1][1]
        width = _width(wide[-1][0].extent, cpu.lanes, choices.vectors)
        outer, lane = sch.split(last, [None, width])
        row_loops = [outer if loop is last else loop for loop in row_loops]
        together = None
        if width <= cpu.lanes:
            summed = [stage, *(info.stages[name] for name in reductions)]
            row_loops, together = _side_by_side(sch, summed, row_loops, cpu, choices)
        inner = [lane] if together is None else [together, lane]
        sch.reorder(*row_loops, *columns, *reduced, *inner)
        return Rows(row_loops, columns, lane, together)
    sch.reorder(*row_loops, *columns, *reduced)
    return Rows(row_loops, columns, lane)


def _width(elements: int, lanes: int, vectors: int) -> int:
    """Return the neighbours that are summed together, of which each is a row of its own."""
    if elements % (vectors * lanes) == 0:
        return vectors * lanes
    # A vector and a part of one, where neither leaves a rest.
    return elements if elements <= MIN_FILLED_SHARE * lanes else lanes


def _side_by_side(
    sch: Any, stages: list[Stage], loops: list[Any], cpu: Cpu, choices: RowChoices
) -> tuple[list[Any], Any | None]:
    """Split the innermost of the rows' loops; return them, and the loop over those side by side."""
    wide = [loop for loop in loops if extent(sch, loop) > 1]
    if not wide:
        return loops, None
    others = math.prod(extent(sch, loop) for loop in wide[:-1])
    is_shared = should_parallelise(stages, cpu.cores, choices.parallel_work) and others < cpu.cores
    cores = cpu.cores if is_shared else 1
    number = rows_side_by_side(extent(sch, wide[-1]), cores, choices.chains, cpu)
    if number == 1:
        return loops, None
    outer, inner = sch.split(wide[-1], [None, number])
    return [outer if loop is wide[-1] else loop for loop in loops], inner


def _shared_variables(paths: list[list[Any]], spatial: set[Any]) -> set[Any]:
    shared = set(spatial)
    for path in paths:
        used: set[Any] = set()
        for index in path:
            used |= variables_of(index)
        if used & shared:
            shared &= used
    return shared


def _needs_linear_rows(paths: list[list[Any]]) -> bool:
    return any(not isinstance(index, (tir.Var, tir.IntImm)) for path in paths for index in path)


def _linear_rows(
    sch: Any, info: BlockInfo, stage: Stage, loops: list[Any], reductions: list[str]
) -> Rows:
    """Cut the leader's linear iteration space into rows, where its axes do not show them."""
    rows = min(math.prod(info.stages[name].spatial) for name in reductions)
    total = math.prod(it.extent for it in stage.iters)
    if total % rows:
        raise MustBeAloneError(reductions[0])
    fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    outer, inner = sch.split(fused, [rows, None])
    return Rows([outer], [inner], None)


ROWS = Template("rows", RowByRow)

__all__ = ["ROWS", "is_reducing", "iters_of", "schedule_rows", "schedule_stages"]
