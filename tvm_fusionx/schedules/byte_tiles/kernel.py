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
from tvm_fusionx.schedules.byte_tiles.blocks import BlockOfTiles
from tvm_fusionx.schedules.byte_tiles.shape import ProductShape
from tvm_fusionx.schedules.byte_tiles.tiling import TileTasks
from tvm_fusionx.schedules.parts.hand_written_kernel import Store
from tvm_fusionx.schedules.parts.tasks import start_of, tasks
from tvm_fusionx.schedules.parts.vectors import each_lane
from tvm_fusionx.schedules.parts.whole_vectors import whole_or_by_lane
from tvm_fusionx.tir.tile_calls import TileRegisters, asking_first

# Bytes of a sum.
SUM_BYTES = 4

# Chunks of channels that are copied one after the other: those of one line of 64 bytes, of 16.
CHUNKS_TOGETHER = 4


@dataclass(frozen=True)
class TileOperands:
    """What a kernel reads, and how."""

    data: Any
    """Buffer whose last axis has the terms side by side, where nothing is gathered: ``[M, K]``, or
    an image of one chunk."""
    weights: Any
    """Buffer of packed weights."""
    weight_place: Callable[[Any, Any, Any, Any], list[Any]]
    """Returns where a tile of weights begins: takes the number of the tile of columns, row and
    column of the window, and the first term."""
    weight_stride: int
    """Bytes from four terms to the next four."""
    data_place: Callable[[Any, Any, Any, Any], list[Any]]
    """Returns where data that is read as it lies begins: takes image, row, column and term."""
    vectors: int = 0
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
    work, block
        What a task computes of it, and the tiles that it sums at the same time.
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
        block: BlockOfTiles,
        operands: TileOperands,
        tiles: ByteTiles,
        product: str,
        store: Store,
    ) -> None:
        self.shape, self.work, self.block, self.operands = shape, work, block, operands
        self.tiles, self.product, self.store = tiles, product, store
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
            sums = self._buffer(SUM, self._sums, "tile_sums")
            with ExitStack() as loops:
                group, down, along = (
                    loops.enter_context(ib.for_range(0, extent, name))
                    for extent, name in (
                        (groups, "group"),
                        (math.ceil(work.rows / block.lines), "down"),
                        (1 if block.pitch else math.ceil(work.columns / block.columns), "along"),
                    )
                )
                first = start_of(start_of(part, groups, across) + group, block.across, numbers)
                top = start_of(down, block.lines, work.rows)
                left = 0 if block.pitch else start_of(along, block.columns, work.columns)
                places = [self._place(top, left, number) for number in range(block.down)]
                self._sum(data, sums, first, places)
                if block.pitch:
                    self._store_lines(sums, first, image, row, column)
                else:
                    self._store(sums, first, [(image, row + y, column + x) for y, x in places])
            self.registers.release()
        return asking_first(ib.get())

    def _buffer(self, dtype: str, size: int, name: str) -> Any:
        """Allocate a buffer of a task, of which tiles read or write what no loop does.

        TVM cuts buffers to what loops access, and takes a tile for its first element: hence the
        store.
        """
        buffer = self.ib.allocate(dtype, (size,), name, scope="global")._buffer
        self.ib.emit(tir.BufferStore(buffer, tir.const(0, dtype), [size - 1]))
        return buffer

    @property
    def _sums(self) -> int:
        return self.block.down * self.block.across * self._tile_elements

    @property
    def _tile_elements(self) -> int:
        return self.tiles.rows * self.tiles.columns

    def _place(self, top: Any, left: Any, number: int) -> tuple[Any, Any]:
        """Return where one of the tiles below one another begins, in the task's places."""
        line, piece = (0, number) if self.block.pitch else divmod(number, self.block.pieces)
        return top + line, left + piece * self.block.apart

    # Tiles of sums come first, then those of data, then those of weights.

    def _sums_tile(self, down: int, across: int) -> int:
        return down * self.block.across + across

    def _data_tile(self, down: int) -> int:
        return self.block.down * self.block.across + down % self.block.data_registers

    def _weight_tile(self, across: int) -> int:
        return self.block.down * self.block.across + self.block.data_registers + across

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
        top, left = row * shape.stride[0], column * shape.stride[1]
        if operands.gather is None:

            def load_in_place(tile: int, y: Any, x: Any, term: Any) -> None:
                start = operands.data_place(image, top + y, left + x, term)
                self.registers.load(tile, operands.data, start, shape.stride[1] * shape.terms)

            return load_in_place
        rows, columns = shape.rows_read(work.rows), shape.columns_read(work.columns)
        stride = shape.row_stride()
        dtype = operands.data.dtype
        size = (rows * columns + self._columns_behind) * stride
        wide = self._buffer(dtype, size, "wide")
        together = math.gcd(operands.vectors, CHUNKS_TOGETHER)
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

    @property
    def _columns_behind(self) -> int:
        """Columns that the last of tiles over all rows reads behind the last row."""
        block = self.block
        if not block.pitch:
            return 0
        needed = (block.lines - 1) * block.pitch + self.work.columns
        return (block.down * block.rows - needed) * self.shape.stride[1]

    def _sum(
        self, data: Callable[..., Any], sums: Any, first: Any, places: list[tuple[Any, Any]]
    ) -> None:
        """Sum one block and store its tiles."""
        block, shape, ib, registers = self.block, self.shape, self.ib, self.registers
        every = [(down, across) for down in range(block.down) for across in range(block.across)]
        for down, across in every:
            registers.clear(self._sums_tile(down, across))
        with (
            ib.for_range(0, shape.lines[0], "kh") as kh,
            ib.for_range(0, shape.lines[1], "kw") as kw,
            ib.for_range(0, shape.line_terms // self.step, "k") as step,
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
                    self._store_vector(sums, start, (image, row, column + place, first + across))

    def _store_lines(self, sums: Any, first: Any, image: Any, row: Any, column: Any) -> None:
        """Do the same where tiles cover all rows of the task, and what lies between them."""
        block, ib, lanes = self.block, self.ib, self.tiles.columns
        with (
            ib.for_range(0, self.work.rows, "y") as y,
            ib.for_range(0, self.work.columns, "place") as place,
        ):
            start = (y * block.pitch + place) * lanes
            self._store_vector(sums, start, (image, row + y, column + place, first))

    def _store_vector(self, sums: Any, start: Any, at: tuple[Any, Any, Any, Any]) -> None:
        lanes = self.tiles.columns

        def stored(lane: Any) -> Any:
            return self.store(*at, lane, tir.BufferLoad(sums, [start + lane]))

        self.ib.emit(whole_or_by_lane(lanes, stored))
