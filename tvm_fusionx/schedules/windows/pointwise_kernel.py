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
import math
from collections.abc import Iterator
from typing import Any

from tvm import tir

from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts.fetch_ahead import Pauses, pauses_in
from tvm_fusionx.schedules.parts.prefetch import elements_of_a_line, fetched_lines
from tvm_fusionx.schedules.parts.vector_sums import VectorSums, broadcast, ramp
from tvm_fusionx.schedules.windows.pointwise_tiling import PointwiseTiling, in_chunks
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.windows.structure import Window

# Elements between the chunks of `wide` besides the pixels' own: chunks a power of two apart share
# few sets of the first-level cache.
CHUNK_GAP = 16


def build_kernel(
    window: Window,
    weights: Any,
    tiling: PointwiseTiling,
    gather: Any | None,
    result: WindowResult,
    *,
    parallel: bool,
) -> Any:
    """Return the statement that computes a pointwise convolution.

    Parameters
    ----------
    window
        The convolution; its kernel is one pixel, its stride one.
    weights
        Buffer of the weights.
    tiling
        How it is divided, a vector counted as a chunk of the output.
    gather
        Takes the function that stores into the buffer, and returns the one that is called with each
        place of the input: image, chunk, row, column, lane and None. None where the convolution
        reads a parameter.
    result
        Stores the sums.
    parallel
        Whether tasks run on several threads.
    """
    kernel = _Kernel(window, weights, tiling, gather, result)
    return kernel.build("parallel" if parallel else "serial")


class _Kernel:
    def __init__(
        self,
        window: Window,
        weights: Any,
        tiling: PointwiseTiling,
        gather: Any,
        result: WindowResult,
    ) -> None:
        self.window, self.weights, self.tiling = window, weights, tiling
        self.gather, self.result, self.vectors = gather, result, result.vectors
        self.ib = tir.ir_builder.create()
        self.dtype = window.data.dtype
        self.pixels = tiling.pixels(window)
        self.columns = min(tiling.tile.columns, self.pixels)
        self.tiles = math.ceil(self.pixels / self.columns)
        self.groups = tiling.groups(self.vectors.number)
        self.blocks = in_chunks(window) // tiling.block_chunks
        self.inner, self.lanes = window.block_in, self.vectors.lanes
        self.places = [
            (pixel, vector) for pixel in range(self.columns) for vector in range(tiling.tile.chunks)
        ]
        self.chunk_stride = self.pixels * self.inner + CHUNK_GAP

    def build(self, kind: str) -> Any:
        ib, tiling, window = self.ib, self.tiling, self.window
        parts, pieces = tiling.channel_tasks, tiling.pixel_tasks
        total = window.rows * window.columns
        with ib.for_range(0, window.batch * pieces * parts, "task", kind=kind) as task:
            image = tir.floordiv(task, pieces * parts)
            number = tir.floormod(tir.floordiv(task, parts), pieces)
            first = number * self.pixels
            if pieces * self.pixels != total:
                first = tir.min(first, total - self.pixels)
            wide = self._gathered(image, first) if self.gather is not None else None
            with ib.for_range(0, self.groups, "group") as step:
                group = tir.floormod(task, parts) * self.groups + step
                self._group(wide, image, first, group)
        return ib.get()

    def _gathered(self, image: Any, first: Any) -> Any:
        """Compute the input of a task into a buffer, and return it."""
        ib, lanes = self.ib, self.inner
        size = in_chunks(self.window) * self.chunk_stride
        wide = ib.allocate(self.dtype, (size,), "wide", scope="global")._buffer
        with (
            ib.for_range(0, in_chunks(self.window), "chunk") as chunk,
            ib.for_range(0, self.pixels, "pixel") as pixel,
        ):

            def keep(*place: Any) -> Any:
                *_, lane, value = place
                return tir.BufferStore(
                    wide, value, [chunk * self.chunk_stride + pixel * lanes + lane]
                )

            lane = tir.Var("lane", "int32")
            stmt = self.gather(keep)(image, chunk, *self._place(first + pixel), lane, None)
            ib.emit(tir.For(lane, 0, lanes, tir.ForKind.VECTORIZED, stmt))
        return wide

    def _group(self, wide: Any, image: Any, first: Any, group: Any) -> None:
        """Compute one tile of output channels for all pixels of a task."""
        ib, last = self.ib, self.blocks - 1
        kept = None
        if last:
            size = self.tiles * len(self.places) * self.lanes
            kept = ib.allocate(self.dtype, (size,), "kept", scope="global")._buffer
            self._block(wide, image, first, group, 0, kept, begins=True)
            if last > 1:
                with ib.for_range(0, last - 1, "block") as block:
                    self._block(wide, image, first, group, block + 1, kept)
        self._block(wide, image, first, group, last, kept, begins=not last, ends=True)

    def _block(
        self,
        wide: Any,
        image: Any,
        first: Any,
        group: Any,
        block: Any,
        kept: Any,
        *,
        begins: bool = False,
        ends: bool = False,
    ) -> None:
        """Add the products of one block of input channels to the sums of all tiles of a task."""
        ib, count = self.ib, len(self.places)
        with ib.for_range(0, self.tiles, "tile") as tile:
            start = tile * self.columns
            if self.pixels % self.columns:
                start = tir.min(start, self.pixels - self.columns)
            sums = VectorSums(ib, count, self.lanes, self.dtype)
            slots = [ramp((tile * count + n) * self.lanes, self.lanes) for n in range(count)]
            if not begins:
                for place, slot in enumerate(slots):
                    sums.put(place, tir.BufferLoad(kept, [slot]))
            self._multiply(sums, wide, image, first, start, group, block, tile)
            if not ends:
                for place, slot in enumerate(slots):
                    ib.emit(tir.BufferStore(kept, sums.value(place), [slot]))
                return
            for vector in range(self.tiling.tile.chunks):
                self.result.store(
                    sums,
                    [place for place, (_, each) in enumerate(self.places) if each == vector],
                    image,
                    self.vectors.first_chunk(group * self.tiling.tile.chunks + vector),
                    lambda pixel: self._place(first + start + pixel),
                )

    def _multiply(
        self,
        sums: Any,
        wide: Any,
        image: Any,
        first: Any,
        start: Any,
        group: Any,
        block: Any,
        number: Any,
    ) -> None:
        ib, tile, chunks = self.ib, self.tiling.tile, self.tiling.block_chunks
        panel_bytes = tile.chunks * chunks * self.inner * self.lanes * FLOAT_BYTES
        pauses = pauses_in(chunks, self.inner * len(self.places), panel_bytes, self.tiles)
        together = chunks if pauses is None else pauses.steps
        with (
            ib.for_range(0, chunks // together, "piece") as piece,
            self._fetching(group, block, number, piece, pauses),
            ib.for_range(0, together, "in_chunk") as step,
            ib.for_range(0, self.inner, "channel") as channel,
        ):
            in_chunk = block * chunks + piece * together + step
            for place, (pixel, vector) in enumerate(self.places):
                if wide is not None:
                    at = in_chunk * self.chunk_stride + (start + pixel) * self.inner + channel
                    element = tir.BufferLoad(wide, [at])
                else:
                    where = self._place(first + start + pixel)
                    element = tir.BufferLoad(self.window.data, [image, in_chunk, *where, channel])
                at_channel = (in_chunk, 0, 0, channel)
                weight = self.vectors.load(self.weights, group * tile.chunks + vector, at_channel)
                sums.add_product(place, broadcast(element, self.lanes), weight)

    @contextlib.contextmanager
    def _fetching(
        self, group: Any, block: Any, tile: Any, piece: Any, pauses: Pauses | None
    ) -> Iterator[None]:
        """Fetch a share of the next block's weights before what is computed in the scope.

        Parameters
        ----------
        group, block, tile, piece
            What is computed: tile of output channels, block of input channels, pixels, and which
            piece of the block.
        """
        if pauses is None:
            yield
            return
        block_chunks = self.tiling.block_chunks
        chunks = self.tiling.tile.chunks * self.vectors.joined
        run = block_chunks * self.inner * self.vectors.chunk_lanes
        number = tile * (block_chunks // pauses.steps) + piece
        element = number * pauses.lines * elements_of_a_line(self.weights.dtype)
        following = group * self.blocks + block + 1
        chunk = tir.floordiv(following, self.blocks) * chunks + tir.floordiv(element, run)
        place = chunk * self.blocks + tir.floormod(following, self.blocks)
        for stmt in fetched_lines(
            self.weights, place * run + tir.floormod(element, run), pauses.lines
        ):
            self.ib.emit(stmt)
        yield

    def _place(self, pixel: Any) -> tuple[Any, Any]:
        """Return row and column of a pixel."""
        columns = self.window.columns
        return tir.floordiv(pixel, columns), tir.floormod(pixel, columns)
