"""Convolutions that reuse products: blocks of one operator, whose kernel we write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.expressions.similar_products import REUSED, REUSED_BUFFERS, reuse_layer_of
from tvm_fusionx.reuse.layer import ReuseLayer
from tvm_fusionx.reuse.tiling import (
    ReuseTiling,
    hash_lanes,
    hash_row_choices,
    product_row_choices,
    result_lanes,
    vector_choices,
)
from tvm_fusionx.schedules.parts.parallelism import MIN_PARALLEL_WORK
from tvm_fusionx.schedules.reuse.kept_kernel import KeptKernel
from tvm_fusionx.schedules.reuse.kernel import ReuseKernel, ReuseOperands
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.root_block import with_root

KERNEL = "reuse"


@dataclass(frozen=True)
class Reuse(Match):
    """A block that is a convolution whose similar rows share products."""

    layer: ReuseLayer
    """What is computed."""

    def knobs(self) -> Knobs:
        """Return the rows of the tiles of hashing and of products, and their vectors."""
        layer, cpu = self.layer, self.info.cpu
        hashed = hash_row_choices(layer, cpu)
        vectors = vector_choices(layer, cpu)
        wide = max(each for each in vectors if each <= 2)
        rows = product_row_choices(layer, wide, cpu)
        return {
            "hash_rows": Knob(hashed[-1], hashed),
            "product_rows": Knob(rows[-1], rows),
            "product_vectors": Knob(wide, tuple(each for each in vectors if each <= wide)),
            "sum_vectors": Knob(vectors[-1], vectors),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        layer, cpu, func = self.layer, self.info.cpu, self.info.func
        block = next(iter(self.info.stages.values())).block
        operands = _operands(func, block)
        assert operands is not None, block
        tiling = ReuseTiling(
            hash_lanes(layer, cpu),
            values["hash_rows"],
            result_lanes(layer, cpu),
            values["product_rows"],
            values["product_vectors"],
            values["sum_vectors"],
        )
        work = layer.rows * layer.columns * layer.bits
        written = KeptKernel if layer.kept else ReuseKernel
        kernel = written(layer, operands, tiling).build(
            parallel=cpu.cores > 1 and work >= MIN_PARALLEL_WORK
        )
        reads, writes = (
            [tir.BufferRegion(buffer, _whole(buffer)) for buffer in buffers]
            for buffers in (operands.reads, [operands.result])
        )
        made = tir.Block([], reads, writes, KERNEL, kernel)
        realize = tir.BlockRealize([], tir.const(True, "bool"), made)
        return with_root(func, realize, [])


def _operands(func: Any, block: Any) -> ReuseOperands | None:
    """Return a layer's buffers, or None where they are no parameters of the function."""
    given = {str(buffer.name): buffer for buffer in func.buffer_map.values()}
    names = [str(name) for name in block.annotations[REUSED_BUFFERS]]
    written = str(block.writes[0].buffer.name)
    if not {*names, written} <= given.keys():
        return None
    data, weights, projections, thresholds, bias, *kept = (given[name] for name in names)
    return ReuseOperands(data, weights, projections, thresholds, bias, given[written], *kept)


def _whole(buffer: Any) -> list[Any]:
    return [tvm.ir.Range(0, extent) for extent in buffer.shape]


def _match(info: BlockInfo) -> Reuse | str:
    block = list(info.stages.values())[-1].block
    if REUSED not in block.annotations:
        return "it reuses no products"
    if len(info.stages) != 1 or _operands(info.func, block) is None:
        return "it computes something besides the convolution"
    return Reuse(info, reuse_layer_of(block.annotations))


REUSE = Template(KERNEL, _match)
