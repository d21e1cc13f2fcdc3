"""The kernel of filters with zeros of their own: sums of neighbouring places, filter by filter.

For each pattern there is a loop over the kernels that have it, with its taps written out: a
kernel's word tells where it reads, and each tap is a weight, broadcast, and a load and a
multiply-add for each vector. The sums of a chunk of filters are turned and stored together.

Distances of taps are constants where an address may hold any. Where that takes an instruction for
each load (AArch64, whose constants are few and multiples of a vector), they are read from the index
before a pattern's loop, and added once for each tap.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.expressions.sparse_filters import FilterIndex, FilterPlanes
from tvm_fusionx.expressions.sparse_products import FLOAT
from tvm_fusionx.schedules.parts.hand_written_kernel import Store
from tvm_fusionx.schedules.parts.tasks import start_of, tasks
from tvm_fusionx.schedules.parts.transpose_in_registers import turned
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import Vectors, broadcast, each_lane, load
from tvm_fusionx.sparse.filter_tiling import FilterProduct, FilterTiling


@dataclass(frozen=True)
class FilterWeights:
    """The buffers of the filters."""

    values: Any
    """``[kernels, taps]``."""
    index: Any
    parts: FilterIndex

    def told(self, place: Any) -> Any:
        """Return an integer of the index."""
        return tir.BufferLoad(self.index, [place])


class FilterKernel:
    """Emits the kernel.

    Parameters
    ----------
    product, tiling, planes
        What is computed, how it is divided, and what a piece reads.
    weights
        Their buffers.
    gather
        Called once for each task with the builder, image, and first row of the piece; returns the
        buffer of the planes.
    write
        Stores a number at image, chunk, row, column and lane.
    reads_distances
        Whether distances of taps are no constants.
    """

    def __init__(
        self,
        product: FilterProduct,
        tiling: FilterTiling,
        planes: FilterPlanes,
        weights: FilterWeights,
        gather: Callable[[Any, Any, Any], Any],
        write: Store,
        *,
        reads_distances: bool = False,
    ) -> None:
        self.product, self.tiling, self.planes = product, tiling, planes
        self.reads_distances = reads_distances
        self.weights, self.gather, self.write = weights, gather, write
        self.ib = tir.ir_builder.create()

    def build(self, *, parallel: bool) -> Any:
        """Return the statement."""
        product, tiling, ib = self.product, self.tiling, self.ib
        extents = [product.images, product.pieces, tiling.parts]
        with tasks(ib, extents, parallel=parallel) as (image, piece, part):
            top = start_of(piece, product.at_once, product.rows)
            held = self.gather(ib, image, top)
            room = product.block * tiling.vectors * product.lanes
            vectors = Vectors(ib, FLOAT)
            sums = vectors.allocate("sums_of_chunk", room)
            pixels = vectors.allocate("pixels_of_chunk", room)
            chunks = product.chunks // tiling.parts
            tiles = -(-product.vectors // tiling.vectors)
            order = (self._loop(chunks, "chunk"), self._loop(tiles, "tile"))
            if tiling.tile_outermost:
                with order[1] as tile, order[0] as chunk:
                    self._tile(held, (sums, pixels), part * chunks + chunk, tile, (image, top))
            else:
                with order[0] as chunk, order[1] as tile:
                    self._tile(held, (sums, pixels), part * chunks + chunk, tile, (image, top))
        return ib.get()

    def _loop(self, extent: int, name: str) -> AbstractContextManager[Any]:
        if extent == 1:
            return nullcontext(tir.const(0, "int32"))
        loop: AbstractContextManager[Any] = self.ib.for_range(0, extent, name)
        return loop

    def _tile(
        self, held: Any, scratch: tuple[Any, Any], number: Any, tile: Any, at: tuple[Any, Any]
    ) -> None:
        """Compute a tile of one chunk of filters, and store it."""
        product, tiling = self.product, self.tiling
        width = tiling.vectors * product.lanes
        first = start_of(tile, tiling.vectors, product.vectors) * product.lanes
        start = self._kept("start", first)
        chunk = self._kept("chunk", self.weights.told(self.weights.parts.chunks_at + number))
        with self._loop(product.block, "filter") as lane:
            self._filter(held, scratch[0], chunk * product.block + lane, lane * width, start)
        self._turn(*scratch)
        self._store(scratch[1], chunk, start, at)

    def _kept(self, name: str, value: Any) -> Any:
        held = self.ib.allocate("int32", (1,), name, scope="local")._buffer
        self.ib.emit(tir.BufferStore(held, value, [0]))
        return tir.BufferLoad(held, [0])

    def _filter(self, held: Any, out: Any, number: Any, at: Any, start: Any) -> None:
        """Sum up one filter."""
        product, tiling, weights = self.product, self.tiling, self.weights
        chains = tiling.chains
        sums = VectorSums(self.ib, tiling.vectors * chains, product.lanes, FLOAT)
        sums.fill()
        for pattern in range(product.patterns):
            distances = self._distances(pattern)
            place = number * product.patterns + pattern
            begin = self._kept("begin", weights.told(place))
            length = self._kept("length", weights.told(place + 1) - begin)
            steps = max(1, chains // product.taps)
            if steps > 1:
                whole = tir.floordiv(length, steps)
                with self.ib.for_range(0, whole, "kernels") as step:
                    for each in range(steps):
                        entry = begin + step * steps + each
                        self._kernel(held, sums, entry, distances, start, each * product.taps)
                begin, length = begin + whole * steps, tir.floormod(length, steps)
            with self.ib.for_range(0, length, "kernel") as kernel:
                self._kernel(held, sums, begin + kernel, distances, start, 0)
        vectors = Vectors(self.ib, FLOAT)
        for vector in range(tiling.vectors):
            total = sums.value(vector * chains)
            for chain in range(1, chains):
                total = total + sums.value(vector * chains + chain)
            vectors.store(out, at + vector * product.lanes, total, product.lanes)

    def _distances(self, pattern: int) -> list[Any]:
        """Return those of a pattern's taps."""
        known: list[Any] = self.planes.distances()[pattern]
        if not (self.reads_distances and self.planes.patterns):
            return known
        at = self.weights.parts.distances_at + pattern * self.product.taps
        return [self._kept("distance", self.weights.told(at + tap)) for tap in range(len(known))]

    def _kernel(
        self, held: Any, sums: VectorSums, entry: Any, distances: list[Any], start: Any, turn: int
    ) -> None:
        """Multiply the numbers of one kernel, and add the products."""
        lanes, chains = self.product.lanes, self.tiling.chains
        word = self.weights.told(self.weights.parts.words_at + entry)
        if self.planes.bits:
            word = tir.shift_right(word, tir.const(self.planes.bits, "int32"))
        at = self._kept("at", word + start)
        vectors = Vectors(self.ib, FLOAT)
        for tap, distance in enumerate(distances):
            weight = vectors.allocate("weight", lanes, "local")
            value = tir.BufferLoad(self.weights.values, [entry, tap])
            vectors.store(weight, 0, broadcast(value, lanes), lanes)
            for vector in range(self.tiling.vectors):
                place = vector * chains + (turn + tap) % chains
                data = load(held, at + distance + vector * lanes, lanes)
                sums.add_product(place, data, load(weight, 0, lanes))

    def _turn(self, sums: Any, pixels: Any) -> None:
        """Put the sums of a chunk's filters side by side, place by place."""
        product, lanes, block = self.product, self.product.lanes, self.product.block
        width = self.tiling.vectors * lanes
        vectors = Vectors(self.ib, FLOAT)
        with self._loop(self.tiling.vectors, "vector") as vector:
            rows = [load(sums, row * width + vector * lanes, lanes) for row in range(block)]
            if block == 1:
                vectors.store(pixels, vector * lanes, rows[0], lanes)
                return
            out = turned(self.ib, rows, lanes, FLOAT)
            for row in range(product.block):
                value = load(out, row * lanes, lanes)
                vectors.store(pixels, vector * lanes * block + row * lanes, value, lanes)

    def _store(self, pixels: Any, chunk: Any, start: Any, at: tuple[Any, Any]) -> None:
        """Store the places of a tile that are of the result, row by row."""
        product, planes, block = self.product, self.planes, self.product.block
        image, top = at
        width, pitch = self.tiling.vectors * product.lanes, planes.pitch
        columns = planes.geometry.result[1]
        # A tile of so many places begins anywhere in a row.
        with self._loop((width + pitch - 2) // pitch + 1, "row") as number:
            row = self._kept("row", tir.floordiv(start, pitch) + number)
            behind = self._kept("behind", start - row * pitch)
            first = self._kept("first", tir.max(behind, 0))
            last = tir.min(tir.const(columns, "int32"), behind + width)
            count = tir.Select(row < product.at_once, last - first, tir.const(0, "int32"))
            with self.ib.for_range(0, count, "column") as step:
                column = first + step
                pixel = (column - behind) * block

                def stored(lane: Any) -> Any:
                    value = tir.BufferLoad(pixels, [pixel + lane])
                    return self.write(image, chunk, top + row, column, lane, value)

                loop = each_lane(block, stored)
                if isinstance(loop.body, tir.IfThenElse):
                    loop = tir.For(loop.loop_var, 0, block, tir.ForKind.UNROLLED, loop.body)
                self.ib.emit(loop)
