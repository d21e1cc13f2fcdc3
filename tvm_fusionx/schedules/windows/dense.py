"""Dense convolution over NCHWc data: sums in registers, input gathered once a task.

Loop order, outermost first: tasks (image, part of the channels, part of the rows, in parallel);
gather the task's input; channel chunks of a tile; row; columns of a tile; then the reduction
(input channels, window) over a tile of ``chunks x columns`` sums in vector registers; then bias,
activation and residual on the registers. The weights of a channel tile stream through once for
each row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts.fetch_ahead import PIECES, fetch_ahead, pauses_in
from tvm_fusionx.schedules.parts.nest import extent
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.parts.reload_in_loop import RELOADED, reload_in_loop
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.schedules.windows.isolate import isolate_window
from tvm_fusionx.schedules.windows.loop_nest import LoopNest, finish_others, open_nest
from tvm_fusionx.schedules.windows.matrix_tiling import matrix_tiles, turn_groups
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.schedules.windows.tiling import (
    ChunkTile,
    best_tasks,
    column_pieces,
    default_tile,
    register_tiles,
    shared_tiles,
)
from tvm_fusionx.schedules.windows.word_tiling import takes_words, turn_steps, word_tiles
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.numbers import divisors

# Input channels of a chunk whose multiply-adds are written out one after the other. One keeps LLVM
# from holding broadcast inputs in registers across steps, which spills the sums.
DEFAULT_UNROLL = 1


@dataclass(frozen=True)
class DenseWindow(Match):
    """A block around a window that sums products over channels."""

    window: Window

    def knobs(self) -> Knobs:
        """Return the register tile, the tasks, and the steps that are written out."""
        info, window, cpu = self.info, self.window, self.info.cpu
        if takes_words(window, cpu):
            tile, *_ = tiles = word_tiles(window, cpu)
        elif window.stage.sums_matrices:
            tile, *_ = tiles = matrix_tiles(window, cpu)
        else:
            tiles = register_tiles(window, cpu)
            tile = default_tile(tiles, window, cpu)
        gathers = bool(info.producers[window.stage.name])
        groups = window.out_blocks // tile.chunks
        column_tiles = shared_tiles(window, tile, cpu)
        tasks = best_tasks(window, cpu, groups, column_tiles, gathers=gathers)
        return {
            "tile_chunks": Knob(tile.chunks, tuple(sorted({each.chunks for each in tiles}))),
            "tile_columns": Knob(tile.columns, tuple(sorted({each.columns for each in tiles}))),
            "task_rows": Knob(tasks.rows, tuple(divisors(window.rows))),
            "channel_tasks": Knob(tasks.channel_tasks, tuple(divisors(window.out_blocks))),
            "column_tasks": Knob(tasks.column_tasks, tuple(column_pieces(column_tiles))),
            "unroll_channels": self._steps(),
        }

    def _steps(self) -> Knob:
        """Return the steps of a chunk that are written out: all, where some are added together."""
        channels = self.window.block_in
        if self.window.stage.sums_integers and self.info.cpu.adds_in_words:
            return Knob(channels, (channels,))
        return Knob(DEFAULT_UNROLL, tuple(divisors(channels)))

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info, window = self.info, self.window
        sch = fresh_schedule(info.func)
        stages = isolate_window(sch, info, window)
        nest = open_nest(sch, stages, window, values)
        sch = nest.sch
        channel, row, column = nest.reductions
        has_words = takes_words(window, info.cpu)
        chunk_of_channels, channel = sch.split(channel, [None, window.block_in])
        turn, following = 1, []
        if has_words:
            tile = ChunkTile(extent(sch, nest.sum_chunks), extent(sch, nest.sum_columns))
            turn = turn_steps(tile, window, info.cpu)
        elif window.stage.sums_matrices:
            turn = turn_groups(window)
        if turn > 1:
            chunk_of_channels, *following = sch.split(chunk_of_channels, [None, turn])
        channel, unrolled = sch.split(channel, [None, values["unroll_channels"]])
        sch.reorder(
            chunk_of_channels,
            *following,
            row,
            column,
            channel,
            unrolled,
            nest.sum_columns,
            nest.sum_chunks,
            nest.sum_lanes,
        )
        sch.unroll(unrolled)
        for loop in following:
            sch.unroll(loop)
        pieces = _in_pieces(nest, chunk_of_channels, window, info.cpu, turn)
        if has_words:
            sch.annotate(pieces, RELOADED, 1)
        nest.finish(pieces, parallel=should_parallelise(info.stages.values(), info.cpu.cores))
        func = fetch_ahead(finish_others(sch, stages, info.cpu))
        return reload_in_loop(func, window.data.data) if has_words else func


def _match(info: BlockInfo) -> DenseWindow | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if not window.stage.is_dot:
        return "its reduction is not a sum of products"
    if not window.sums_channels:
        return "its channels are not summed"
    return DenseWindow(info, window)


def _in_pieces(nest: LoopNest, chunks: Any, window: Window, cpu: Cpu, turn: int) -> Any:
    """Return the outermost loop of a sum over `chunks`, marked to fetch the next weights in it.

    Parameters
    ----------
    turn
        Chunks of the data in one turn of that loop.
    """
    sch = nest.sch
    sums = extent(sch, nest.sum_columns) * extent(sch, nest.sum_chunks)
    channels = math.prod(window.kernel) * window.block_in * turn
    vectors = channels * sums * window.block_out // cpu.lanes
    outputs = extent(sch, nest.sum_chunks) * window.block_out
    panel_bytes = window.in_channels * math.prod(window.kernel) * outputs * FLOAT_BYTES
    tiles = math.prod(extent(sch, loop) for loop in nest.tiles)
    pauses = pauses_in(extent(sch, chunks), vectors, panel_bytes, tiles)
    if pauses is None:
        return chunks
    pieces, _ = sch.split(chunks, [None, pauses.steps])
    sch.annotate(pieces, PIECES, pauses.lines)
    return pieces


CONV2D = Template("conv2d", _match)
