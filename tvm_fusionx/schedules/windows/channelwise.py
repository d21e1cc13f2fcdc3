"""Windows that keep channels apart over NCHWc data: depthwise convolutions and pools.

A window that is padded and nothing else before it reads the data in place, without a gather
(:mod:`tvm_fusionx.schedules.windows.in_place_kernel`).

Loop order, outermost first: tasks (image, part of the channels, part of the rows, in parallel);
gather the task's input where it is not read in place; channel chunk; row; columns of a tile; window
rows; window columns, written out, so that neighbouring columns share their loads; then what follows
on the registers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.hand_written_kernel import (
    gather_what_follows,
    replace_stages,
    schedule_around,
    stage_nests,
    storing,
)
from tvm_fusionx.schedules.parts.hidden_numbers import PAIR_REACH, PAIR_REACH_OF_HALVES
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.schedules.windows.first_addend import take_first_addend
from tvm_fusionx.schedules.windows.in_place_kernel import InPlaceKernel
from tvm_fusionx.schedules.windows.isolate import isolate_window
from tvm_fusionx.schedules.windows.loop_nest import finish_others, open_nest
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.windows.strip_kernel import StripKernel
from tvm_fusionx.schedules.windows.strip_tiling import StripTile, strip_tiles
from tvm_fusionx.schedules.windows.structure import PaddedWindow, Window, find_window, padded_by
from tvm_fusionx.schedules.windows.tiling import MAX_TILE_CHUNKS, best_tasks, depthwise_columns
from tvm_fusionx.tir.block import BFLOAT16, BlockInfo
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.half_terms import NOT_IN_HALVES, adds_in_halves, half_terms
from tvm_fusionx.tir.indices import simplify_indices
from tvm_fusionx.tir.numbers import divisors
from tvm_fusionx.tir.widening import find_widening

# A tile's sums share the registers with the columns of input under them.
REGISTERS_A_SUM = 3

# Windows of at most this many columns are written out, so that tile columns share loads.
MAX_UNROLLED_COLUMNS = 7


KERNEL = "channelwise_window"

# What a window does with the elements under it, besides summing their products with weights.
_COMBINERS = (tir.Add, tir.Max, tir.Min)


def find_padded(info: BlockInfo, window: Window) -> PaddedWindow | str:
    """Return `window` over the data before its padding, or why that changes its result."""
    if window.dtype == BFLOAT16:
        return "bfloat16 is computed by casts"
    if window.stage.multiplies_integers:
        return _find_widened(info, window)
    before = info.upstream(window.stage.name)
    if len(before) != 1:
        return f"{len(before)} stages are before it, not a padding alone"
    (pad,) = before
    if not info.stages[pad].writes[0].data.same_as(window.data.data):
        return "what is before it is not its data"
    return _padded_at(info, window, pad)


def _padded_at(info: BlockInfo, window: Window, pad: str) -> PaddedWindow | str:
    padded = padded_by(info.stages[pad].block)
    if padded is None:
        return "what is before it is no padding"
    block = window.stage.block
    if not isinstance(block.init, tir.BufferStore) or not isinstance(block.body.value, _COMBINERS):
        return "it does not combine element by element"
    if not window.stage.is_dot and not isinstance(block.body.value.b, tir.BufferLoad):
        return "it computes something of each element"
    data, padding, value = padded
    # What the border adds has to be what the window starts with.
    initial = block.init.value
    if not isinstance(initial, tir.FloatImm | tir.IntImm) or float(initial.value) != value:
        return "its padding changes the result"
    return PaddedWindow(window, data, padding, pad)


def _find_widened(info: BlockInfo, window: Window) -> PaddedWindow | str:
    """Return a window of integers over the bytes that they are made of, padded or not."""
    before = info.upstream(window.stage.name)
    writer = {each.data: name for name in before for each in info.stages[name].writes}
    padded = PaddedWindow(window, window.data, (0, 0), None)
    last = writer.get(window.data.data)
    if last is not None and padded_by(info.stages[last].block) is not None:
        found = _padded_at(info, window, last)
        if isinstance(found, str):
            return found
        padded, before = found, before - {last}
    widening = find_widening(info, padded.data, before)
    if isinstance(widening, str):
        return widening
    return replace(padded, data=widening.source, widening=widening)


@dataclass(frozen=True)
class Channelwise(Match):
    """A block around a window that keeps channels apart."""

    window: Window
    in_place: PaddedWindow | str
    """The window over its data before the padding, which is then read in place; or why it is not:
    what a task reads is gathered first."""
    in_halves: bool = False
    """Whether its products are summed up in halves."""

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
        strips: list[StripTile] = []
        if isinstance(self.in_place, PaddedWindow) and self.in_place.widening is None:
            strips = strip_tiles(window, cpu)
        if strips:
            return self._strip_knobs(strips)
        gathers = bool(info.producers[window.stage.name]) and not is_in_place
        tasks = best_tasks(window, cpu, window.out_blocks // chunks, gathers=gathers)
        return {
            "tile_chunks": Knob(chunks, choices),
            "tile_columns": Knob(columns, tuple(range(1, min(most, window.columns) + 1))),
            "task_rows": Knob(tasks.rows, tuple(divisors(window.rows))),
            "channel_tasks": Knob(tasks.channel_tasks, tuple(divisors(window.out_blocks))),
        }

    def _strip_knobs(self, tiles: list[StripTile]) -> Knobs:
        window = self.window
        tasks = best_tasks(window, self.info.cpu, window.out_blocks, gathers=False)
        return {
            "tile_rows": Knob(tiles[0].rows, tuple(sorted({tile.rows for tile in tiles}))),
            "tile_columns": Knob(tiles[0].columns, tuple(sorted({tile.columns for tile in tiles}))),
            "task_rows": Knob(tasks.rows, tuple(divisors(window.rows))),
            "channel_tasks": Knob(tasks.channel_tasks, tuple(divisors(window.out_blocks))),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info, window = self.info, self.window
        sch = fresh_schedule(info.func)
        if isinstance(self.in_place, PaddedWindow):
            return _in_place(sch, info, self.in_place, values, in_halves=self.in_halves)
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


def _in_place(
    sch: Any, info: BlockInfo, found: PaddedWindow, values: KnobValues, *, in_halves: bool
) -> Any:
    """Return the scheduled function of a block around a padded window.

    Parameters
    ----------
    values
        ``tile_columns``, ``task_rows``, ``channel_tasks``, and ``tile_rows`` where rows are summed
        together, ``tile_chunks`` where they are not.
    in_halves
        Whether products are summed up in halves.
    """
    name = found.window.stage.name
    write = gather_what_follows(sch, info, name, info.outputs[0])
    func = simplify_indices(sch.mod["main"])
    blocks = stage_nests(func)
    written = {region.buffer.data for region in blocks[name].writes}
    parallel = should_parallelise(info.stages.values(), info.cpu.cores)
    block, addend = blocks[write], None
    if in_halves and adds_in_halves(info.func):
        block, addend = take_first_addend(block, written)
    result = WindowResult.by_chunk(storing(block, written), found.window, addend)
    columns = values["tile_columns"]
    loops: InPlaceKernel | StripKernel
    if "tile_rows" in values:
        reach = PAIR_REACH_OF_HALVES if in_halves else PAIR_REACH
        loops = StripKernel(found, values["tile_rows"], columns, result, reach, in_halves)
    else:
        dot = info.cpu.dot
        pair = None if dot is None else dot.pair_name_for(found.window.block_out)
        loops = InPlaceKernel(found, values["tile_chunks"], columns, result, pair)
    kernel = loops.build(rows=values["task_rows"], parts=values["channel_tasks"], parallel=parallel)
    widening = () if found.widening is None else found.widening.stages
    before = [*widening, *([] if found.pad is None else [found.pad])]
    func = replace_stages(func, [*before, name], write, [found.data], KERNEL, kernel)
    return schedule_around(func, KERNEL, info.cpu)


def _depthwise(info: BlockInfo) -> Channelwise | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if not window.stage.is_plain_dot and not window.stage.multiplies_integers:
        return "its reduction is not a sum of products of elements as they are"
    if window.sums_channels:
        return "its channels are summed"
    return Channelwise(info, window, find_padded(info, window))


def _depthwise_in_halves(info: BlockInfo) -> Channelwise | str:
    found = _depthwise(info)
    if isinstance(found, str):
        return found
    padded, window = found.in_place, found.window
    if isinstance(padded, str):
        return padded
    if padded.widening is not None or not strip_tiles(window, info.cpu):
        return "it has no strips of rows"
    if math.prod(window.kernel) > half_terms(info.func, padded.data, window.weights):
        return NOT_IN_HALVES
    if window.block_out != info.cpu.lanes:
        return "its chunks are no vectors of halves"
    return replace(found, in_halves=True)


def _pool(info: BlockInfo) -> Channelwise | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if window.stage.is_dot or window.sums_channels:
        return "its reduction is not one tensor's window"
    return Channelwise(info, window, find_padded(info, window))


DEPTHWISE = Template("depthwise", _depthwise)
DEPTHWISE_IN_HALVES = Template(DEPTHWISE.name, _depthwise_in_halves)
POOL = Template("pool", _pool)
