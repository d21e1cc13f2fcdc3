"""The loop nest that every blocked window shares: tasks, gather, register tile, write."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.integers import SUM
from tvm_fusionx.schedules.parts.nest import schedule_alone
from tvm_fusionx.schedules.parts.overlap_or_pad import OVERLAP, widen_axis
from tvm_fusionx.schedules.parts.peel_tests import (
    guard_whole_tiles,
    move_test_around,
    move_test_into_body,
)
from tvm_fusionx.schedules.template import KnobValues
from tvm_fusionx.schedules.windows.first_addend import begin_with_addend
from tvm_fusionx.schedules.windows.isolate import Isolated
from tvm_fusionx.schedules.windows.result import COLUMN_AXIS
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.tir.block import describe_block
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.indices import simplify_indices
from tvm_fusionx.tir.numbers import divisors


def open_schedule(
    sch: Any, stages: Isolated, window: Window, columns: int, pieces: int
) -> tuple[Any, int, int]:
    """Return a fresh schedule of the isolated stages, its register tiles' columns, and the pieces.

    Columns that do not divide the output's are covered by moving the last tile to the left, or the
    last piece of several tiles, so that each piece gathers as many columns as the others. TVM could
    not prove such tiles complete to a stage that follows: then they shrink to a divisor.
    """
    func = simplify_indices(sch.mod["main"])
    if window.dtype == SUM:
        # Integers are the same in any order; an instruction less, wherever a constant is loaded.
        func = begin_with_addend(func, stages.reduce, stages.write)
    func = move_test_into_body(func, stages.write)
    tiles = math.ceil(window.columns / columns)
    if stages.others:
        columns = max(each for each in divisors(window.columns) if each <= columns)
        pieces = math.gcd(window.columns // columns, pieces)
    else:
        piece = math.ceil(tiles / min(tiles, pieces)) * columns
        pieces = math.ceil(window.columns / piece)
        moved = piece if pieces > 1 else columns
        if window.columns % moved:
            func = widen_axis(func, stages.reduce, stages.write, COLUMN_AXIS, moved, OVERLAP)
    fresh = fresh_schedule(func)
    return fresh, columns, pieces


@dataclass(frozen=True)
class LoopNest:
    """Loops of a tiled window, before the reduction is put in order."""

    sch: Any
    stages: Isolated
    task: Any
    """Loop over tasks."""
    tiles: tuple[Any, Any]
    """Loops over the rows and the columns of tiles that one group of channels has."""
    sum_columns: Any
    """Loop over the columns of the register tile, around the reduction's body."""
    sum_chunks: Any
    """Loop over the channel chunks of the register tile."""
    sum_lanes: Any
    """Loop over the channels of a chunk."""
    reductions: tuple[Any, ...]
    """Loops that accumulate, in the stage's order."""

    @staticmethod
    def tile(
        sch: Any,
        stages: Isolated,
        *,
        chunks: int,
        columns: int,
        rows: int,
        channel_tasks: int,
        column_tasks: int,
    ) -> LoopNest:
        """Cut the write stage into tasks and register tiles and put the other stages into them."""
        write, reduce = sch.get_block(stages.write), sch.get_block(stages.reduce)
        image, chunk, row, column, lane = sch.get_loops(write)
        part, chunk, tile_chunk = sch.split(chunk, [channel_tasks, None, chunks])
        slab, row = sch.split(row, [None, rows])
        piece, column, tile_column = sch.split(column, [column_tasks, None, columns])
        # Slabs of rows outermost: a core then reads the rows that it wrote in the kernel before.
        sch.reorder(image, slab, piece, part, chunk, row, column, tile_column, tile_chunk, lane)
        task = sch.fuse(image, slab, piece, part)
        sch.compute_at(reduce, column, preserve_unit_loops=True)
        if stages.gather is not None:
            gather = sch.get_block(stages.gather)
            sch.compute_at(gather, task, preserve_unit_loops=True)
            _vectorize_last(sch, gather)
        sch.vectorize(lane)
        sch.unroll(tile_column)
        sch.unroll(tile_chunk)
        iters = sch.get(reduce).iter_vars
        loops = sch.get_loops(reduce)[-len(iters) :]
        _, sum_chunks, _, sum_columns, sum_lanes = loops[: sum(map(_is_spatial, iters))]
        reductions = tuple(loops[sum(map(_is_spatial, iters)) :])
        tiles = (row, column)
        return LoopNest(sch, stages, task, tiles, sum_columns, sum_chunks, sum_lanes, reductions)

    def finish(self, outermost_reduction: Any, *, parallel: bool) -> None:
        """Vectorise and unroll the tile, split off the initial values, run tasks in parallel."""
        sch = self.sch
        sch.unroll(self.sum_columns)
        sch.unroll(self.sum_chunks)
        sch.vectorize(self.sum_lanes)
        if parallel:
            sch.parallel(self.task)
        # TVM no longer sees a reduction in the two halves: every other step comes before.
        initial = sch.decompose_reduction(sch.get_block(self.stages.reduce), outermost_reduction)
        *around, lanes = sch.get_loops(initial)[-len(sch.get(initial).iter_vars) :]
        sch.vectorize(lanes)
        for loop in around:
            sch.unroll(loop)


def _is_spatial(iter_var: Any) -> bool:
    return bool(iter_var.iter_type == tir.IterVar.DataPar)


def _vectorize_last(sch: Any, block: Any) -> None:
    sch.vectorize(sch.get_loops(block)[-1])


def finish_others(sch: Any, stages: Isolated, cpu: Cpu) -> Any:
    """Give the stages outside the window's nest loop nests of their own; return the function."""
    described = describe_block(sch.mod["main"], cpu).stages
    for name in stages.others:
        schedule_alone(sch, name, described[name], cpu)
    return guard_whole_tiles(move_test_around(sch.mod["main"], stages.write))


def open_nest(sch: Any, stages: Isolated, window: Window, values: KnobValues) -> LoopNest:
    """Return the loops of a window in a fresh schedule, tiled as the knobs say."""
    fresh, columns, pieces = open_schedule(
        sch, stages, window, values["tile_columns"], values.get("column_tasks", 1)
    )
    return LoopNest.tile(
        fresh,
        stages,
        chunks=values["tile_chunks"],
        columns=columns,
        rows=values["task_rows"],
        # Tiles of another size make other numbers of tiles.
        channel_tasks=math.gcd(window.out_blocks // values["tile_chunks"], values["channel_tasks"]),
        column_tasks=pieces,
    )
