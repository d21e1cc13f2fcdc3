"""The loops of a pointwise convolution, laid out by hand.

One parallel loop over tasks: some pixels of one image, counted across rows, and a part of the
output channels. A task gathers its input where something precedes the convolution; then, for each
tile of output channels and each block of input channels, it multiplies the pixels, tile by tile.
The weights of a block stay in the first-level cache meanwhile, and the sums of a tile in registers;
between two blocks they are kept in a buffer.

    data    [N, C / c, H, W, c]     wide [C / c][pixel][c]     kept [tile][sum][o]
    weights [O / o, C / c, 1, 1, c, o]

A vector holds one output chunk, or several that fill it together (`output_vectors.py`).
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts.fetch_ahead import Pauses, pauses_in
from tvm_fusionx.schedules.parts.half_sums import HALF, HalfChains
from tvm_fusionx.schedules.parts.hand_written_kernel import Gather
from tvm_fusionx.schedules.parts.microkernel import (
    Microkernel,
    add_product,
    places_by_rows,
)
from tvm_fusionx.schedules.parts.operand import GatheredOperand
from tvm_fusionx.schedules.parts.prefetch import elements_of_a_line, fetched_lines
from tvm_fusionx.schedules.parts.tasks import start_of, tasks
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import broadcast, each_lane, load, store
from tvm_fusionx.schedules.windows.pointwise_tiling import PointwiseTiling, in_chunks
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.schedules.windows.tiling import ChunkTile
from tvm_fusionx.schedules.windows.weight_panel import WeightPanel
from tvm_fusionx.tir.numbers import divisors


@dataclass(frozen=True)
class PointwiseKernel:
    """A pointwise convolution: its kernel is one pixel, its stride one."""

    window: Window

    weights: Any
    """Buffer of the weights."""

    tiling: PointwiseTiling
    """How it is divided, a vector counted as a chunk of the output."""

    gather: Gather | None
    """Called with image, chunk, row, column, lane and None; None where a parameter is read."""

    result: WindowResult
    """Stores the sums."""

    packs: bool = False
    """Whether the weights of a tile are put side by side before its pixels are multiplied."""

    has_rest: bool = False
    """Whether pixels that fill no tile have a narrower one; the last tile moves back else."""

    half_terms: int = 0
    """Most terms of a sum of halves; 0 for sums of float32 alone."""

    adds_in_halves: bool = False
    """Whether what a sum begins with may be a term of a sum of halves."""

    def build(self, *, parallel: bool) -> Any:
        """Return the statement that computes the convolution, on several threads or on one."""
        ib, tiling, window = tir.ir_builder.create(), self.tiling, self.window
        groups = tiling.groups(self.result.vectors.number)
        pixels, total = tiling.pixels(window), window.rows * window.columns
        extents = window.batch, tiling.pixel_tasks, tiling.channel_tasks
        product = PixelProducts(
            ib,
            window,
            self.weights,
            tiling.tile,
            pixels,
            tiling.block_chunks,
            self.result,
            self.packs,
            self.has_rest,
            self.half_terms,
            self.adds_in_halves,
        )
        with tasks(ib, extents, parallel=parallel) as (image, number, part):
            first = start_of(number, pixels, total, tiling.pixel_tasks)
            element = self._operand(ib, image, first, pixels)
            with ib.for_range(0, groups, "group") as step:
                product.group(
                    part * groups + step,
                    element,
                    image,
                    lambda start, pixel: self._place(first + start + pixel),
                )
        return ib.get()

    def _operand(self, ib: Any, image: Any, first: Any, pixels: int) -> PixelOperand:
        """Return what reads the input of a task, which is computed before where it has to be."""
        window, inner = self.window, self.window.block_in
        if self.gather is None:

            def element(in_chunk: Any, start: Any, pixel: int, channel: Any) -> Any:
                place = [image, in_chunk, *self._place(first + start + pixel), channel]
                return tir.BufferLoad(window.data, place)

            return element
        wide = GatheredOperand(ib, window.data.dtype, in_chunks(window), pixels * inner)
        with (
            ib.for_range(0, in_chunks(window), "chunk") as chunk,
            ib.for_range(0, pixels, "pixel") as pixel,
        ):
            gathered = self.gather(lambda *at: wide.store(at[-1], chunk, pixel * inner, at[-2]))
            place = (image, chunk, *self._place(first + pixel))
            ib.emit(each_lane(inner, lambda lane: gathered(*place, lane, None)))
        return lambda in_chunk, start, pixel, channel: wide.load(
            in_chunk, (start + pixel) * inner, channel
        )

    def _place(self, pixel: Any) -> tuple[Any, Any]:
        """Return row and column of a pixel."""
        columns = self.window.columns
        return tir.floordiv(pixel, columns), tir.floormod(pixel, columns)


# Returns an element of an image: takes input chunk, first pixel of a tile, pixel from there on, and
# channel of the chunk.
PixelOperand = Callable[[Any, Any, int, Any], Any]

# Returns row and column of a pixel: takes the first of a tile, and the pixel from there on.
PixelPlace = Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class PixelProducts:
    """Multiplies the pixels of a task with pointwise weights, a tile of output channels at a time.

    A block of input channels meets all tiles of pixels before the next: its weights stay near.
    """

    ib: Any

    window: Window

    weights: Any
    """Buffer ``[O / o, C / c, 1, 1, c, o]``."""

    tile: ChunkTile
    """Vectors of output channels, and pixels, whose sums are held in registers."""

    pixels: int
    """Of a task."""

    block_chunks: int
    """Input chunks of a block."""

    result: WindowResult
    """Stores the sums."""

    packs: bool = False
    """Whether the weights of a tile are put side by side before its pixels are multiplied."""

    has_rest: bool = False
    """Whether pixels that fill no tile have a narrower one; the last tile moves back else."""

    half_terms: int = 0
    """Most terms of a sum of halves, no fewer than a chunk has; 0 for sums of float32 alone."""

    adds_in_halves: bool = False
    """Whether what a sum begins with may be a term of a sum of halves."""

    @property
    def is_one_chain(self) -> bool:
        """Whether each sum is of halves whole."""
        begins = self.result.addend is None or self.adds_in_halves
        is_short = self.blocks == 1 and self.window.in_channels <= self.half_terms
        return is_short and begins and not self.result.along_pixels

    @property
    def columns(self) -> int:
        """Pixels of a tile."""
        return min(self.tile.columns, self.pixels)

    @property
    def rest(self) -> int:
        """Pixels of the narrower tile behind the others, where there is one."""
        return self.pixels % self.columns if self.has_rest else 0

    @property
    def tiles(self) -> int:
        """Tiles of pixels, without the narrower one."""
        return math.ceil((self.pixels - self.rest) / self.columns)

    @property
    def blocks(self) -> int:
        """Blocks of input channels."""
        return in_chunks(self.window) // self.block_chunks

    def group(self, group: Any, element: PixelOperand, image: Any, pixel_at: PixelPlace) -> None:
        """Compute one tile of output channels for all pixels of a task.

        Parameters
        ----------
        group
            Number of the tile.
        element
            Reads the input.
        image, pixel_at
            Image of the result, and the places of pixels there.
        """
        ib, last, lanes = self.ib, self.blocks - 1, self.result.vectors.lanes
        sums_of_tile = self.columns * self.tile.chunks
        kept = None
        if last:
            size = (self.tiles * sums_of_tile + self.rest * self.tile.chunks) * lanes
            kept = ib.allocate(self.window.dtype, (size,), "kept", scope="global")._buffer

        panel = self._panel() if self.packs else None

        def block(number: Any, *, begins: bool = False, ends: bool = False) -> None:
            if panel is not None:
                panel.fill(group * self.tile.chunks, number * self.block_chunks)

            def weight(at: tuple[Any, Any], _: int, vector: int) -> Any:
                if panel is not None:
                    # Left as a difference, TVM takes the block's number for a step of nothing, and
                    # divides by it where blocks are a loop.
                    chunk = tvm.arith.Analyzer().simplify(at[0] - number * self.block_chunks)
                    return panel.load(vector, (chunk, 0, 0, at[1]))
                return self._weight(group * self.tile.chunks + vector, *at)

            def tile_of(tile: Any, start: Any, columns: int) -> None:
                """Compute `columns` pixels from `start` on."""
                places = places_by_rows(columns, self.tile.chunks)
                slots = [(tile * sums_of_tile + each) * lanes for each in range(len(places))]

                def begin(sums: VectorSums) -> None:
                    if begins:
                        first = group * self.tile.chunks
                        self.result.begin(sums, [first + vector for _, vector in places])
                        return
                    sums.fill()  # LLVM drops the zeros where sums were kept
                    for place, slot in enumerate(slots):
                        sums.put(place, load(kept, slot, lanes))

                def end(sums: VectorSums) -> None:
                    if ends:
                        at = functools.partial(pixel_at, start)
                        self._store(sums, group, image, at, columns)
                        return
                    for place, slot in enumerate(slots):
                        ib.emit(store(kept, slot, sums.value(place), lanes))

                in_chains = self.half_terms and not self.is_one_chain
                chains = HalfChains(ib) if in_chains else None
                Microkernel(
                    places,
                    lanes,
                    HALF if self.is_one_chain else self.window.dtype,
                    lambda at, pixel, _: broadcast(element(at[0], start, pixel, at[1]), lanes),
                    weight,
                    end,
                    product=chains.add_product if chains else add_product,
                    begin=chains.beginning(begin) if chains else begin,
                ).emit(ib, self._steps(group, number, tile, chains))

            whole = self.pixels - self.rest
            with ib.for_range(0, self.tiles, "tile") as tile:
                tile_of(tile, start_of(tile, self.columns, whole), self.columns)
            if self.rest:
                tile_of(self.tiles, whole, self.rest)

        if last:
            block(0, begins=True)
            if last > 1:
                with ib.for_range(0, last - 1, "block") as step:
                    block(step + 1)
        block(last, begins=not last, ends=True)

    def _panel(self) -> WeightPanel:
        vectors, inner = self.result.vectors, self.window.block_in
        number, chunks = self.tile.chunks, self.block_chunks
        return WeightPanel(self.ib, self.weights, vectors, number, chunks, inner)

    def _weight(self, vector: Any, in_chunk: Any, channel: Any) -> Any:
        return self.result.vectors.load(self.weights, vector, (in_chunk, 0, 0, channel))

    def _store(
        self,
        sums: VectorSums,
        group: Any,
        image: Any,
        pixel_at: Callable[[Any], tuple[Any, Any]],
        columns: int,
    ) -> None:
        chunks = self.tile.chunks
        for vector in range(chunks):
            chosen = range(vector, columns * chunks, chunks)
            first_chunk = self.result.vectors.first_chunk(group * chunks + vector)
            self.result.store(sums, chosen, image, first_chunk, pixel_at)

    @contextlib.contextmanager
    def _steps(
        self, group: Any, block: Any, tile: Any, chains: HalfChains | None
    ) -> Iterator[list[tuple[Any, Any]]]:
        """Open the loops over the channels of a block; weights are fetched ahead between them."""
        if chains is not None:
            with self._chains(block, chains) as steps:
                yield steps
            return
        ib, chunks, inner = self.ib, self.block_chunks, self.window.block_in
        vectors = self.columns * self.tile.chunks
        panel_bytes = self.tile.chunks * chunks * inner * self.result.vectors.lanes * FLOAT_BYTES
        # What is put side by side was read in the order in which it lies.
        is_read = self.packs
        pauses = None if is_read else pauses_in(chunks, inner * vectors, panel_bytes, self.tiles)
        together = chunks if pauses is None else pauses.steps
        with ib.for_range(0, chunks // together, "piece") as piece:
            if pauses is not None:
                self._fetch(group, block, tile * (chunks // together) + piece, pauses)
            with (
                ib.for_range(0, together, "in_chunk") as step,
                ib.for_range(0, inner, "channel") as channel,
            ):
                yield [(block * chunks + piece * together + step, channel)]

    @contextlib.contextmanager
    def _chains(self, block: Any, chains: HalfChains) -> Iterator[list[tuple[Any, Any]]]:
        """Open the loops over the channels of a block, of which so many make a chain."""
        ib, chunks, inner = self.ib, self.block_chunks, self.window.block_in
        together = max(each for each in divisors(chunks) if each * inner <= self.half_terms)
        with (
            ib.for_range(0, chunks // together, "chain") as chain,
            chains.chained(),
            ib.for_range(0, together, "in_chunk") as step,
            ib.for_range(0, inner, "channel") as channel,
        ):
            yield [(block * chunks + chain * together + step, channel)]

    def _fetch(self, group: Any, block: Any, pause: Any, pauses: Pauses) -> None:
        """Fetch a share of the weights that follow those of a tile of channels and a block."""
        chunks = self.tile.chunks * self.result.vectors.joined
        run = self.block_chunks * self.window.block_in * self.result.vectors.chunk_lanes
        element = pause * pauses.lines * elements_of_a_line(self.weights.dtype)
        following = group * self.blocks + block + 1
        chunk = tir.floordiv(following, self.blocks) * chunks + tir.floordiv(element, run)
        place = chunk * self.blocks + tir.floormod(following, self.blocks)
        at = place * run + tir.floormod(element, run)
        for stmt in fetched_lines(self.weights, at, pauses.lines):
            self.ib.emit(stmt)
