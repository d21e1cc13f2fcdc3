"""The kernel of a sparse product: a tile of sums in registers, and one pass over a list for it.

An entry of the list is an offset into the data and the weights of a group's channels. The offset is
read once for all places of the tile: each lies a constant distance behind the first. So a product
costs an element, broadcast, and a multiply-add for each vector of channels, as in a dense kernel.
Of integers, an element is a word of those that one instruction multiplies and adds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.expressions.sparse_products import FLOAT, Index, depth_of
from tvm_fusionx.processors.integers import SUM, DotInstruction
from tvm_fusionx.schedules.parts.tasks import start_of, tasks
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import Vectors, broadcast, load, ramp
from tvm_fusionx.sparse.tiling import Product, Tiling
from tvm_fusionx.tir.dot_call import dot_of_vectors

# Given the sums, the numbers of those of one vector (place by place), image, first channel of the
# vector, first row and column of the tile, and its rows and columns.
StoreTile = Callable[[VectorSums, "list[int]", Any, Any, Any, Any], None]


@dataclass(frozen=True)
class Data:
    """What is multiplied, as the kernel reads it: elements counted from one that it knows.

    An element is a float, or a word of integers as one of 32 bits.
    """

    element: Callable[[Any], Any]
    """Returns the element at an address."""
    column_step: int
    """Elements from a column of the tile to the next."""
    row_step: int = 0
    """And from a row to the next."""
    tile_step: int | None = None
    """Elements from a tile to the next, where each lies by itself."""
    address: Callable[[Any], Any] = lambda offset: offset
    """Returns the address of an offset, counted from that of a place."""
    fill: Callable[[Any, Any], None] | None = None
    """Emits what makes a tile ready, of which number and first column are given."""


@dataclass(frozen=True)
class Weights:
    """The buffers of a weight."""

    values: Any
    """``[entries, vectors, lanes * depth]``."""
    index: Any
    parts: Index

    def start(self, group: Any) -> Any:
        """Return where the list of a group begins."""
        return tir.BufferLoad(self.index, [group])

    def first(self, group: Any) -> Any:
        """Return the first channel of a group."""
        return tir.BufferLoad(self.index, [self.parts.firsts + group])

    def offset(self, entry: Any) -> Any:
        """Return the offset of an entry."""
        return tir.BufferLoad(self.index, [self.parts.offsets + entry])


class SparseKernel:
    """Emits the kernel.

    Parameters
    ----------
    product, tiling
        What is computed, and how it is divided.
    weights
        Their buffers.
    data_of
        Called once for each task with the builder, image, and first row and column of the task;
        gathers what there is to gather and returns what the task reads.
    store
        Stores the sums of one vector.
    instruction
        What multiplies integers; None where floats are multiplied.
    """

    def __init__(
        self,
        product: Product,
        tiling: Tiling,
        weights: Weights,
        data_of: Callable[[Any, Any, Any, Any], Data],
        store: StoreTile,
        instruction: DotInstruction | None = None,
    ) -> None:
        self.product, self.tiling, self.weights = product, tiling, weights
        self.data_of, self.store_tile = data_of, store
        self.instruction = instruction
        self.ib = tir.ir_builder.create()

    def build(self, *, parallel: bool) -> Any:
        """Return the statement."""
        product, tiling = self.product, self.tiling
        pieces = (
            -(-product.rows // tiling.task_rows),
            -(-product.columns // tiling.task_columns),
        )
        extents = [product.images, *pieces, tiling.group_parts]
        with tasks(self.ib, extents, parallel=parallel) as (image, row, column, part):
            top = start_of(row, tiling.task_rows, product.rows)
            left = start_of(column, tiling.task_columns, product.columns)
            data = self.data_of(self.ib, image, top, left)
            self._task(data, image, top, left, part)
        return self.ib.get()

    def _task(self, data: Data, image: Any, top: Any, left: Any, part: Any) -> None:
        tiling = self.tiling
        rows = -(-tiling.task_rows // tiling.rows)
        columns = -(-tiling.task_columns // tiling.columns)
        groups = self.product.groups // tiling.group_parts

        def over_groups() -> AbstractContextManager[Any]:
            return self._loop(groups, "group")

        def over_tiles() -> AbstractContextManager[Any]:
            return self._loop(rows * columns, "tile")

        def place(tile: Any) -> tuple[Any, Any]:
            row = start_of(tile // columns, tiling.rows, tiling.task_rows)
            return row, start_of(tile % columns, tiling.columns, tiling.task_columns)

        def filled(tile: Any) -> None:
            if data.fill is not None:
                data.fill(tile, place(tile)[1])

        def summed(group: Any, tile: Any) -> None:
            row, column = place(tile)
            if data.tile_step is None:
                base = row * data.row_step + column * data.column_step
            else:
                base = tile * data.tile_step
            self._tile(data, base, image, part * groups + group, (top + row, left + column))

        if tiling.group_outermost:
            if data.fill is not None:
                with over_tiles() as tile:
                    filled(tile)
            with over_groups() as group, over_tiles() as tile:
                summed(group, tile)
        else:
            with over_tiles() as tile:
                filled(tile)
                with over_groups() as group:
                    summed(group, tile)

    def _loop(self, extent: int, name: str) -> AbstractContextManager[Any]:
        if extent == 1:
            return nullcontext(tir.const(0, "int32"))
        loop: AbstractContextManager[Any] = self.ib.for_range(0, extent, name)
        return loop

    def _tile(self, data: Data, base: Any, image: Any, group: Any, place: tuple[Any, Any]) -> None:
        tiling, product, weights = self.tiling, self.product, self.weights
        sums = VectorSums(
            self.ib, tiling.places * product.vectors * tiling.chains, product.lanes, self._sum_type
        )
        sums.fill()
        start = weights.start(group)
        length = weights.start(group + 1) - start
        chains = tiling.chains
        if chains > 1:
            whole = tir.floordiv(length, chains)
            with self.ib.for_range(0, whole, "entries") as step:
                for chain in range(chains):
                    self._entry(data, sums, base, start + step * chains + chain, chain)
            start, length = start + whole * chains, tir.floormod(length, chains)
        with self.ib.for_range(0, length, "entry") as entry:
            self._entry(data, sums, base, start + entry, 0)
        self._finish(sums, image, weights.first(group), *place)

    def _entry(self, data: Data, sums: VectorSums, base: Any, entry: Any, chain: int) -> None:
        """Multiply the data of one entry, and add it."""
        tiling, product, lanes = self.tiling, self.product, self.product.lanes
        weight_type = self.weights.values.dtype
        wide = lanes * depth_of(weight_type)
        vectors = Vectors(self.ib, weight_type)
        held = vectors.allocate("weights", product.vectors * wide, "local")
        for number in range(product.vectors):
            value = tir.BufferLoad(self.weights.values, [entry, number, ramp(0, wide)])
            vectors.store(held, number * wide, value, wide)
        at = self.ib.allocate("int32", (1,), "at", scope="local")._buffer
        self.ib.emit(tir.BufferStore(at, base + data.address(self.weights.offset(entry)), [0]))
        for place in range(tiling.places):
            row, column = divmod(place, tiling.columns)
            step = row * data.row_step + column * data.column_step
            element = broadcast(data.element(tir.BufferLoad(at, [0]) + step), lanes)
            for number in range(product.vectors):
                weight = load(held, number * wide, wide)
                self._multiply(sums, self._place(place, number, chain), element, weight)

    @property
    def _sum_type(self) -> str:
        return FLOAT if self.instruction is None else SUM

    def _multiply(self, sums: VectorSums, place: int, element: Any, weight: Any) -> None:
        if self.instruction is None:
            sums.add_product(place, element, weight)
            return
        data = tir.call_intrin(
            f"{self.instruction.data}x{weight.dtype.rpartition('x')[2]}", "tir.reinterpret", element
        )
        total = sums.value(place)
        sums.put(place, dot_of_vectors(self.instruction, total, data, weight, sums.lanes))

    def _place(self, place: int, vector: int, chain: int) -> int:
        return (place * self.product.vectors + vector) * self.tiling.chains + chain

    def _finish(self, sums: VectorSums, image: Any, first: Any, row: Any, column: Any) -> None:
        tiling, product = self.tiling, self.product
        for vector in range(product.vectors):
            places = [self._place(place, vector, 0) for place in range(tiling.places)]
            for place in places:
                for chain in range(1, tiling.chains):
                    sums.put(place, sums.value(place) + sums.value(place + chain))
            channel = first + vector * product.lanes
            self.store_tile(sums, places, image, channel, row, column)
