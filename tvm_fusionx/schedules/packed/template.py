"""Products of a matrix with weights that lie in panels of packed blocks, and what follows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.expressions.block_weights import BYTES, LARGEST_STAGE, NIBBLES, PANEL_AXES
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.packed.kernel import Operands, PackedKernel
from tvm_fusionx.schedules.packed.tiling import (
    FLOATS,
    Held,
    PackedTiling,
    chains_of,
    default_panels,
    default_rows,
    most_rows,
    panel_choices,
)
from tvm_fusionx.schedules.parts.hand_written_kernel import (
    gather_what_follows,
    replace_stages,
    schedule_around,
    stage_nests,
    storing,
)
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.tir.block import BlockInfo, Stage
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.indices import simplify_indices

KERNEL = "packed"

# What `expressions.block_weights` calls the stage.
STAGE = "block_dense"


@dataclass(frozen=True)
class Packed(Match):
    """A block around a product with packed weights."""

    stage: str
    """Name of the product's stage."""
    rows: int
    """Of the data."""
    panels: int
    """Of the weights."""

    def knobs(self) -> Knobs:
        """Return the panels of a task and the rows of a tile."""
        return knobs_of_tiles(self.panels, self.rows, self.info.cpu, FLOATS)

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info = self.info
        sch = fresh_schedule(info.func)
        write = gather_what_follows(sch, info, self.stage, info.outputs[0])
        func = simplify_indices(sch.mod["main"])
        blocks = stage_nests(func)
        reduce = blocks[self.stage]
        operands = operands_of(reduce)
        panels, rows = values["task_panels"], values["tile_rows"]
        tiling = PackedTiling(panels, rows, chains_of(rows, panels, info.cpu))
        internal = {region.buffer.data for region in reduce.writes}
        kernel = PackedKernel(operands, tiling, storing(blocks[write], internal)).build(
            parallel=should_parallelise(info.stages.values(), info.cpu.cores)
        )
        func = replace_stages(func, [self.stage], write, operands.buffers, KERNEL, kernel)
        return schedule_around(func, KERNEL, info.cpu)


def knobs_of_tiles(panels: int, rows: int, cpu: Cpu, held: Held) -> Knobs:
    """Return the panels of a task and the rows of a tile that a kernel may have."""
    default = default_panels(panels, rows, cpu, held)
    most = min(rows, most_rows(1, cpu, held))
    return {
        "task_panels": Knob(default, panel_choices(panels)),
        "tile_rows": Knob(default_rows(rows, default, cpu, held), tuple(range(1, most + 1))),
    }


def operands_of(block: Any) -> Operands:
    """Return the buffers that a product's block reads, weights in panels, by what they are."""
    shared: list[Any] = []
    found: dict[str, Any] = {}
    written = {region.buffer.data for region in block.writes}

    def visit(node: Any) -> None:
        if not isinstance(node, tir.BufferLoad) or node.buffer.data in written:
            return
        if is_levels(node.buffer):
            found["levels"] = node.buffer
        elif len(node.buffer.shape) == PANEL_AXES - 1:
            # The scale stands before the minimum; they may be one constant.
            shared.append(node.buffer)
        else:
            found["data"] = node.buffer

    tir.stmt_functor.post_order_visit(block.body, visit)
    scales, *minima = shared
    return Operands(found["data"], found["levels"], scales, minima[0] if minima else None)


def _match(info: BlockInfo) -> Packed | str:
    product = only_product(info)
    if isinstance(product, str):
        return product
    reads = [region.buffer for region in product.block.reads]
    if not any(is_levels(each) and len(each.shape) == PANEL_AXES for each in reads):
        return "its weights lie in no panels"
    operands = operands_of(product.block)
    if str(operands.data.dtype) != "float32":
        return f"its data is {operands.data.dtype}"
    return Packed(info, product.name, operands.rows, operands.panels)


def only_product(info: BlockInfo) -> Stage | str:
    """Return the product of a block that has one and nothing besides, or why there is none."""
    products = [stage for stage in info.stages.values() if is_product(stage)]
    if len(products) != 1:
        return "it has no product with packed weights" if not products else "it has two of them"
    for stage in info.stages.values():
        if stage.is_reduction and stage is not products[0] and not is_largest(stage):
            return "it reduces something besides"
    return products[0] if len(info.outputs) == 1 else "it has several results"


def is_product(stage: Stage) -> bool:
    """Tell whether a stage is a product with packed weights."""
    return stage.is_reduction and stage.name.startswith(STAGE)


def is_largest(stage: Stage) -> bool:
    """Tell whether a stage finds the largest number of each block of a product's data."""
    return stage.is_reduction and stage.name.startswith(LARGEST_STAGE)


def is_levels(buffer: Any) -> bool:
    """Tell whether a buffer holds levels."""
    return str(buffer.dtype) in (NIBBLES, BYTES)


PACKED = Template(KERNEL, _match)
