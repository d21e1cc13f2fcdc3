"""A pointwise convolution over NCHWc data, its pixels counted across rows.

Rows of seven or fourteen pixels fill no whole tiles of four, and each of them would stream the
weights anew. Here tiles run across the rows, and the weights of some input channels stay in the
first-level cache while all pixels of a task pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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
from tvm_fusionx.schedules.windows.output_vectors import OutputVectors, with_joined_chunks
from tvm_fusionx.schedules.windows.pointwise_kernel import PointwiseKernel
from tvm_fusionx.schedules.windows.pointwise_tiling import (
    PointwiseTiling,
    best_tiling,
    in_chunks,
    pixel_tiles,
    task_choices,
)
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.schedules.windows.tiling import ChunkTile
from tvm_fusionx.schedules.windows.weight_panel import should_pack
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.half_terms import NOT_IN_HALVES, adds_in_halves, half_terms
from tvm_fusionx.tir.indices import simplify_indices
from tvm_fusionx.tir.numbers import divisors

KERNEL = "pointwise"
NO_PRODUCTS = "its reduction is not a sum of products of elements as they are"


def _pointwise_window(info: BlockInfo) -> Window | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if not window.stage.is_plain_dot:
        return NO_PRODUCTS
    if not window.sums_channels or window.kernel != (1, 1) or window.stride != (1, 1):
        return "its window is not one pixel of all channels"
    chunks, height, width, inner = (int(extent) for extent in window.data.shape[1:])
    if window.in_channels != chunks * inner or (height, width) != window.out_shape[2:4]:
        return "its pixels do not read those in the same place"
    if window.rows == 1:
        return "its pixels are one row"
    return window


@dataclass(frozen=True)
class Pointwise(Match):
    """A block around a window of one pixel, whose pixels are counted across rows."""

    window: Window
    half_terms: int = 0
    """Most terms of a sum of halves; 0 for sums of float32 alone."""

    def knobs(self) -> Knobs:
        """Return the register tile, the tasks, and the input channels of a block."""
        cpu, window = self.info.cpu, with_joined_chunks(self.window, self.info.cpu)
        gathers = bool(self.info.producers[window.stage.name])
        best = best_tiling(window, cpu, gathers=gathers)
        tiles = pixel_tiles(window, cpu)
        return {
            "tile_chunks": Knob(best.tile.chunks, tuple(sorted({each.chunks for each in tiles}))),
            "tile_pixels": Knob(best.tile.columns, tuple(sorted({each.columns for each in tiles}))),
            "pixel_tasks": Knob(best.pixel_tasks, tuple(task_choices(window, cpu))),
            "channel_tasks": Knob(best.channel_tasks, tuple(divisors(window.out_blocks))),
            "block_chunks": Knob(best.block_chunks, tuple(divisors(in_chunks(window)))),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info, window = self.info, self.window
        sch = fresh_schedule(info.func)
        number = with_joined_chunks(window, info.cpu).out_blocks
        # Tiles of another size make other numbers of tiles.
        channel_tasks = math.gcd(number // values["tile_chunks"], values["channel_tasks"])
        tiling = PointwiseTiling(
            ChunkTile(values["tile_chunks"], values["tile_pixels"]),
            values["pixel_tasks"],
            channel_tasks,
            values["block_chunks"],
        )
        stages = isolate_window(sch, info, window)
        func = simplify_indices(sch.mod["main"])
        blocks = stage_nests(func)
        reduce, write = blocks[stages.reduce], blocks[stages.write]
        weights = weights_of(reduce, window.data)
        gathering = None if stages.gather is None else blocks[stages.gather]

        def gather(keep: Store) -> Store:
            return storing(gathering, (), keep)

        sums = {region.buffer.data for region in reduce.writes}
        kernel = PointwiseKernel(
            window,
            weights,
            tiling,
            None if gathering is None else gather,
            WindowResult.of(
                write,
                window.columns,
                OutputVectors.of(window, info.cpu),
                sums,
                begins_with_bias=info.cpu.begins_with_bias,
            ),
            # A panel would be of floats.
            not self.half_terms
            and should_pack(window, tiling.tile, tiling.pixels(window), info.cpu),
            info.cpu.multiplies_by_lane,
            self.half_terms,
            adds_in_halves(info.func),
        ).build(parallel=should_parallelise(info.stages.values(), info.cpu.cores))
        replaced = [name for name in (stages.gather, stages.reduce) if name is not None]
        operands = [weights] if stages.gather is not None else [weights, window.data]
        func = replace_stages(func, replaced, stages.write, operands, KERNEL, kernel)
        return schedule_around(func, KERNEL, info.cpu)


def _match(info: BlockInfo) -> Pointwise | str:
    window = _pointwise_window(info)
    if isinstance(window, str):
        return window
    if with_joined_chunks(window, info.cpu).block_out % info.cpu.lanes:
        return "its chunks fill no whole vectors"
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
    return Pointwise(info, window)


def _match_in_halves(info: BlockInfo) -> Pointwise | str:
    found = _match(info)
    if isinstance(found, str):
        return found
    window = found.window
    if info.producers[window.stage.name]:
        return "its pixels are computed"
    terms = half_terms(info.func, window.data, window.weights)
    if terms < window.block_in:
        return NOT_IN_HALVES
    if window.block_in % info.cpu.lanes or window.block_out % info.cpu.lanes:
        return "its chunks are no vectors of halves"
    return replace(found, half_terms=terms)


POINTWISE = Template("pointwise", _match)
POINTWISE_IN_HALVES = Template(POINTWISE.name, _match_in_halves)
