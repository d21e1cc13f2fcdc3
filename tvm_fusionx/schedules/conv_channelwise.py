"""Windows that keep channels apart, depthwise convolution and pooling: one schedule for both."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.schedules.analysis import BlockInfo
from tvm_fusionx.schedules.conv_isolate import isolate_window
from tvm_fusionx.schedules.conv_loops import LoopNest, open_schedule, schedule_others
from tvm_fusionx.schedules.conv_structure import Window
from tvm_fusionx.schedules.conv_tiling import (
    MAX_TILE_CHUNKS,
    SUMS_TO_HIDE_LATENCY,
    best_tasks,
    divisors,
)
from tvm_fusionx.schedules.cpu import Cpu
from tvm_fusionx.schedules.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues

# A tile's sums share the registers with the columns of input under them.
REGISTERS_A_SUM = 3

# Windows of at most this many columns are written out, so that tile columns share loads.
MAX_UNROLLED_WINDOW = 7


def channelwise_knobs(info: BlockInfo, window: Window, cpu: Cpu) -> Knobs:
    """Return the knobs of :func:`schedule_channelwise`."""
    most = max(1, cpu.registers // REGISTERS_A_SUM)
    columns = min(range(1, most + 1), key=lambda each: (_waste(window.columns, each), -each))
    wanted = min(MAX_TILE_CHUNKS, max(1, SUMS_TO_HIDE_LATENCY // columns))
    chunks = max(each for each in divisors(window.chunks) if each <= wanted)
    groups = window.chunks // chunks
    tasks = best_tasks(window, cpu, groups, gathers=bool(info.producers[window.stage.name]))
    return {
        "tile_chunks": Knob(
            chunks, tuple(each for each in divisors(window.chunks) if each <= MAX_TILE_CHUNKS)
        ),
        "tile_columns": Knob(columns, tuple(range(1, min(most, window.columns) + 1))),
        "task_rows": Knob(tasks.rows, tuple(divisors(window.rows))),
        "channel_tasks": Knob(tasks.channel_tasks, tuple(divisors(groups))),
    }


def _waste(width: int, columns: int) -> float:
    """Return the columns computed for each useful one, a narrow tile's own cost included."""
    if columns > width:
        return float("inf")
    tiles = -(-width // columns)
    # A tile costs about as much as one more column: addresses, loop, weights.
    return tiles * (columns + 1) / width


def schedule_channelwise(sch: Any, info: BlockInfo, window: Window, values: KnobValues) -> Any:
    """Return the scheduled function of a block around `window`, which keeps channels apart."""
    stages = isolate_window(sch, info, window)
    sch, columns = open_schedule(sch, stages, window, values["tile_columns"])
    nest = LoopNest.tile(
        sch,
        stages,
        chunks=values["tile_chunks"],
        columns=columns,
        rows=values["task_rows"],
        channel_tasks=values["channel_tasks"],
    )
    row, column = nest.reductions
    sch.reorder(row, column, nest.sum_columns, nest.sum_chunks, nest.sum_lanes)
    if window.kernel[1] <= MAX_UNROLLED_WINDOW:
        sch.unroll(column)
    nest.finish(row, parallel=should_parallelise(info.stages.values(), info.cpu.cores))
    schedule_others(sch, stages, info.cpu)
    return sch.mod["main"]
