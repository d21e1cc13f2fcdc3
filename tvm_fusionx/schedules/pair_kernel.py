"""The loops of a depthwise convolution and the pointwise one after it, laid out by hand.

One parallel loop over tasks: some rows of one image. A task computes the depthwise result of its
rows, for all channels and with everything that follows applied, into a buffer that stays in the
core's cache; then, for each group of output channels, multiplies the pixels of the buffer, counted
across rows, with sums in registers, and writes them with everything that follows applied.

    data    [N, C / c, H, W, c]     wide [C / c][row, column][c]
    weights [C / c, 1, h, w, 1, c] and [O / o, C / c, 1, 1, c, o]
"""

from __future__ import annotations

import math
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.pair_structure import Pair
from tvm_fusionx.schedules.pair_tiling import PairTiling
from tvm_fusionx.schedules.stage_replacement import Store

# Elements between the chunks of `wide` besides the pixels' own. Without them the chunks of a pixel
# may lie a power of two apart, in the same few sets of the first level cache.
CHUNK_GAP = 16


def build_kernel(
    pair: Pair,
    weights: tuple[Any, Any],
    tiling: PairTiling,
    middle: Any,
    write: Store,
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
        How it is divided.
    middle
        Takes the function that stores into the buffer, and returns the one that is called with each
        depthwise sum: image, chunk, row, column, lane and the value.
    write
        Called with each pointwise sum in the same way.
    parallel
        Whether tasks run on several threads.
    """
    kernel = _Kernel(pair, weights, tiling, middle, write)
    return kernel.build("parallel" if parallel else "serial")


class _Kernel:
    def __init__(
        self,
        pair: Pair,
        weights: tuple[Any, Any],
        tiling: PairTiling,
        middle: Any,
        write: Store,
    ) -> None:
        self.pair, self.tiling, self.middle, self.write = pair, tiling, middle, write
        self.weights = weights
        self.ib = tir.ir_builder.create()
        self.dtype = pair.data.dtype
        first, second = pair.depthwise, pair.pointwise
        self.rows, self.columns = first.rows, first.columns
        self.chunks, self.inner = first.chunks, first.lanes
        self.outer = second.lanes
        self.pixels = tiling.rows * self.columns
        self.chunk_stride = self.pixels * self.inner + CHUNK_GAP

    def build(self, kind: str) -> Any:
        ib, rows = self.ib, self.tiling.rows
        slabs = math.ceil(self.rows / rows)
        with ib.for_range(0, self.pair.depthwise.batch * slabs, "task", kind=kind) as task:
            image = tir.floordiv(task, slabs)
            first_row = tir.floormod(task, slabs) * rows
            if self.rows % rows:
                first_row = tir.min(first_row, self.rows - rows)
            wide = self._allocate("wide", self.chunks * self.chunk_stride)
            with (
                ib.for_range(0, self.chunks, "chunk") as chunk,
                ib.for_range(0, rows, "row") as row,
            ):
                self._depthwise_row(wide, image, chunk, first_row, row)
            groups = self.pair.pointwise.chunks // self.tiling.tile.chunks
            tiles = math.ceil(self.pixels / self.tiling.tile.columns)
            with (
                ib.for_range(0, groups, "group") as group,
                ib.for_range(0, tiles, "tile") as tile,
            ):
                start = tile * self.tiling.tile.columns
                if self.pixels % self.tiling.tile.columns:
                    start = tir.min(start, self.pixels - self.tiling.tile.columns)
                self._pointwise_tile(wide, image, first_row, group, start)
        return ib.get()

    def _allocate(self, name: str, size: int, scope: str = "global") -> Any:
        return self.ib.allocate(self.dtype, (size,), name, scope=scope)._buffer

    def _zeros(self, name: str, number: int, lanes: int) -> Any:
        sums = self._allocate(name, number * lanes, "local")
        zero = _broadcast(tir.const(0, self.dtype), lanes)
        for place in range(number):
            self._store(sums, place * lanes, zero, lanes)
        return sums

    def _store(self, buffer: Any, start: Any, value: Any, lanes: int) -> None:
        self.ib.emit(tir.BufferStore(buffer, value, [_ramp(start, lanes)]))

    def _add_product(self, sums: Any, place: int, lanes: int, left: Any, right: Any) -> None:
        value = _load(sums, place * lanes, lanes) + left * right
        self._store(sums, place * lanes, value, lanes)

    def _depthwise_row(self, wide: Any, image: Any, chunk: Any, first_row: Any, row: Any) -> None:
        """Compute one row of one chunk; tiles that touch no border share one loop."""
        count = self.tiling.columns
        starts = [
            min(number * count, self.columns - count)
            for number in range(math.ceil(self.columns / count))
        ]
        inside = [start for start in starts if self._is_inside(start)]
        # Tiles lie `count` columns apart, but for the last where it overlaps the one before.
        looped = [start for start in inside if start % count == 0]
        place = (image, chunk, first_row, row)
        for start in starts:
            if start not in looped:
                self._depthwise_tile(wide, place, start)
        if looped:
            with self.ib.for_range(0, len(looped), "column_tile") as number:
                self._depthwise_tile(wide, place, looped[0] + number * count)

    def _column(self, start: Any, step: int, tap: int) -> Any:
        """Return the data's column under tap `tap` of the tile's column `step`."""
        window = self.pair.depthwise
        offset = step * window.stride[1] + tap * window.dilation[1] - self.pair.padding[1]
        return start * window.stride[1] + offset

    def _is_inside(self, start: int) -> bool:
        """Tell whether a tile reads no column of the border."""
        last = self._column(start, self.tiling.columns - 1, self.pair.depthwise.kernel[1] - 1)
        return bool(self._column(start, 0, 0) >= 0 and last < self.pair.in_shape[3])

    def _row_taps(self, out_row: Any) -> tuple[Any, Any]:
        """Return the first tap of the window's rows that lies in the data, and their number."""
        window, height = self.pair.depthwise, self.pair.in_shape[2]
        taps, step, dilation = window.kernel[0], window.stride[0], window.dilation[0]
        above = self.pair.padding[0]
        last_row = (self.rows - 1) * step + (taps - 1) * dilation - above
        first: Any = 0
        if above:
            first = tir.floordiv(tir.max(above - out_row * step + dilation - 1, 0), dilation)
        if last_row < height:
            return first, taps - first
        end = tir.floordiv(
            tir.max(height + above - out_row * step + dilation - 1, 0), dilation
        )
        return first, tir.max(tir.min(end, taps) - first, 0)

    def _depthwise_tile(self, wide: Any, place: tuple[Any, ...], start: Any) -> None:
        ib, window, lanes = self.ib, self.pair.depthwise, self.inner
        image, chunk, first_row, row = place
        out_row = first_row + row
        first, number = self._row_taps(out_row)
        sums = self._zeros("depthwise", self.tiling.columns, lanes)
        with ib.for_range(0, number, "tap_row") as step:
            tap_row = first + step
            source = out_row * window.stride[0] + tap_row * window.dilation[0]
            source = source - self.pair.padding[0]
            for tap in range(window.kernel[1]):
                weight = tir.BufferLoad(
                    self.weights[0], [chunk, 0, tap_row, tap, 0, _ramp(0, lanes)]
                )
                for step_column in range(self.tiling.columns):
                    column = self._column(start, step_column, tap)
                    if isinstance(column, int) and not 0 <= column < self.pair.in_shape[3]:
                        continue
                    element = tir.BufferLoad(
                        self.pair.data, [image, chunk, source, column, _ramp(0, lanes)]
                    )
                    self._add_product(sums, step_column, lanes, element, weight)

        def keep(_: Any, chunk: Any, __: Any, column: Any, lane: Any, value: Any) -> Any:
            at = chunk * self.chunk_stride + (row * self.columns + column) * lanes + lane
            return tir.BufferStore(wide, value, [at])

        store = self.middle(keep)
        for step in range(self.tiling.columns):
            self._emit_lanes(store, (image, chunk, out_row, start + step), sums, step, lanes)

    def _pointwise_tile(
        self, wide: Any, image: Any, first_row: Any, group: Any, start: Any
    ) -> None:
        ib, tile, lanes = self.ib, self.tiling.tile, self.outer
        places = [(pixel, chunk) for pixel in range(tile.columns) for chunk in range(tile.chunks)]
        sums = self._zeros("pointwise", len(places), lanes)
        with (
            ib.for_range(0, self.chunks, "in_chunk") as in_chunk,
            ib.for_range(0, self.inner, "channel") as channel,
        ):
            for place, (pixel, chunk) in enumerate(places):
                at = in_chunk * self.chunk_stride + (start + pixel) * self.inner + channel
                element = _broadcast(tir.BufferLoad(wide, [at]), lanes)
                out_chunk = group * tile.chunks + chunk
                weight = tir.BufferLoad(
                    self.weights[1], [out_chunk, in_chunk, 0, 0, channel, _ramp(0, lanes)]
                )
                self._add_product(sums, place, lanes, element, weight)
        for place, (pixel, chunk) in enumerate(places):
            at = start + pixel
            row = first_row + tir.floordiv(at, self.columns)
            column = tir.floormod(at, self.columns)
            out_chunk = group * tile.chunks + chunk
            self._emit_lanes(self.write, (image, out_chunk, row, column), sums, place, lanes)

    def _emit_lanes(
        self, store: Store, place: tuple[Any, ...], sums: Any, number: int, lanes: int
    ) -> None:
        """Store one vector of sums, lane by lane in a vectorised loop."""
        lane = tir.Var("lane", "int32")
        value = tir.BufferLoad(sums, [number * lanes + lane])
        stmt = store(*(tir.const(at, "int32") if isinstance(at, int) else at for at in place), lane, value)
        self.ib.emit(tir.For(lane, 0, lanes, tir.ForKind.VECTORIZED, stmt))


def _ramp(start: Any, lanes: int) -> Any:
    return tir.Ramp(start, 1, lanes) if lanes > 1 else start


def _broadcast(value: Any, lanes: int) -> Any:
    return tir.Broadcast(value, lanes) if lanes > 1 else value


def _load(buffer: Any, start: Any, lanes: int) -> Any:
    return tir.BufferLoad(buffer, [_ramp(start, lanes)])
