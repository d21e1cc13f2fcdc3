"""The kernel of a product of bytes on tiles, laid out by hand.

One parallel loop over tasks: some places of the result of one image, and a part of its channels. A
task puts its data together, the terms of a place side by side, where they do not lie so; then it
sums blocks of up to two by two tiles. A block is stored in a small buffer, and what follows the
product is applied to vectors from there.

    data    [places][terms]      weights [N / n, terms / 4, n, 4], for each place of a window
    sums    [2][2][16][16]
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.processors.integers import SUM, WORD_BYTES, ByteTiles
from tvm_fusionx.schedules.byte_tiles.tiling import (
    BlockOfTiles,
    ProductShape,
    TileTasks,
    block_of,
)
from tvm_fusionx.schedules.parts.hand_written_kernel import Store
from tvm_fusionx.schedules.parts.tasks import start_of, tasks
from tvm_fusionx.schedules.parts.vectors import each_lane
from tvm_fusionx.tir.tile_calls import TileRegisters, asking_first

# Bytes of a sum.
SUM_BYTES = 4

# Chunks of channels that are copied one after the other: those of one line of 64 bytes, of 16.
CHUNKS_TOGETHER = 4


@dataclass(frozen=True)
class TileOperands:
    """What a kernel reads, and how."""

    data: Any
    """Buffer whose last axis has the terms side by side, where nothing is gathered: ``[M, K]``."""
    weights: Any
    """Buffer of packed weights."""
    weight_place: Callable[[Any, Any, Any, Any], list[Any]]
    """Returns where a tile of weights begins: takes the number of the tile of columns, row and
    column of the window, and the first term."""
    weight_stride: int
    """Bytes from four terms to the next four."""
    vectors: int
    """Vectors of a place that are gathered; 0 where the data is read as it lies."""
    gather: Callable[..., Any] | None = None
    """Returns the statement that gathers vector `number` of a place: takes image, row,
    column, number, what makes a statement of a lane and its value, and the lane."""
    lanes: int = 0
    """Of these vectors."""


class TileKernel:
    """Emits the kernel.

    Parameters
    ----------
    shape
        What is computed.
    work
        What a task computes of it.
    operands
        What it reads.
    tiles, product
        What the processor has, and the name of the instruction.
    store
        Called with image, row, column, tile of columns, lane and the value.
    """

    def __init__(
        self,
        shape: ProductShape,
        work: TileTasks,
        operands: TileOperands,
        tiles: ByteTiles,
        product: str,
        store: Store,
    ) -> None:
        self.shape, self.work, self.operands = shape, work, operands
        self.tiles, self.product, self.store = tiles, product, store
        self.block: BlockOfTiles = block_of(work.rows, work.columns, shape.outputs, tiles)
        self.step = shape.step_bytes(tiles)
        self.ib = tir.ir_builder.create()
        self.registers = TileRegisters(self.ib, tiles)

    def build(self, *, parallel: bool) -> Any:
        """Return the statement."""
        shape, work, block, ib = self.shape, self.work, self.block, self.ib
        numbers = shape.outputs // self.tiles.columns
        across = math.ceil(numbers / block.across)
        groups = math.ceil(across / work.parts)
        slabs = math.ceil(shape.rows / work.rows), math.ceil(shape.columns / work.columns)
        extents = (shape.batch, *slabs, math.ceil(across / groups))
        with tasks(ib, extents, parallel=parallel) as (image, slab, piece, part):
            row = start_of(slab, work.rows, shape.rows)
            column = start_of(piece, work.columns, shape.columns)
            data = self._gathered(image, row, column)
            self._configure()
            sums = ib.allocate(SUM, (self._sums,), "tile_sums", scope="global")._buffer
            with ExitStack() as loops:
                group, down, along = (
                    loops.enter_context(ib.for_range(0, extent, name))
                    for extent, name in (
                        (groups, "group"),
                        (math.ceil(work.rows / block.places_down), "down"),
                        (math.ceil(work.columns / block.columns), "along"),
                    )
                )
                first = start_of(start_of(part, groups, across) + group, block.across, numbers)
                top = start_of(down, block.places_down, work.rows)
                left = start_of(along, block.columns, work.columns)
                places = [self._place(top, left, number) for number in range(block.down)]
                self._sum(data, sums, first, places)
                self._store(sums, first, [(image, row + y, column + x) for y, x in places])
            self.registers.release()
        return asking_first(ib.get())

    @property
    def _sums(self) -> int:
        return self.block.down * self.block.across * self._tile_elements

    @property
    def _tile_elements(self) -> int:
        return self.tiles.rows * self.tiles.columns

    def _place(self, top: Any, left: Any, number: int) -> tuple[Any, Any]:
        """Return where one of the tiles below one another begins, in the task's places."""
        if self.block.in_rows:
            return top + number, left
        return top, left + number * self.block.apart

    # Tiles of sums come first, then those of data, then those of weights.

    def _sums_tile(self, down: int, across: int) -> int:
        return down * self.block.across + across

    def _data_tile(self, down: int) -> int:
        return self.block.down * self.block.across + down

    def _weight_tile(self, across: int) -> int:
        return self._data_tile(self.block.down) + across

    def _configure(self) -> None:
        block, wide = self.block, self.tiles.row_bytes
        shapes = {}
        for down in range(block.down):
            shapes[self._data_tile(down)] = (block.rows, self.step)
            for across in range(block.across):
                shapes[self._sums_tile(down, across)] = (block.rows, wide)
        for across in range(block.across):
            shapes[self._weight_tile(across)] = (self.step // WORD_BYTES, wide)
        self.registers.configure(shapes)

    def _gathered(self, image: Any, row: Any, column: Any) -> Callable[..., Any]:
        """Gather the data of a task; return what loads a tile of it."""
        operands, shape, work, ib = self.operands, self.shape, self.work, self.ib
        if operands.gather is None:

            def load_in_place(tile: int, _: Any, place: Any, term: Any) -> None:
                start = [column + place, term]
                self.registers.load(tile, operands.data, start, shape.terms)

            return load_in_place
        rows, columns = shape.rows_read(work.rows), shape.columns_read(work.columns)
        stride = shape.row_stride()
        dtype = operands.data.dtype
        wide = ib.allocate(dtype, (rows * columns * stride,), "wide", scope="global")._buffer
        together = math.gcd(operands.vectors, CHUNKS_TOGETHER)
        top, left = row * shape.stride[0], column * shape.stride[1]
        with (
            ib.for_range(0, rows, "row") as down,
            ib.for_range(0, operands.vectors // together, "run") as run,
            ib.for_range(0, columns, "column") as along,
        ):
            for each in range(together):
                number = run * together + each
                start = (down * columns + along) * stride + number * operands.lanes

                def keep(lane: Any, value: Any, start: Any = start) -> Any:
                    return tir.BufferStore(wide, value, [start + lane])

                copied = functools.partial(
                    operands.gather, image, top + down, left + along, number, keep
                )
                ib.emit(each_lane(operands.lanes, copied))

        def load(tile: int, y: Any, x: Any, term: Any) -> None:
            start = (y * columns + x) * stride + term
            self.registers.load(tile, wide, [start], shape.stride[1] * stride)

        return load

    def _sum(
        self, data: Callable[..., Any], sums: Any, first: Any, places: list[tuple[Any, Any]]
    ) -> None:
        """Sum one block and store its tiles."""
        block, shape, ib, registers = self.block, self.shape, self.ib, self.registers
        every = [(down, across) for down in range(block.down) for across in range(block.across)]
        for down, across in every:
            registers.clear(self._sums_tile(down, across))
        with (
            ib.for_range(0, shape.kernel[0], "kh") as kh,
            ib.for_range(0, shape.kernel[1], "kw") as kw,
            ib.for_range(0, shape.terms // self.step, "k") as step,
        ):
            for across in range(block.across):
                place = self.operands.weight_place(first + across, kh, kw, step * self.step)
                registers.load(
                    self._weight_tile(across),
                    self.operands.weights,
                    place,
                    self.operands.weight_stride,
                )
            for down, (y, x) in enumerate(places):
                at = (
                    y * shape.stride[0] + kh * shape.dilation[0],
                    x * shape.stride[1] + kw * shape.dilation[1],
                )
                data(self._data_tile(down), *at, step * self.step)
                for across in range(block.across):
                    registers.multiply(
                        self.product,
                        self._sums_tile(down, across),
                        self._data_tile(down),
                        self._weight_tile(across),
                    )
        for down, across in every:
            tile = self._sums_tile(down, across)
            place = [tile * self._tile_elements]
            registers.store(tile, sums, place, self.tiles.columns * SUM_BYTES)

    def _store(self, sums: Any, first: Any, places: list[tuple[Any, Any, Any]]) -> None:
        """Apply what follows to the stored tiles of a block."""
        block, ib, lanes = self.block, self.ib, self.tiles.columns
        for down, (image, row, column) in enumerate(places):
            with ib.for_range(0, block.rows, "place") as place:
                for across in range(block.across):
                    tile = self._sums_tile(down, across)
                    start = tile * self._tile_elements + place * lanes
                    at = (image, row, column + place, first + across)

                    def stored(lane: Any, at: Any = at, start: Any = start) -> Any:
                        value = tir.BufferLoad(sums, [start + lane])
                        return self.store(*at, lane, value)

                    loop = each_lane(lanes, stored)
                    if isinstance(loop.body, tir.IfThenElse):
                        loop = tir.For(loop.loop_var, 0, lanes, tir.ForKind.UNROLLED, loop.body)
                    ib.emit(loop)
