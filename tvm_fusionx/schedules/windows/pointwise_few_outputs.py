"""A pointwise convolution whose few outputs fill no vector: its lanes are input channels.

Up to half a vector of outputs would be computed in vectors as short, with an input broadcast for
each. Here a vector holds input channels, and its lanes are added up at the end, many at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts.hand_written_kernel import replace_stages, stage_nests, storing
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.schedules.windows.isolate import Isolated, isolate_window, weights_of
from tvm_fusionx.schedules.windows.pointwise_few_outputs_kernel import (
    REGISTER_SHARE_OF_WEIGHTS,
    FewOutputsKernel,
    FewOutputsTiling,
    InputVectors,
)
from tvm_fusionx.schedules.windows.pointwise_few_outputs_places import Places, find_places
from tvm_fusionx.schedules.windows.pointwise_tiling import (
    L1_SHARE_OF_BLOCK,
    MOST_TASKS_A_CORE,
    in_chunks,
)
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.flat_access import decided
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.indices import simplify_indices

KERNEL = "pointwise_few_outputs"

# A step of a tree adds two vectors after two shuffles; a result is put in order by another.
STEP_INSTRUCTIONS, ORDER_INSTRUCTIONS = 3, 1

# Alone on Zen 4 one task a core takes 0.99 of the time of two, beside others 1.4.
USUAL_TASKS_A_CORE = 2


def _few_outputs_window(info: BlockInfo) -> Window | str:
    window = find_window(info)
    if isinstance(window, str):
        return window
    if not window.stage.is_plain_dot or str(window.data.dtype) != "float32":
        return "it sums no products of floats as they are"
    if not window.sums_channels or window.kernel != (1, 1) or window.stride != (1, 1):
        return "its window is not one pixel of all channels"
    chunks, height, width, inner = (int(extent) for extent in window.data.shape[1:])
    if window.in_channels != chunks * inner or (height, width) != window.out_shape[2:4]:
        return "its pixels do not read those in the same place"
    if info.producers[window.stage.name]:
        return "its operands are computed"
    return window


@dataclass(frozen=True)
class FewOutputs(Match):
    """A block around a window of one pixel that has few outputs."""

    window: Window
    func: Any
    """The function that has the stages."""
    stages: Isolated
    reduce: Any
    """Block of the window."""
    write: Any
    """Block of what follows, in the window's axes."""
    places: Places
    """The result as vectors."""

    def knobs(self) -> Knobs:
        """Return the pixels of a tile and the tasks."""
        info, window, cpu, places = self.info, self.window, self.info.cpu, self.places
        first = _vectors(window, cpu).pixels
        tiles = [first << power for power in range((places.pixels // first).bit_length())]
        # Twice as many take 1.05 of the time (Zen 4, AVX-512).
        enough = [
            each for each in tiles if each // first * window.block_out >= cpu.sums_to_hide_latency
        ]
        default = min(enough, default=tiles[-1])
        total = window.batch * places.rows * -(-places.length // places.pixels)
        tasks = range(1, min(total, MOST_TASKS_A_CORE * cpu.cores) + 1)
        shares = should_parallelise(info.stages.values(), cpu.cores)
        return {
            "tile_pixels": Knob(default, tuple(tiles)),
            "tasks": Knob(
                min(USUAL_TASKS_A_CORE * cpu.cores, total) if shares else 1, tuple(tasks)
            ),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        window, cpu = self.window, self.info.cpu
        sums = {region.buffer.data for region in self.reduce.writes}
        weights = weights_of(self.reduce, window.data)
        vectors = _vectors(window, cpu)
        kept = window.block_out * vectors.number <= cpu.registers * REGISTER_SHARE_OF_WEIGHTS
        kernel = FewOutputsKernel(
            window,
            weights,
            FewOutputsTiling(values["tile_pixels"], values["tasks"], kept),
            vectors,
            self.places,
            storing(self.write, sums),
        ).build(parallel=values["tasks"] > 1)
        replaced, write = [self.stages.reduce], self.stages.write
        return replace_stages(self.func, replaced, write, [weights, window.data], KERNEL, kernel)


def _match(info: BlockInfo) -> FewOutputs | str:
    window, cpu = _few_outputs_window(info), info.cpu
    if isinstance(window, str):
        return window
    if window.out_blocks > 1 or window.block_out > cpu.lanes // 2:
        return "its outputs are more than half a vector"
    if cpu.lanes % window.block_in and window.block_in % cpu.lanes:
        return "its chunks fill no whole vectors"
    if not _saves_time(window, cpu):
        return "adding up lanes takes more than longer vectors save"
    vectors = _vectors(window, cpu)
    turned = window.block_out * vectors.number * vectors.lanes * FLOAT_BYTES
    if turned > cpu.l1_bytes * L1_SHARE_OF_BLOCK:
        return "its weights do not stay in the first-level cache"
    sch = fresh_schedule(info.func)
    try:
        stages = isolate_window(sch, info, window)
    except tvm.TVMError:  # its stages have no schedule of this kind
        return "what surrounds it cannot be inlined"
    if stages.others:
        # Its buffers are the block's own, which TVM lets no vector index by place in memory.
        return "a stage beside it has a loop nest of its own"
    func = simplify_indices(sch.mod["main"])
    blocks = stage_nests(func)
    reduce, write = blocks[stages.reduce], decided(blocks[stages.write])
    sums = {region.buffer.data for region in reduce.writes}
    # So a vector of results has no fewer pixels than one of inputs.
    places = find_places(write, window, cpu.lanes, window.block_in, sums)
    if places is None:
        return "its result lies in no whole vectors"
    return FewOutputs(info, window, func, stages, reduce, write, places)


def _saves_time(window: Window, cpu: Cpu) -> bool:
    """Tell whether a pixel takes less time than one multiply-add for each input channel.

    That is what vectors of its outputs take, each beside the broadcast of an input. What follows is
    applied to whole vectors besides, which is not counted.
    """
    steps = _vectors(window, cpu).summed - 1
    adding_up = STEP_INSTRUCTIONS * steps + ORDER_INSTRUCTIONS
    # As many vectors of products make a whole vector of results as a pixel has channels.
    whole = window.block_out * (window.in_channels + adding_up) / cpu.lanes
    # Two short ones begin where one of 512 bits does: 64 channels to 8, 56x56, take 17.4 us in
    # short vectors on Zen 4, 19.7 in whole ones, 128 to 4 channels 33.7 and 16.6.
    short = window.in_channels / cpu.multiply_add_units
    return whole / cpu.multiply_adds < short


def _vectors(window: Window, cpu: Cpu) -> InputVectors:
    return InputVectors(cpu.lanes, in_chunks(window), window.block_in)


POINTWISE_FEW_OUTPUTS = Template("pointwise_few_outputs", _match)
