"""The loops of a depthwise convolution and the pointwise one after it, laid out by hand.

One parallel loop over tasks: some rows of one image. A task computes the depthwise result of its
rows, for all channels and with everything that follows applied, into a buffer that stays in the
core's cache; then, for each group of output channels, multiplies the pixels of the buffer, counted
across rows, with sums in registers, and writes them with everything that follows applied. Where
tasks share a row pixel by pixel, the pixels of a task lie at the same places of its buffer, what
its first row has before them below.

    data    [N, C / c, H, W, c]     wide [C / c][row, column][c]
    weights [C / c, 1, h, w, 1, c] and [O / o, C / c, 1, 1, c, o]

A vector of sums holds one output chunk, or several that fill it together (`output_vectors.py`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from tvm import tir

from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts.fetch_ahead import Pauses, pauses_in
from tvm_fusionx.schedules.parts.hand_written_kernel import Store
from tvm_fusionx.schedules.parts.prefetch import elements_of_a_line, fetched_lines
from tvm_fusionx.schedules.parts.vector_sums import VectorSums, broadcast, ramp
from tvm_fusionx.schedules.windows.border_tiles import WindowTiles
from tvm_fusionx.schedules.windows.depthwise_pointwise_structure import Pair
from tvm_fusionx.schedules.windows.depthwise_pointwise_tiling import PairTiling
from tvm_fusionx.schedules.windows.result import WindowResult

# Elements between the chunks of `wide` besides the pixels' own. Without them the chunks of a pixel
# may lie a power of two apart, in the same few sets of the first level cache.
CHUNK_GAP = 16


def build_kernel(
    pair: Pair,
    weights: tuple[Any, Any],
    tiling: PairTiling,
    middle: Any,
    result: WindowResult,
    *,
    parallel: bool,
) -> Any:
    """Return the statement that computes `pair`.

    Parameters
    ----------
    pair
        What to compute.
    weights
        Buffers of the depthwise and of the pointwise weights.
    tiling
        How it is divided, a vector counted as a chunk of the output.
    middle
        Takes the function that stores into the buffer, and returns the one that is called with each
        depthwise sum: image, chunk, row, column, lane and the value.
    result
        Stores the pointwise sums.
    parallel
        Whether tasks run on several threads.
    """
    kernel = _Kernel(pair, weights, tiling, middle, result)
    return kernel.build("parallel" if parallel else "serial")


class _Kernel:
    def __init__(
        self,
        pair: Pair,
        weights: tuple[Any, Any],
        tiling: PairTiling,
        middle: Any,
        result: WindowResult,
    ) -> None:
        self.pair, self.tiling, self.middle, self.result = pair, tiling, middle, result
        self.vectors, self.weights = result.vectors, weights
        self.ib = tir.ir_builder.create()
        self.dtype = pair.data.dtype
        first = pair.depthwise
        _, self.chunks, height, width, self.inner = pair.in_shape
        self.tiles = WindowTiles(first, pair.padding, height, width, tiling.columns)
        self.rows, self.columns = first.rows, first.columns
        self.pixels = tiling.pixels
        self.pixel_tiles = math.ceil(self.pixels / tiling.tile.columns)
        self.shares_rows = self.pixels != tiling.rows * self.columns
        # Room for what the first row has before the pixels of a task, and the last row after them.
        self.lead = self.columns - 1 if self.shares_rows else 0
        self.chunk_stride = (self.pixels + 2 * self.lead) * self.inner + CHUNK_GAP

    def build(self, kind: str) -> Any:
        ib, rows = self.ib, self.tiling.rows
        slabs = math.ceil(self.rows / rows)
        with ib.for_range(0, self.pair.depthwise.batch * slabs, "task", kind=kind) as task:
            image = tir.floordiv(task, slabs)
            first_row, task_rows, offset = self._place_of_task(tir.floormod(task, slabs))
            size = self.chunks * self.chunk_stride
            wide = ib.allocate(self.dtype, (size,), "wide", scope="global")._buffer
            with (
                ib.for_range(0, self.chunks, "chunk") as chunk,
                ib.for_range(0, task_rows, "row") as row,
            ):
                self._depthwise_row(wide, image, chunk, first_row, row, self.lead - offset)
            groups = self.vectors.number // self.tiling.tile.chunks
            with (
                ib.for_range(0, groups, "group") as group,
                ib.for_range(0, self.pixel_tiles, "tile") as tile,
            ):
                start = tile * self.tiling.tile.columns
                if self.pixels % self.tiling.tile.columns:
                    start = tir.min(start, self.pixels - self.tiling.tile.columns)
                self._pointwise_tile(wide, image, first_row, group, tile, start, offset)
        return ib.get()

    def _place_of_task(self, number: Any) -> tuple[Any, Any, Any]:
        """Return a task's first row, its rows, and its first pixel counted from there."""
        rows = self.tiling.rows
        if not self.shares_rows:
            first_row = number * rows
            if self.rows % rows:
                first_row = tir.min(first_row, self.rows - rows)
            return first_row, rows, 0
        first = tir.min(number * self.pixels, self.rows * self.columns - self.pixels)
        first_row = tir.floordiv(first, self.columns)
        last_row = tir.floordiv(first + self.pixels - 1, self.columns)
        return first_row, last_row - first_row + 1, first - first_row * self.columns

    def _depthwise_row(
        self, wide: Any, image: Any, chunk: Any, first_row: Any, row: Any, begin: Any
    ) -> None:
        """Compute one row of one chunk; the task's first row begins at pixel `begin`."""
        lanes = self.inner

        def keep(_: Any, chunk: Any, __: Any, column: Any, lane: Any, value: Any) -> Any:
            pixel = begin + row * self.columns + column
            at = chunk * self.chunk_stride + pixel * lanes + lane
            return tir.BufferStore(wide, value, [at])

        store = self.middle(keep)
        self.tiles.emit(
            self.ib,
            lambda start: self._depthwise_tile(store, image, chunk, first_row + row, start),
        )

    def _depthwise_tile(
        self, store: Store, image: Any, chunk: Any, out_row: Any, start: Any
    ) -> None:
        ib, tiles, lanes = self.ib, self.tiles, self.inner
        first, number = tiles.row_taps(out_row)
        sums = VectorSums(ib, tiles.columns, lanes, self.dtype)
        with ib.for_range(0, number, "tap_row") as step:
            tap_row = first + step
            source = tiles.row(out_row, tap_row)
            for tap in range(tiles.window.kernel[1]):
                weight = tir.BufferLoad(
                    self.weights[0], [chunk, 0, tap_row, tap, 0, ramp(0, lanes)]
                )
                for place in range(tiles.columns):
                    column = tiles.column(start, place, tap)
                    if tiles.is_border(column):
                        continue
                    element = tir.BufferLoad(
                        self.pair.data, [image, chunk, source, column, ramp(0, lanes)]
                    )
                    sums.add_product(place, element, weight)
        for place in range(tiles.columns):
            sums.store(store, (image, chunk, out_row, start + place), place)

    def _pointwise_tile(
        self,
        wide: Any,
        image: Any,
        first_row: Any,
        group: Any,
        number: Any,
        start: Any,
        offset: Any,
    ) -> None:
        """Compute pixels from `start` on of a task that begins `offset` pixels into its first row.

        Where in the buffer they lie does not depend on `offset`: LLVM would miss that they are
        neighbours, and compute an address for each of them in the innermost loop.
        """
        ib, tile, lanes = self.ib, self.tiling.tile, self.vectors.lanes
        places = [(pixel, vector) for pixel in range(tile.columns) for vector in range(tile.chunks)]
        sums = VectorSums(ib, len(places), lanes, self.dtype)
        panel = tile.chunks * self.chunks * self.inner * lanes
        products = self.inner * len(places)
        pauses = pauses_in(self.chunks, products, panel * FLOAT_BYTES, self.pixel_tiles)
        together = self.chunks if pauses is None else pauses.steps
        with (
            ib.for_range(0, self.chunks // together, "piece") as piece,
            self._fetching(group, number, piece, pauses),
            ib.for_range(0, together, "in_chunk") as step,
            ib.for_range(0, self.inner, "channel") as channel,
        ):
            in_chunk = piece * together + step
            for place, (pixel, vector) in enumerate(places):
                place_in_chunk = (self.lead + start + pixel) * self.inner + channel
                at = in_chunk * self.chunk_stride + place_in_chunk
                element = broadcast(tir.BufferLoad(wide, [at]), lanes)
                at_channel = (in_chunk, 0, 0, channel)
                weight = self.vectors.load(
                    self.weights[1], group * tile.chunks + vector, at_channel
                )
                sums.add_product(place, element, weight)

        def pixel_at(pixel: Any) -> tuple[Any, Any]:
            at = offset + start + pixel
            return first_row + tir.floordiv(at, self.columns), tir.floormod(at, self.columns)

        for vector in range(tile.chunks):
            chosen = [place for place, (_, each) in enumerate(places) if each == vector]
            first_chunk = self.vectors.first_chunk(group * tile.chunks + vector)
            self.result.store(sums, chosen, image, first_chunk, pixel_at)

    @contextlib.contextmanager
    def _fetching(self, group: Any, tile: Any, piece: Any, pauses: Pauses | None) -> Iterator[None]:
        """Fetch a share of the next group's weights before what is computed in the scope."""
        if pauses is not None:
            weights = self.weights[1]
            panel = self.tiling.tile.chunks * self.chunks * self.inner * self.vectors.lanes
            number = tile * (self.chunks // pauses.steps) + piece
            share = pauses.lines * elements_of_a_line(weights.dtype)
            for stmt in fetched_lines(weights, (group + 1) * panel + number * share, pauses.lines):
                self.ib.emit(stmt)
        yield
