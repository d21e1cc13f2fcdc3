"""Attention of one token over a cache: a block of one operator, whose kernel we write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.expressions.cached_attention import CACHED
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.attention.cached_kernel import (
    CachedAttentionKernel,
    CachedOperands,
    CachedTiling,
)
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.root_block import with_root

KERNEL = "cached_attention"

# Places of a task. The last chunk is computed whole, so few, that little of it is for nothing.
CHUNK, CHUNKS = 128, (32, 64, 128, 256, 512)

# Heads that share a loaded key; and vectors of a tile, which are sums of each head.
MOST_ROWS = 4
VECTORS = (4, 2, 1)


@dataclass(frozen=True)
class CachedAttention(Match):
    """A block that is one token's attention over a cache."""

    operands: CachedOperands
    """Its buffers."""

    def knobs(self) -> Knobs:
        """Return the places of a task."""
        choices = chunk_choices(self.operands, self.info.cpu)
        return {"chunk": Knob(max(each for each in choices if each <= CHUNK), choices)}

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info, operands = self.info, self.operands
        kernel = CachedAttentionKernel(
            operands, tiling_of(operands, info.cpu, values["chunk"])
        ).build(parallel=should_parallelise(info.stages.values(), info.cpu.cores))
        reads, writes = (
            [tir.BufferRegion(buffer, _whole(buffer)) for buffer in buffers]
            for buffers in (operands.reads, [operands.result])
        )
        made = tir.Block([], reads, writes, KERNEL, kernel)
        realize = tir.BlockRealize([], tir.const(True, "bool"), made)
        return with_root(info.func, realize, [])


def chunk_choices(operands: CachedOperands, cpu: Cpu) -> tuple[int, ...]:
    """Return the places that a task may take: they divide the cache, and hold whole vectors."""
    places = int(operands.keys.shape[2])
    fitting = [each for each in CHUNKS if places % each == 0 and each % cpu.lanes == 0]
    return tuple(fitting) or (places,)


def tiling_of(operands: CachedOperands, cpu: Cpu, chunk: int) -> CachedTiling:
    """Return how the kernel is divided: as many vectors as registers hold sums of."""
    _, rows, size = (int(extent) for extent in operands.query.shape)
    lanes, rows = cpu.lanes, min(rows, MOST_ROWS)

    def vectors(extent: int) -> int:
        # Beside the sums there are one loaded vector and, in turn, each head's number.
        held = [each for each in VECTORS if rows * each + 2 <= cpu.registers]
        return next(each for each in held if extent % (each * lanes) == 0)

    return CachedTiling(lanes, chunk, rows, vectors(chunk), vectors(size))


def _whole(buffer: Any) -> list[Any]:
    return [tvm.ir.Range(0, extent) for extent in buffer.shape]


def _match(info: BlockInfo) -> CachedAttention | str:
    block = list(info.stages.values())[-1].block
    if CACHED not in block.annotations:
        return "it is no attention over a cache"
    given = {str(buffer.name): buffer for buffer in info.func.buffer_map.values()}
    names = [str(name) for name in block.annotations[CACHED]]
    (written,) = (region.buffer for region in block.writes)
    if not {*names, str(written.name)} <= given.keys():
        return "it computes something besides the attention"
    query, keys, values, key, value, position = (given[name] for name in names)
    operands = CachedOperands(query, keys, values, key, value, position, written)
    size, places = int(operands.query.shape[2]), int(operands.keys.shape[2])
    lanes = info.cpu.lanes
    if size % lanes or places % lanes:
        return f"{size} features and {places} places are no whole vectors of {lanes}"
    return CachedAttention(info, operands)


CACHED_ATTENTION = Template(KERNEL, _match)
