"""Dense convolution over NCHWc data whose chunks are parts of a vector: they are joined.

Where a vector has 16 lanes, channels that 16 does not divide lie in chunks of 8. A vector of sums
of :mod:`tvm_fusionx.schedules.windows.dense` is a chunk, whose loops are TVM's; here it is two
neighbouring ones, and the loops are laid out by hand
(:mod:`tvm_fusionx.schedules.windows.joined_chunks_kernel`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.schedules.parts.hand_written_kernel import (
    Store,
    replace_stages,
    schedule_around,
    stage_nests,
    storing,
)
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.schedules.windows.isolate import isolate_window, weights_of
from tvm_fusionx.schedules.windows.joined_chunks_kernel import JoinedChunksKernel
from tvm_fusionx.schedules.windows.joined_chunks_tiling import should_join, should_put_together
from tvm_fusionx.schedules.windows.output_vectors import OutputVectors, with_joined_chunks
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.schedules.windows.tiling import (
    ChunkTile,
    Tasks,
    best_tasks,
    column_pieces,
    default_tile,
    register_tiles,
    shared_tiles,
)
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.indices import simplify_indices
from tvm_fusionx.tir.numbers import divisors

KERNEL = "joined_chunks"


@dataclass(frozen=True)
class JoinedChunks(Match):
    """A block around a dense window whose vectors of sums are several chunks."""

    window: Window

    def knobs(self) -> Knobs:
        """Return the register tile, the tasks, and whether weights are put together first."""
        info, cpu = self.info, self.info.cpu
        window = with_joined_chunks(self.window, cpu)
        tiles = register_tiles(window, cpu)
        tile = default_tile(tiles, window, cpu)
        column_tiles = shared_tiles(window, tile, cpu)
        tasks = best_tasks(
            window,
            cpu,
            window.out_blocks // tile.chunks,
            column_tiles,
            gathers=bool(info.producers[window.stage.name]),
        )
        packs = should_put_together(window, tile, tasks)
        return {
            "tile_chunks": Knob(tile.chunks, tuple(sorted({each.chunks for each in tiles}))),
            "tile_columns": Knob(tile.columns, tuple(sorted({each.columns for each in tiles}))),
            "task_rows": Knob(tasks.rows, tuple(divisors(window.rows))),
            "channel_tasks": Knob(tasks.channel_tasks, tuple(divisors(window.out_blocks))),
            "column_tasks": Knob(tasks.column_tasks, tuple(column_pieces(column_tiles))),
            "weights_together": Knob(int(packs), (0, 1)),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info, window = self.info, self.window
        sch = fresh_schedule(info.func)
        stages = isolate_window(sch, info, window)
        func = simplify_indices(sch.mod["main"])
        blocks = stage_nests(func)
        reduce, write = blocks[stages.reduce], blocks[stages.write]
        weights = weights_of(reduce, window.data)
        gathering = None if stages.gather is None else blocks[stages.gather]

        def gather(keep: Store) -> Store:
            return storing(gathering, (), keep)

        vectors = OutputVectors.of(window, info.cpu)
        kernel = JoinedChunksKernel(
            window,
            weights,
            *self._division(values, vectors.number),
            None if gathering is None else gather,
            WindowResult.of(
                write,
                window.columns,
                vectors,
                {region.buffer.data for region in reduce.writes},
                begins_with_bias=info.cpu.begins_with_bias,
            ),
            packs=bool(values["weights_together"]),
        ).build(parallel=should_parallelise(info.stages.values(), info.cpu.cores))
        replaced = [name for name in (stages.gather, stages.reduce) if name is not None]
        operands = [weights] if stages.gather is not None else [weights, window.data]
        func = replace_stages(func, replaced, stages.write, operands, KERNEL, kernel)
        return schedule_around(func, KERNEL, info.cpu)

    def _division(self, values: KnobValues, vectors: int) -> tuple[ChunkTile, Tasks]:
        """Return the register tile and the tasks; tiles of another size make other numbers."""
        tile = ChunkTile(values["tile_chunks"], values["tile_columns"])
        tiles = math.ceil(self.window.columns / tile.columns)
        piece = math.ceil(tiles / min(tiles, values["column_tasks"]))
        channel_tasks = math.gcd(vectors // tile.chunks, values["channel_tasks"])
        return tile, Tasks(values["task_rows"], channel_tasks, math.ceil(tiles / piece))


def _match(info: BlockInfo) -> JoinedChunks | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if not window.stage.is_plain_dot or not window.sums_channels:
        return "it sums no products over channels as they are"
    if window.in_channels != int(window.data.shape[1]) * window.block_in:
        return "its channels are in groups"
    if not should_join(window, info.cpu):
        return "its vectors are no fewer than its chunks"
    written = {
        buffer.data
        for name in info.producers[window.stage.name]
        for buffer in info.stages[name].writes
    }
    if not written <= {window.data.data}:
        return "its weights are computed"
    (result,) = info.stages[info.outputs[0]].writes
    channels, rest = divmod(
        math.prod(int(extent) for extent in result.shape),
        window.batch * window.rows * window.columns,
    )
    if rest or math.ceil(channels / window.block_out) != window.out_blocks:
        return "its result is not written pixel by pixel"
    return JoinedChunks(info, window)


JOINED_CHUNKS = Template(KERNEL, _match)
