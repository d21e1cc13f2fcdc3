"""Windows that keep channels apart, depthwise convolution and pooling: one schedule for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import SUMS_TO_HIDE_LATENCY
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Template
from tvm_fusionx.schedules.windows.channelwise_kernel import (
    PaddedWindow,
    find_padded,
    schedule_padded,
)
from tvm_fusionx.schedules.windows.isolate import isolate_window
from tvm_fusionx.schedules.windows.loop_nest import finish_others, open_nest
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.schedules.windows.tiling import MAX_TILE_CHUNKS, best_tasks, depthwise_columns
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.numbers import divisors

# A tile's sums share the registers with the columns of input under them.
REGISTERS_A_SUM = 3

# Windows of at most this many columns are written out, so that tile columns share loads.
MAX_UNROLLED_WINDOW = 7


def channelwise_knobs(info: BlockInfo, window: Window, cpu: Cpu) -> Knobs:
    """Return the knobs of :func:`schedule_channelwise`."""
    is_in_place = isinstance(find_padded(info, window), PaddedWindow)
    if is_in_place:
        columns = depthwise_columns(window, cpu)[0]
        most = max(depthwise_columns(window, cpu))
    else:
        most = max(1, window.registers(cpu) // REGISTERS_A_SUM)
        columns = min(range(1, most + 1), key=lambda each: (_waste(window.columns, each), -each))
    wanted = min(MAX_TILE_CHUNKS, max(1, SUMS_TO_HIDE_LATENCY // columns))
    chunks = max(each for each in divisors(window.out_blocks) if each <= wanted)
    groups = window.out_blocks // chunks
    gathers = bool(info.producers[window.stage.name]) and not is_in_place
    tasks = best_tasks(window, cpu, groups, gathers=gathers)
    return {
        "tile_chunks": Knob(
            chunks, tuple(each for each in divisors(window.out_blocks) if each <= MAX_TILE_CHUNKS)
        ),
        "tile_columns": Knob(columns, tuple(range(1, min(most, window.columns) + 1))),
        "task_rows": Knob(tasks.rows, tuple(divisors(window.rows))),
        "channel_tasks": Knob(tasks.channel_tasks, tuple(divisors(window.out_blocks))),
    }


def _waste(width: int, columns: int) -> float:
    """Return the columns computed for each useful one, a narrow tile's own cost included."""
    if columns > width:
        return float("inf")
    tiles = -(-width // columns)
    # A tile costs about as much as one more column: addresses, loop, weights.
    return tiles * (columns + 1) / width


def schedule_channelwise(sch: Any, info: BlockInfo, window: Window, values: KnobValues) -> Any:
    """Return the scheduled function of a block around `window`, which keeps channels apart.

    One that is padded and nothing else before it reads the data in place; otherwise what a task
    reads is gathered first.
    """
    found = find_padded(info, window)
    if isinstance(found, PaddedWindow):
        return schedule_padded(sch, info, found, values)
    stages = isolate_window(sch, info, window)
    nest = open_nest(sch, stages, window, values)
    sch = nest.sch
    row, column = nest.reductions
    sch.reorder(row, column, nest.sum_columns, nest.sum_chunks, nest.sum_lanes)
    if window.kernel[1] <= MAX_UNROLLED_WINDOW:
        sch.unroll(column)
    nest.finish(row, parallel=should_parallelise(info.stages.values(), info.cpu.cores))
    return finish_others(sch, stages, info.cpu)


def channelwise_template(name: str, find: Callable[[BlockInfo], Window | str]) -> Template:
    """Return the template of blocks around a window that keeps channels apart.

    Parameters
    ----------
    name
        Name of the template.
    find
        Returns the window of a block, or why the template does not serve it.
    """

    def window_of(info: BlockInfo) -> Window:
        window = find(info)
        assert isinstance(window, Window)
        return window

    def why_not(info: BlockInfo) -> str | None:
        window = find(info)
        return window if isinstance(window, str) else None

    def knobs(info: BlockInfo, cpu: Cpu) -> Knobs:
        return channelwise_knobs(info, window_of(info), cpu)

    def apply(sch: Any, info: BlockInfo, values: KnobValues) -> Any:
        return schedule_channelwise(sch, info, window_of(info), values)

    return Template(name, why_not, knobs, apply)
