"""Convolution by minimal filtering: transformed input, products at every point, transformed back.

The tensor expressions say what is computed; the loops are laid out by hand in
:mod:`tvm_fusionx.schedules.winograd.kernel`, and what follows the convolution in the block is
applied to its registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm_fusionx.expressions.minimal_filtering import FILTERINGS
from tvm_fusionx.expressions.winograd import (
    GEOMETRY,
    STAGE_OUTPUT,
    STAGE_PAD,
    STAGE_PRODUCT,
    STAGE_WEIGHT_ROWS,
    STAGES,
    WEIGHT_STAGES,
)
from tvm_fusionx.schedules.parts.hand_written_kernel import (
    gather_what_follows,
    replace_stages,
    schedule_around,
    stage_nests,
    storing,
)
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.schedules.windows.output_vectors import joined_chunks
from tvm_fusionx.schedules.windows.result import COLUMN_AXIS, WindowResult
from tvm_fusionx.schedules.winograd.kernel import WinogradKernel
from tvm_fusionx.schedules.winograd.output_rows import Pooling
from tvm_fusionx.schedules.winograd.pool import Pool, find_pool
from tvm_fusionx.schedules.winograd.source import Source, find_source
from tvm_fusionx.schedules.winograd.tiling import (
    Cut,
    Problem,
    best_cut,
    column_choices,
    depth_choices,
    lanes_read,
    tile_choices,
)
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.indices import simplify_indices
from tvm_fusionx.tir.numbers import divisors

KERNEL = "winograd"


def _pool(info: BlockInfo) -> Pool | str | None:
    tile = int(info.stages[STAGE_OUTPUT].block.annotations[GEOMETRY][0])
    return find_pool(info, STAGE_PRODUCT, tile)


def _operands(info: BlockInfo) -> tuple[Any, Any]:
    """Return the buffers of data and weights."""
    (data,) = info.stages[STAGE_PAD].reads
    if STAGE_WEIGHT_ROWS in info.stages:
        (weights,) = info.stages[STAGE_WEIGHT_ROWS].reads
        return data, weights
    written = {buffer.data for name in STAGES for buffer in info.stages[name].writes}
    (weights,) = (
        buffer for buffer in info.stages[STAGE_PRODUCT].reads if buffer.data not in written
    )
    return data, weights


def _problem(info: BlockInfo) -> Problem:
    data, weights = _operands(info)
    output = info.stages[STAGE_OUTPUT]
    tile, top, left = (int(each) for each in output.block.annotations[GEOMETRY])
    panel, block = int(weights.shape[-1]), output.spatial[4]
    return Problem(
        filtering=FILTERINGS[tile],
        in_shape=tuple(int(extent) for extent in data.shape),
        out_shape=output.spatial,
        padding=(top, left),
        panel=panel,
        transforms_weights=STAGE_WEIGHT_ROWS in info.stages,
        joined=joined_chunks(panel // block, block, info.cpu),
    )


def _writer(info: BlockInfo, buffer: Any) -> str:
    """Return the name of the stage that writes `buffer`."""
    return next(name for name, stage in info.stages.items() if buffer in stage.writes)


@dataclass(frozen=True)
class MinimalFiltering(Match):
    """A block around a convolution by minimal filtering, and a pool after it if there is one."""

    problem: Problem
    source: Source
    """What the input is read from."""
    pool: Pool | None

    def knobs(self) -> Knobs:
        """Return the tiles of a task, the panels, columns and channels that are taken together."""
        problem, cpu = self.problem, self.info.cpu
        cut = best_cut(problem, cpu)
        return {
            "task_tiles": Knob(cut.tiles, tuple(tile_choices(problem))),
            "panel_tasks": Knob(cut.panel_tasks, tuple(divisors(problem.panels))),
            "tile_columns": Knob(cut.columns, tuple(column_choices(problem, cpu))),
            "channel_chunks": Knob(cut.depth or problem.in_shape[1], tuple(depth_choices(problem))),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info, problem, source, pool = self.info, self.problem, self.source, self.pool
        weights = _operands(info)[1]
        sch = fresh_schedule(info.func)
        tiles = values["task_tiles"]
        columns = min(values["tile_columns"], tiles)
        depth = values["channel_chunks"]
        cut = Cut(tiles, values["panel_tasks"], columns, depth, lanes_read(problem, info.cpu))
        ends = [STAGE_OUTPUT] if pool is None else [STAGE_OUTPUT, pool.stage]
        lasts = [info.outputs[0]] if pool is None else [_writer(info, pool.source), info.outputs[0]]
        copies = [
            gather_what_follows(sch, info, end, last) for end, last in zip(ends, lasts, strict=True)
        ]
        parallel = should_parallelise(info.stages.values(), info.cpu.cores)
        func = simplify_indices(sch.mod["main"])
        blocks = stage_nests(func)
        stands_for = [{blocks[end].writes[0].buffer.data} for end in ends]
        pooling = None
        if pool is not None:
            between = storing(blocks[copies[0]], stands_for[0], lambda *store: store[-1])
            pooling = Pooling(pool, between)
        copy, vectors = blocks[copies[-1]], problem.panel_vectors
        result = (
            WindowResult.of(copy, problem.out_shape[COLUMN_AXIS], vectors, stands_for[-1])
            if pooling is None
            else WindowResult(storing(copy, stands_for[-1]), vectors, along_pixels=False)
        )
        kernel = WinogradKernel(problem, source, weights, cut, result, pooling)
        before = [name for name in blocks if name in info.upstream(STAGE_PAD)]
        transforms = [name for name in WEIGHT_STAGES if name in blocks]
        replaced = dict.fromkeys([*before, *transforms, *STAGES, *ends, *copies[:-1]])
        operands = (source.buffer, weights)
        func = replace_stages(
            func, list(replaced), copies[-1], operands, KERNEL, kernel.build(parallel=parallel)
        )
        return schedule_around(func, KERNEL, info.cpu)


def _match(info: BlockInfo) -> MinimalFiltering | str:
    if not info.stages.keys() >= set(STAGES):
        return "it is no minimal filtering"
    if len(info.outputs) != 1:
        return f"it writes {len(info.outputs)} tensors, not one"
    pool = _pool(info)
    if isinstance(pool, str):
        return pool
    source = find_source(info, STAGE_PAD)
    if isinstance(source, str):
        return source
    return MinimalFiltering(info, _problem(info), source, pool)


WINOGRAD = Template("winograd", _match)
