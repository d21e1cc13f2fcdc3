"""Windows that keep channels apart over NCHWc data: depthwise convolutions and pools.

Loop order, outermost first: tasks (image, part of the channels, part of the rows, in parallel);
gather the task's input where it is not read in place; channel chunk; row; columns of a tile; window
rows; window columns, written out, so that neighbouring columns share their loads; then what follows
on the registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.schedules.windows.channelwise_kernel import (
    PaddedWindow,
    find_padded,
    schedule_padded,
)
from tvm_fusionx.schedules.windows.isolate import isolate_window
from tvm_fusionx.schedules.windows.loop_nest import finish_others, open_nest
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.schedules.windows.tiling import MAX_TILE_CHUNKS, best_tasks, depthwise_columns
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.numbers import divisors

# A tile's sums share the registers with the columns of input under them.
REGISTERS_A_SUM = 3

# Windows of at most this many columns are written out, so that tile columns share loads.
MAX_UNROLLED_COLUMNS = 7


@dataclass(frozen=True)
class Channelwise(Match):
    """A block around a window that keeps channels apart."""

    window: Window
    in_place: PaddedWindow | str
    """The window over its data before the padding, which is then read in place; or why it is not:
    what a task reads is gathered first."""

    def knobs(self) -> Knobs:
        """Return the tile of chunks and columns, and the tasks."""
        info, window, cpu = self.info, self.window, self.info.cpu
        is_in_place = isinstance(self.in_place, PaddedWindow)
        if is_in_place:
            columns = depthwise_columns(window, cpu)[0]
            most = max(depthwise_columns(window, cpu))
        else:
            most = max(1, window.registers(cpu) // REGISTERS_A_SUM)
            columns = min(
                range(1, most + 1), key=lambda each: (_waste(window.columns, each), -each)
            )
        wanted = min(MAX_TILE_CHUNKS, max(1, cpu.sums_to_hide_latency // columns))
        choices = tuple(each for each in divisors(window.out_blocks) if each <= MAX_TILE_CHUNKS)
        chunks = max(each for each in choices if each <= wanted)
        gathers = bool(info.producers[window.stage.name]) and not is_in_place
        tasks = best_tasks(window, cpu, window.out_blocks // chunks, gathers=gathers)
        return {
            "tile_chunks": Knob(chunks, choices),
            "tile_columns": Knob(columns, tuple(range(1, min(most, window.columns) + 1))),
            "task_rows": Knob(tasks.rows, tuple(divisors(window.rows))),
            "channel_tasks": Knob(tasks.channel_tasks, tuple(divisors(window.out_blocks))),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info, window = self.info, self.window
        sch = fresh_schedule(info.func)
        if isinstance(self.in_place, PaddedWindow):
            return schedule_padded(sch, info, self.in_place, values)
        stages = isolate_window(sch, info, window)
        nest = open_nest(sch, stages, window, values)
        sch = nest.sch
        row, column = nest.reductions
        sch.reorder(row, column, nest.sum_columns, nest.sum_chunks, nest.sum_lanes)
        if window.kernel[1] <= MAX_UNROLLED_COLUMNS:
            sch.unroll(column)
        nest.finish(row, parallel=should_parallelise(info.stages.values(), info.cpu.cores))
        return finish_others(sch, stages, info.cpu)


def _waste(width: int, columns: int) -> float:
    """Return the columns computed for each useful one, a narrow tile's own cost included."""
    if columns > width:
        return float("inf")
    tiles = -(-width // columns)
    # A tile costs about as much as one more column: addresses, loop, weights.
    return tiles * (columns + 1) / width


def _depthwise(info: BlockInfo) -> Channelwise | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if not window.stage.is_plain_dot:
        return "its reduction is not a sum of products of elements as they are"
    if window.sums_channels:
        return "its channels are summed"
    return Channelwise(info, window, find_padded(info, window))


def _pool(info: BlockInfo) -> Channelwise | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if window.stage.is_dot or window.sums_channels:
        return "its reduction is not one tensor's window"
    return Channelwise(info, window, find_padded(info, window))


DEPTHWISE = Template("depthwise", _depthwise)
POOL = Template("pool", _pool)
