"""Recurrent layers: blocks of one operator, whose kernel we write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.operators.recurrent_layer import Layer, results_of
from tvm_fusionx.operators.recurrent_operator import BUFFERS, LAYER, RESULTS, layer_of
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.parallelism import MIN_PARALLEL_WORK
from tvm_fusionx.schedules.recurrent.kernel import Operands, RecurrentKernel
from tvm_fusionx.schedules.recurrent.tiling import (
    RecurrentTiling,
    chains_of,
    default_tile,
    group_count,
    most_slices,
    row_choices,
    shares_steps,
    unit_choices,
)
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.root_block import with_root

KERNEL = "recurrent"


@dataclass(frozen=True)
class Recurrent(Match):
    """A block that is a recurrent layer."""

    layer: Layer
    """What is computed."""

    def knobs(self) -> Knobs:
        """Return rows and units of a tile, and whether the cores share each step."""
        cpu = self.info.cpu
        rows, units = default_tile(self.layer, cpu)
        return {
            "tile_rows": Knob(rows, row_choices(self.layer)),
            "tile_units": Knob(units, unit_choices(self.layer, cpu)),
            "share_steps": Knob(
                int(shares_steps(self.layer, cpu)), (0, 1) if cpu.cores > 1 else (0,)
            ),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        layer, cpu, func = self.layer, self.info.cpu, self.info.func
        block = next(iter(self.info.stages.values())).block
        tiling = tiling_of(layer, cpu, values)
        operands = _operands(func, block)
        assert operands is not None, block
        work = layer.steps * layer.batch * layer.weights
        kernel = RecurrentKernel(layer, operands, tiling).build(
            parallel=cpu.cores > 1 and work >= MIN_PARALLEL_WORK
        )
        reads, writes = (
            [tir.BufferRegion(buffer, _whole(buffer)) for buffer in buffers]
            for buffers in (operands.reads, operands.writes)
        )
        made = tir.Block([], reads, writes, KERNEL, kernel)
        realize = tir.BlockRealize([], tir.const(True, "bool"), made)
        return with_root(func, realize, [])


def tiling_of(layer: Layer, cpu: Cpu, values: KnobValues) -> RecurrentTiling:
    """Return how a layer is divided, by the values of the knobs."""
    rows, units = values["tile_rows"], values["tile_units"]
    lanes = min(cpu.lanes, units)
    sums = rows * units // lanes * max(map(len, layer.phases))
    slices = 0 if values["share_steps"] else most_slices(layer, cpu)
    return RecurrentTiling(
        lanes, rows, units, chains_of(sums, cpu), slices, group_count(layer, units, cpu)
    )


def _operands(func: Any, block: Any) -> Operands | None:
    """Return a layer's buffers, or None where they are no parameters of the function."""
    given = {str(buffer.name): buffer for buffer in func.buffer_map.values()}
    names = [str(name) for name in block.annotations[BUFFERS]]
    written = {str(region.buffer.name) for region in block.writes}
    layer = layer_of(block.annotations)
    if not set(names) <= given.keys() or written != set(RESULTS[: len(results_of(layer))]):
        return None
    shares, weights, bias, h, c, lengths = (given[name] for name in names)
    every, last, cell = (given.get(name) for name in RESULTS)
    return Operands(shares, weights, bias, h, c, lengths, every, last, cell)


def _whole(buffer: Any) -> list[Any]:
    return [tvm.ir.Range(0, extent) for extent in buffer.shape]


def _match(info: BlockInfo) -> Recurrent | str:
    stages = list(info.stages.values())
    if LAYER not in stages[-1].block.annotations:
        return "it is no recurrent layer"
    block = stages[-1].block
    if len(stages) != 1 or _operands(info.func, block) is None:
        return "it computes something besides the layer"
    return Recurrent(info, layer_of(block.annotations))


RECURRENT = Template(KERNEL, _match)
