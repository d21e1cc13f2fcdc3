"""A convolution over whole planes: along the rows only, of channels that are not blocked.

A window along the frames of a clip is one: rows are frames, columns all pixels of a frame. Where
input and result are both planes, one channel after the other, vectors of columns need no change of
place, which vectors of channels do, number by number.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.parts.hand_written_kernel import (
    Store,
    replace_stages,
    schedule_around,
    stage_nests,
    storing,
)
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.schedules.windows.along_frames_kernel import AlongFramesKernel
from tvm_fusionx.schedules.windows.along_frames_tiling import (
    FrameTasks,
    FrameTile,
    best_frame_tasks,
    frame_row_choices,
    frame_tiles,
    waste,
)
from tvm_fusionx.schedules.windows.isolate import Isolated, isolate_window, weights_of
from tvm_fusionx.schedules.windows.result import COLUMN_AXIS
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.flat_access import accesses_of, conditions_of, decided, step_of
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.index_maps import variables_of
from tvm_fusionx.tir.indices import simplify_indices
from tvm_fusionx.tir.numbers import divisors

KERNEL = "along_frames"

# Columns computed for each of the result's, beyond which vectors of channels serve better.
MOST_WASTE = 1.25


def _frame_window(info: BlockInfo) -> Window | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if not window.stage.is_plain_dot or not window.sums_channels:
        return "it sums no products of elements as they are"
    _, channels, _, columns, inner = (int(extent) for extent in window.data.shape)
    if inner != 1 or channels != window.in_channels:
        return "its data is blocked, or its channels are in groups"
    if window.kernel[0] == 1 or window.kernel[1] != 1 or window.stride[1] != 1:
        return "its window is not one column of several rows"
    if columns != window.columns:
        return "its columns do not read those in the same place"
    return window


@dataclass(frozen=True)
class AlongFrames(Match):
    """A block around a window of several rows and one column, over planes."""

    window: Window
    func: Any
    """The function that has the stages."""
    stages: Isolated
    blocks: Mapping[str, Any]
    """The block of each stage, its idle tests gone."""

    def knobs(self) -> Knobs:
        """Return the register tile of channels and columns, and the tasks."""
        window, cpu = self.window, self.info.cpu
        tiles = frame_tiles(window, cpu)
        best = tiles[0]
        tasks = best_frame_tasks(window, best, cpu)
        outputs = window.out_blocks * window.block_out
        return {
            "tile_channels": Knob(best.channels, tuple(sorted({each.channels for each in tiles}))),
            "tile_vectors": Knob(best.vectors, tuple(sorted({each.vectors for each in tiles}))),
            "task_rows": Knob(tasks.rows, tuple(frame_row_choices(window, best, cpu))),
            "channel_tasks": Knob(tasks.channel_tasks, tuple(divisors(outputs))),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info, window, stages, blocks = self.info, self.window, self.stages, self.blocks
        reduce, write = blocks[stages.reduce], blocks[stages.write]
        written = {region.buffer.data for region in reduce.writes}
        weights = weights_of(reduce, window.data)
        gathering = None if stages.gather is None else blocks[stages.gather]
        tile = FrameTile(values["tile_channels"], values["tile_vectors"])
        groups = window.out_blocks * window.block_out // tile.channels
        # Tiles of another size make other numbers of tiles.
        tasks = FrameTasks(values["task_rows"], math.gcd(groups, values["channel_tasks"]))

        def gather(keep: Store) -> Store:
            if gathering is not None:
                return storing(gathering, (), keep)
            return lambda *place: keep(*place[:-1], tir.BufferLoad(window.data, place[:-1]))

        kernel = AlongFramesKernel(
            window,
            weights,
            tile,
            tasks,
            info.cpu.lanes,
            gather,
            storing(write, written),
        ).build(parallel=should_parallelise(info.stages.values(), info.cpu.cores))
        replaced = [name for name in (stages.gather, stages.reduce) if name is not None]
        operands = [weights] if stages.gather is not None else [weights, window.data]
        func = replace_stages(self.func, replaced, stages.write, operands, KERNEL, kernel)
        return schedule_around(func, KERNEL, info.cpu)


def _match(info: BlockInfo) -> AlongFrames | str:
    window = _frame_window(info)
    if isinstance(window, str):
        return window
    if not frame_tiles(window, info.cpu) or waste(window, info.cpu) > MOST_WASTE:
        return f"its {window.columns} columns fill vectors badly"
    sch = fresh_schedule(info.func)
    try:
        stages = isolate_window(sch, info, window)
        func = simplify_indices(sch.mod["main"])
    except tvm.TVMError:  # its stages have no schedule of this kind
        return "what surrounds it cannot be inlined"
    blocks = {name: decided(block) for name, block in stage_nests(func).items()}
    if stages.gather is not None and not _is_along_columns(blocks[stages.gather]):
        return "its data is not read along its columns"
    sums = {region.buffer.data for region in blocks[stages.reduce].writes}
    if not _is_along_columns(blocks[stages.write], sums):
        return "its result is not written along its columns"
    return AlongFrames(info, window, func, stages, blocks)


def _is_along_columns(block: Any, sums: Collection[Any] = ()) -> bool:
    """Tell whether what a block reads and writes lies side by side where its columns do.

    Parameters
    ----------
    sums
        Variables of buffers whose vectors are in registers.
    """
    if not isinstance(block.body, tir.BufferStore):
        return False
    column = block.iter_vars[COLUMN_AXIS].var
    in_memory = (each for each in accesses_of(block.body) if each.buffer.data not in sums)
    steps = {step_of(each, column) for each in in_memory}
    return (
        step_of(block.body, column) == 1
        and steps <= {0, 1}
        and not any(column in variables_of(test) for test in conditions_of(block.body))
    )


ALONG_FRAMES = Template("along_frames", _match)
