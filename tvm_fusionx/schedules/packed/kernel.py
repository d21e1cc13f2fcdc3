"""The kernel of a product with packed weights: a task streams some panels, one tile at a time.

A vector of levels, one of each row of a panel, becomes a vector of weights in four instructions:
widen, mask or shift, convert, scale and add. Each multiplies an element of every row of the tile.
With one row the aim is the time of reading the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.expressions.block_weights import (
    NIBBLE_BITS,
    NIBBLE_MASK,
    NIBBLES,
    NIBBLES_ZERO,
    block_numbers,
    single,
)
from tvm_fusionx.schedules.packed.tiling import PackedTiling
from tvm_fusionx.schedules.parts.hand_written_kernel import Store
from tvm_fusionx.schedules.parts.tasks import start_of, tasks
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import Vectors, broadcast, load, ramp

# Bytes of each row that are written out in the loop over a block.
STEPS = 4


@dataclass(frozen=True)
class Operands:
    """The buffers of a product."""

    data: Any
    """``[M, K]``."""
    levels: Any
    """``[N / n, blocks, bytes, n]``, or in words ``[N / n, blocks, bytes / 4, n, 4]``."""
    scales: Any
    """``[N / n, blocks, n]``: float32, or the bits of halves."""
    minima: Any | None
    """As scales."""

    @property
    def buffers(self) -> list[Any]:
        """All of them."""
        found = (self.data, self.levels, self.scales, self.minima)
        return [buffer for buffer in found if buffer is not None]

    @property
    def rows(self) -> int:
        """Of the data."""
        return int(self.data.shape[0])

    @property
    def panels(self) -> int:
        """Of the weights."""
        return int(self.levels.shape[0])

    @property
    def has_nibbles(self) -> bool:
        """Whether two levels share a byte."""
        return str(self.levels.dtype) == NIBBLES


def emit_tiles(
    ib: Any,
    operands: Operands,
    tiling: PackedTiling,
    tile: Callable[[Any, Any], None],
    *,
    parallel: bool,
) -> None:
    """Emit all tiles of a product, each by its first panel and row; a task has whole panels."""
    groups = operands.panels // tiling.panels
    tiles = -(-operands.rows // tiling.rows)
    with tasks(ib, [groups], parallel=parallel) as (group,):
        if tiles == 1:
            tile(group * tiling.panels, 0)
        else:
            with ib.for_range(0, tiles, "tile") as number:
                tile(group * tiling.panels, start_of(number, tiling.rows, operands.rows))


class PackedKernel:
    """Emits the kernel.

    Parameters
    ----------
    operands
        Its buffers.
    tiling
        How it is divided.
    store
        Stores a value at a row and a column of the product.
    """

    def __init__(self, operands: Operands, tiling: PackedTiling, store: Store) -> None:
        self.operands, self.tiling, self.store = operands, tiling, store
        self.lanes = int(operands.levels.shape[-1])
        self.ib = tir.ir_builder.create()

    def build(self, *, parallel: bool) -> Any:
        """Return the statement."""
        emit_tiles(self.ib, self.operands, self.tiling, self._tile, parallel=parallel)
        return self.ib.get()

    def _tile(self, panel: Any, row: Any) -> None:
        tiling, lanes = self.tiling, self.lanes
        places = tiling.rows * tiling.panels
        sums = VectorSums(self.ib, places * tiling.chains, lanes, "float32")
        sums.fill()
        vectors = Vectors(self.ib, "float32")
        halves = vectors.allocate("halves", 2 * tiling.panels * lanes, "local")
        weights = vectors.allocate("weights", tiling.panels * lanes, "local")
        blocks, count = (int(each) for each in self.operands.levels.shape[1:3])
        size = block_numbers(self.operands.levels)
        with self.ib.for_range(0, blocks, "block") as block:
            for number in range(tiling.panels):
                for at, value in enumerate(self._scale_and_shift(panel + number, block)):
                    vectors.store(halves, (2 * number + at) * lanes, value, lanes)
            with self.ib.for_range(0, count // STEPS, "step") as step:
                for turn, (byte, within, shift) in enumerate(self._numbers(step, count)):
                    for number in range(tiling.panels):
                        level = self._level(panel + number, block, byte, shift)
                        scale, added = (
                            load(halves, (2 * number + at) * lanes, lanes) for at in range(2)
                        )
                        weight = level * scale
                        weight = weight + added if self._has_shift else weight
                        vectors.store(weights, number * lanes, weight, lanes)
                    self._add(sums, weights, row, block * size + within, turn % tiling.chains)
        self._finish(sums, panel, row)

    @property
    def _has_shift(self) -> bool:
        return self.operands.has_nibbles or self.operands.minima is not None

    def _scale_and_shift(self, panel: Any, block: Any) -> Iterator[Any]:
        """Give what levels of a block are multiplied by, and what is added then."""
        operands, place = self.operands, ramp(0, self.lanes)
        scale = single(tir.BufferLoad(operands.scales, [panel, block, place]))
        yield scale
        if operands.minima is not None:
            yield single(tir.BufferLoad(operands.minima, [panel, block, place]))
        elif operands.has_nibbles:
            yield scale * broadcast(tir.const(-NIBBLES_ZERO, "float32"), self.lanes)

    def _numbers(self, step: Any, count: int) -> Iterator[tuple[Any, Any, int | None]]:
        """Give byte, place in its block, and shift of each number that a step unpacks."""
        for place in range(STEPS):
            byte = step * STEPS + place
            if not self.operands.has_nibbles:
                yield byte, byte, None
                continue
            yield byte, byte, 0
            yield byte, byte + count, NIBBLE_BITS

    def _level(self, panel: Any, block: Any, byte: Any, shift: int | None) -> Any:
        lanes = self.lanes
        place = [panel, block, byte, ramp(0, lanes)]
        level = tir.Cast(f"int32x{lanes}", tir.BufferLoad(self.operands.levels, place))
        if shift == 0:
            level = level & broadcast(tir.const(NIBBLE_MASK, "int32"), lanes)
        elif shift is not None:
            level = level >> broadcast(tir.const(shift, "int32"), lanes)
        return tir.Cast(f"float32x{lanes}", level)

    def _add(self, sums: VectorSums, weights: Any, row: Any, column: Any, chain: int) -> None:
        for at in range(self.tiling.rows):
            element = broadcast(tir.BufferLoad(self.operands.data, [row + at, column]), self.lanes)
            for number in range(self.tiling.panels):
                weight = load(weights, number * self.lanes, self.lanes)
                sums.add_product(self._place(at, number, chain), element, weight)

    def _place(self, row: int, panel: int, chain: int) -> int:
        return (row * self.tiling.panels + panel) * self.tiling.chains + chain

    def _finish(self, sums: VectorSums, panel: Any, row: Any) -> None:
        tiling = self.tiling
        for at in range(tiling.rows):
            for number in range(tiling.panels):
                first = self._place(at, number, 0)
                for chain in range(1, tiling.chains):
                    sums.put(first, sums.value(first) + sums.value(first + chain))
                column = (panel + number) * self.lanes

                def store(row: Any, lane: Any, value: Any, column: Any = column) -> Any:
                    return self.store(row, column + lane, value)

                sums.store(store, (row + at,), first)
