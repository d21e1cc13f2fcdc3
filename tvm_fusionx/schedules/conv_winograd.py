"""Convolution by minimal filtering: transform the input, 36 matrix products, transform the output.

Three loop nests of one kernel, each parallel: input tiles (padding and both passes of the transform
where a row of tiles is computed), products with sums in registers, and output tiles with everything
that follows the convolution applied to them.
"""

from __future__ import annotations

from typing import Any

from tvm_fusionx.layout.winograd import (
    SPAN,
    STAGE_COLUMNS,
    STAGE_INPUT,
    STAGE_OUTPUT,
    STAGE_PAD,
    STAGE_PRODUCT,
    STAGE_ROWS,
    TILE,
)
from tvm_fusionx.schedules.analysis import BlockInfo, Stage
from tvm_fusionx.schedules.conv_tiling import (
    MAX_TILE_CHUNKS,
    SPARE_REGISTERS,
    SUMS_TO_HIDE_LATENCY,
    divisors,
)
from tvm_fusionx.schedules.cpu import Cpu
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Template

STAGES = frozenset({STAGE_PAD, STAGE_ROWS, STAGE_INPUT, STAGE_PRODUCT, STAGE_COLUMNS, STAGE_OUTPUT})


def _why_not(info: BlockInfo) -> str | None:
    if not info.stages.keys() >= STAGES:
        return "it is no minimal filtering"
    if len(info.reductions) != 1 or len(info.outputs) != 1:
        return "it has reductions besides the products, or several outputs"
    output = info.stages[info.outputs[0]]
    if output.spatial != info.stages[STAGE_OUTPUT].spatial:
        return "what follows changes the shape"
    return None


def _knobs(info: BlockInfo, cpu: Cpu) -> Knobs:
    _, chunks, tiles, _ = info.stages[STAGE_PRODUCT].spatial
    fitting = [
        (chunk, tile)
        for chunk in divisors(chunks)
        if chunk <= MAX_TILE_CHUNKS
        for tile in divisors(tiles)
        if chunk * tile + chunk + SPARE_REGISTERS - 1 < cpu.registers
    ]
    chunk, tile = min(fitting, key=_cost)
    return {
        "tile_chunks": Knob(chunk, tuple(sorted({each for each, _ in fitting}))),
        "tile_tiles": Knob(tile, tuple(sorted({each for _, each in fitting}))),
    }


def _cost(shape: tuple[int, int]) -> float:
    chunk, tile = shape
    sums = chunk * tile
    return max(1.0, SUMS_TO_HIDE_LATENCY / sums) * (1 + (chunk + tile) / sums)


def _apply(sch: Any, info: BlockInfo, values: KnobValues) -> None:
    kept = {*STAGES, *info.outputs} - {STAGE_OUTPUT}
    for name in info.stages:
        if name not in kept and (name != STAGE_OUTPUT or name not in info.outputs):
            sch.compute_inline(sch.get_block(name))
    parallel = info.cpu.cores > 1
    _schedule_input(sch, info.stages[STAGE_ROWS], parallel=parallel)
    _schedule_output(sch, info.outputs[0], parallel=parallel)
    _schedule_product(sch, info, values, parallel=parallel)


def _schedule_input(sch: Any, rows: Stage, *, parallel: bool) -> None:
    """Compute one row of tiles of one chunk of channels at a time, tile by tile."""
    batch, _, tile_rows, _, width, _ = rows.spatial
    columns = width // TILE
    block = sch.get_block(STAGE_INPUT)
    place, chunk, tile, lane = sch.get_loops(block)
    row, column = sch.split(place, [SPAN, SPAN])
    tile_row, tile_column = sch.split(tile, [batch * tile_rows, columns])
    sch.reorder(chunk, tile_row, tile_column, row, column, lane)
    task = sch.fuse(chunk, tile_row)
    by_rows, pad = sch.get_block(STAGE_ROWS), sch.get_block(STAGE_PAD)
    sch.compute_at(by_rows, task, preserve_unit_loops=True)
    sch.compute_at(pad, task, preserve_unit_loops=True)
    *_, row_loop, wide, rows_lane = sch.get_loops(by_rows)
    sch.reorder(wide, row_loop, rows_lane)
    for loop in (row_loop, row, column):
        sch.unroll(loop)
    for loop in (rows_lane, lane, sch.get_loops(pad)[-1]):
        sch.vectorize(loop)
    if parallel:
        sch.parallel(task)


def _schedule_output(sch: Any, name: str, *, parallel: bool) -> None:
    """Compute one row of tiles of one chunk of channels at a time, tile by tile."""
    block = sch.get_block(name)
    image, chunk, row, column, lane = sch.get_loops(block)
    tile_row, row = sch.split(row, [None, TILE])
    tile_column, column = sch.split(column, [None, TILE])
    sch.reorder(image, chunk, tile_row, tile_column, row, column, lane)
    task = sch.fuse(image, chunk, tile_row)
    by_columns = sch.get_block(STAGE_COLUMNS)
    sch.set_scope(by_columns, 0, "local")
    sch.compute_at(by_columns, tile_column, preserve_unit_loops=True)
    *_, down, along, columns_lane = sch.get_loops(by_columns)
    sch.reorder(along, down, columns_lane)
    for loop in (row, column, down, along):
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.vectorize(columns_lane)
    if parallel:
        sch.parallel(task)


def _schedule_product(sch: Any, info: BlockInfo, values: KnobValues, *, parallel: bool) -> None:
    """Multiply in register tiles of channel chunks x tiles; weights stream through once."""
    inner = int(info.stages[STAGE_INPUT].spatial[-1])
    block = sch.get_block(STAGE_PRODUCT)
    write = sch.cache_write(block, 0, "local")
    place, chunk, tile, lane = sch.get_loops(write)
    chunk, tile_chunk = sch.split(chunk, [None, values["tile_chunks"]])
    tile, tile_tile = sch.split(tile, [None, values["tile_tiles"]])
    sch.reorder(place, chunk, tile, tile_tile, tile_chunk, lane)
    task = sch.fuse(place, chunk)
    sch.compute_at(block, tile, preserve_unit_loops=True)
    _, sum_chunk, sum_tile, sum_lane, channel = sch.get_loops(block)[-5:]
    channel_chunk, channel = sch.split(channel, [None, inner])
    sch.reorder(channel_chunk, channel, sum_tile, sum_chunk, sum_lane)
    for loop in (tile_tile, tile_chunk, sum_tile, sum_chunk):
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.vectorize(sum_lane)
    if parallel:
        sch.parallel(task)
    initial = sch.decompose_reduction(block, channel_chunk)
    *around, lanes = sch.get_loops(initial)[-4:]
    sch.vectorize(lanes)
    for loop in around:
        sch.unroll(loop)


WINOGRAD = Template("winograd", _why_not, _knobs, _apply)
