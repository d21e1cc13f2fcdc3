"""Products of data rounded to bytes with packed weights, by instructions that multiply bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tvm_fusionx.expressions.block_weights import (
    ROUNDED_STAGE,
    WORD_PANEL_AXES,
    block_numbers,
)
from tvm_fusionx.processors.integers import DotInstruction
from tvm_fusionx.schedules.packed.bytes_kernel import BytesKernel
from tvm_fusionx.schedules.packed.template import (
    is_largest,
    is_levels,
    knobs_of_tiles,
    only_product,
    operands_of,
)
from tvm_fusionx.schedules.packed.tiling import ROUNDED, PackedTiling
from tvm_fusionx.schedules.parts.hand_written_kernel import (
    gather_what_follows,
    replace_stages,
    schedule_around,
    stage_nests,
    storing,
)
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knobs, KnobValues, Match, Template
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.indices import simplify_indices

KERNEL = "packed_bytes"


@dataclass(frozen=True)
class PackedBytes(Match):
    """A block around a product of rounded data with packed weights."""

    product: str
    """Names of the stages: the product, and what rounds its data."""
    largest: str
    rounded: str
    instruction: DotInstruction
    """What multiplies bytes."""
    rows: int
    """Of the data."""
    panels: int
    """Of the weights."""

    def knobs(self) -> Knobs:
        """Return the panels of a task and the rows of a tile."""
        return knobs_of_tiles(self.panels, self.rows, self.info.cpu, ROUNDED)

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info = self.info
        sch = fresh_schedule(info.func)
        write = gather_what_follows(sch, info, self.product, info.outputs[0])
        func = simplify_indices(sch.mod["main"])
        blocks = stage_nests(func)
        product = blocks[self.product]
        data = next(iter(blocks[self.largest].reads)).buffer
        operands = replace(operands_of(product), data=data)
        tiling = PackedTiling(values["task_panels"], values["tile_rows"])
        internal = {region.buffer.data for region in product.writes}
        lanes = math.gcd(block_numbers(operands.levels), info.cpu.lanes)
        store = storing(blocks[write], internal)
        kernel = BytesKernel(operands, tiling, self.instruction, lanes, store).build(
            parallel=should_parallelise(info.stages.values(), info.cpu.cores)
        )
        stages = [self.largest, self.rounded, self.product]
        func = replace_stages(func, stages, write, operands.buffers, KERNEL, kernel)
        return schedule_around(func, KERNEL, info.cpu)


def _match(info: BlockInfo) -> PackedBytes | str:
    product = only_product(info)
    if isinstance(product, str):
        return product
    stages = info.stages.values()
    largest = [stage for stage in stages if is_largest(stage)]
    rounded = [stage for stage in stages if stage.name.startswith(ROUNDED_STAGE)]
    if len(largest) != 1 or len(rounded) != 1:
        return "its data is not rounded"
    levels = next(each for each in product.reads if is_levels(each))
    if len(levels.shape) != WORD_PANEL_AXES:
        return "its weights lie in no panels of words"
    if any(levels.same_as(each) for each in info.func.body.block.alloc_buffers):
        # The kernel reads it as a row of bytes, which TVM takes for a second buffer there.
        return "its weights are computed in the block"
    panels, width = int(levels.shape[0]), int(levels.shape[3])
    instruction = info.cpu.byte_dot
    if instruction is None or instruction.name_for(width) is None:
        return f"the processor multiplies no bytes for {width} sums at once"
    rows = int(product.spatial[0])
    names = (product.name, largest[0].name, rounded[0].name)
    return PackedBytes(info, *names, instruction, rows, panels)


PACKED_BYTES = Template(KERNEL, _match)
