"""A depthwise convolution and the pointwise one after it, as one kernel.

The windows are found in the block's tensor expressions; the loops are laid out by hand in
:mod:`tvm_fusionx.schedules.windows.depthwise_pointwise_kernel`, and what follows each of the
convolutions is applied to its registers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.schedules.parts.hand_written_kernel import (
    Store,
    gather_what_follows,
    replace_stages,
    schedule_around,
    stage_nests,
    storing,
)
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.schedules.windows.depthwise_pointwise_kernel import DepthwisePointwiseKernel
from tvm_fusionx.schedules.windows.depthwise_pointwise_structure import Pair, find_pair
from tvm_fusionx.schedules.windows.depthwise_pointwise_tiling import (
    PairTiling,
    best_pair_tiling,
    pair_pixel_tiles,
    pair_row_choices,
    pair_strips,
    task_pixels,
)
from tvm_fusionx.schedules.windows.first_addend import take_first_addend
from tvm_fusionx.schedules.windows.output_vectors import OutputVectors
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.windows.tiling import ChunkTile, depthwise_columns
from tvm_fusionx.schedules.windows.weight_panel import should_pack
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.half_terms import NOT_IN_HALVES, adds_in_halves, half_terms
from tvm_fusionx.tir.indices import simplify_indices

KERNEL = "depthwise_pointwise"


@dataclass(frozen=True)
class DepthwisePointwise(Match):
    """A block of a depthwise convolution and the pointwise one after it."""

    pair: Pair
    half_terms: int = 0
    """Most terms of a sum of halves; 0 for sums of float32 alone."""

    def knobs(self) -> Knobs:
        """Return the rows of a task and the tiles of both convolutions."""
        pair, cpu = self.pair, self.info.cpu
        tiling = best_pair_tiling(pair, cpu)
        tiles = pair_pixel_tiles(pair, tiling.rows, cpu)
        pixels = tuple(sorted({each.columns for each in tiles}))
        strips = pair_strips(pair, tiling.rows, cpu)
        columns = {each.columns for each in strips} or depthwise_columns(pair.depthwise, cpu)
        heights = Knob(tiling.strip, tuple(sorted({0, *(each.rows for each in strips)})))
        if self.half_terms:
            # A row at a time is summed up in float32.
            heights = Knob(heights.default, tuple(each for each in heights.choices if each))
        return {
            "task_rows": Knob(tiling.rows, tuple(pair_row_choices(pair, cpu))),
            "depthwise_columns": Knob(tiling.columns, tuple(sorted(columns))),
            **({"depthwise_rows": heights} if strips else {}),
            "tile_chunks": Knob(tiling.tile.chunks, tuple(sorted({each.chunks for each in tiles}))),
            "tile_pixels": Knob(tiling.tile.columns, pixels),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info, pair = self.info, self.pair
        sch = fresh_schedule(info.func)
        rows = values["task_rows"]
        pixels, _ = task_pixels(pair, rows, info.cpu)
        tile = ChunkTile(values["tile_chunks"], min(values["tile_pixels"], pixels))
        strip = values.get("depthwise_rows", 0)
        tiling = PairTiling(rows, pixels, values["depthwise_columns"], tile, strip)
        first, second = pair.depthwise.stage.name, pair.pointwise.stage.name
        between = gather_what_follows(sch, info, first, pair.middle)
        write = gather_what_follows(sch, info, second, info.outputs[0])
        func = simplify_indices(sch.mod["main"])
        blocks = stage_nests(func)
        block, addend = blocks[between], None
        if self.half_terms and adds_in_halves(info.func):
            block, addend = take_first_addend(block, _written(blocks[first]))

        def middle(keep: Store) -> Store:
            return storing(block, _written(blocks[first]), keep)

        kernel = DepthwisePointwiseKernel(
            pair,
            tiling,
            middle,
            WindowResult.of(
                blocks[write],
                pair.pointwise.columns,
                OutputVectors.of(pair.pointwise, info.cpu),
                _written(blocks[second]),
                begins_with_bias=info.cpu.begins_with_bias,
            ),
            # A panel would be of floats.
            not self.half_terms and should_pack(pair.pointwise, tile, pixels, info.cpu),
            info.cpu.multiplies_by_lane,
            self.half_terms,
            addend,
        ).build(parallel=should_parallelise(info.stages.values(), info.cpu.cores))
        stages = [name for name in (pair.pad, first, between, second) if name is not None]
        func = replace_stages(func, stages, write, [pair.data], KERNEL, kernel)
        return schedule_around(func, KERNEL, info.cpu)


def _match(info: BlockInfo) -> DepthwisePointwise | str:
    pair = find_pair(info)
    return pair if isinstance(pair, str) else DepthwisePointwise(info, pair)


def _match_in_halves(info: BlockInfo) -> DepthwisePointwise | str:
    pair = find_pair(info)
    if isinstance(pair, str):
        return pair
    first, second = pair.depthwise, pair.pointwise
    terms = half_terms(info.func, pair.data, first.weights, second.weights)
    if terms < max(math.prod(first.kernel), second.block_in):
        return NOT_IN_HALVES
    if any(each % info.cpu.lanes for each in (second.block_in, second.block_out)):
        return "its chunks are no vectors of halves"
    if not best_pair_tiling(pair, info.cpu).strip:
        return "it has no strips of rows"
    return DepthwisePointwise(info, pair, terms)


def _written(block: Any) -> set[Any]:
    return {region.buffer.data for region in block.writes}


DEPTHWISE_POINTWISE = Template("depthwise_pointwise", _match)
DEPTHWISE_POINTWISE_IN_HALVES = Template(DEPTHWISE_POINTWISE.name, _match_in_halves)
