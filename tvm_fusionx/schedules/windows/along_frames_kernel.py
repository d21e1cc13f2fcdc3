"""The loops of a convolution over whole planes, laid out by hand.

One parallel loop over tasks: some columns of some rows of one image, and a part of the output
channels. A task copies the columns of all input channels and rows that it reads, vector beside
vector; then, for each tile of output channels and each row, it sums with vectors of columns in
registers. The register tile is that of other convolutions with its sides exchanged: each weight
multiplies all columns of its channel.

    data [N, I, H, W, 1]   wide [row][I][columns of the panel]   weights [O / o, I, h, 1, 1, o]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.hand_written_kernel import Gather, Store
from tvm_fusionx.schedules.parts.microkernel import Microkernel, places_by_rows, terms
from tvm_fusionx.schedules.parts.tasks import tasks
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import Vectors, broadcast, each_lane, load
from tvm_fusionx.schedules.windows.along_frames_tiling import FrameTasks, FrameTile, panels_of
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.tir.flat_access import with_flat_access


@dataclass(frozen=True)
class AlongFramesKernel:
    """A convolution whose kernel and stride are one column wide, of data that is not blocked."""

    window: Window

    weights: Any
    """Buffer of the weights."""

    tile: FrameTile

    tasks: FrameTasks

    lanes: int
    """Columns of a vector."""

    gather: Gather
    """Called with each place of the input: image, channel, row, column, 0 and None."""

    write: Store
    """Called with each sum: image, chunk, row, column, lane and the value."""

    def build(self, *, parallel: bool) -> Any:
        """Return the statement that computes the convolution, on several threads or on one."""
        ib, window, tile = tir.ir_builder.create(), self.window, self.tile
        panels = panels_of(window.columns, tile.vectors, self.lanes)
        slabs, parts = window.rows // self.tasks.rows, self.tasks.channel_tasks
        extents = window.batch, slabs, len(panels), parts
        with tasks(ib, extents, parallel=parallel) as (image, slab, panel, part):
            size = window.rows_read(self.tasks.rows) * window.in_channels
            wide = Vectors(ib, window.data.dtype).allocate("wide", size * tile.vectors * self.lanes)
            task = _Task(self, ib, wide, image, slab * self.tasks.rows, part)
            last = panels[-1]
            if last == tile.vectors:
                task.panel(panel, last)
            else:
                with ib.if_scope(panel < len(panels) - 1):
                    task.panel(panel, tile.vectors)
                with ib.else_scope():
                    task.panel(panel, last)
        return ib.get()


@dataclass(frozen=True)
class _Task:
    """Some rows of one image, and a part of the output channels."""

    kernel: AlongFramesKernel
    ib: Any
    wide: Any
    image: Any
    first_row: Any
    part: Any

    def panel(self, number: Any, vectors: int) -> None:
        """Compute a panel of so many vectors of columns."""
        ib, window, tile, lanes = self.ib, self.kernel.window, self.kernel.tile, self.kernel.lanes
        start = number * (tile.vectors * lanes)
        if window.columns % (tile.vectors * lanes):
            start = tir.min(start, window.columns - vectors * lanes)
        self._gather(start, vectors)
        groups = window.out_blocks * window.block_out // tile.channels
        groups //= self.kernel.tasks.channel_tasks
        with (
            ib.for_range(0, groups, "group") as group,
            ib.for_range(0, self.kernel.tasks.rows, "row") as row,
        ):
            self._tile(row, self.part * groups + group, start, vectors)

    def _gather(self, start: Any, vectors: int) -> None:
        """Copy a panel of the input into the buffer."""
        ib, window, lanes = self.ib, self.kernel.window, self.kernel.lanes
        top = self.first_row * window.stride[0]
        with (
            ib.for_range(0, window.rows_read(self.kernel.tasks.rows), "in_row") as row,
            ib.for_range(0, window.in_channels, "channel") as channel,
        ):
            begin = self._at(row, channel, vectors)

            def keep(*place_and_value: Any) -> Any:
                *_, column, _, value = place_and_value
                return tir.BufferStore(self.wide, value, [begin + column - start])

            read, zero = self.kernel.gather(keep), tir.const(0, "int32")
            for each in range(vectors):
                place = (self.image, channel, top + row, start + each * lanes, zero)
                self._write_columns(read, place, lambda _: None)

    def _at(self, row: Any, channel: Any, vectors: int) -> Any:
        """Return where the columns of a row and channel begin in the buffer."""
        return (row * self.kernel.window.in_channels + channel) * (vectors * self.kernel.lanes)

    def _tile(self, row: Any, group: Any, start: Any, vectors: int) -> None:
        """Compute one tile of output channels in one row of a panel."""
        ib, kernel, lanes = self.ib, self.kernel, self.kernel.lanes
        window, places = kernel.window, places_by_rows(kernel.tile.channels, vectors)

        def columns(term: tuple[Any, Any], _: int, vector: int) -> Any:
            tap, channel = term
            in_row = row * window.stride[0] + tap * window.dilation[0]
            return load(self.wide, self._at(in_row, channel, vectors) + vector * lanes, lanes)

        def weight(term: tuple[Any, Any], number: int, _: int) -> Any:
            tap, channel = term
            chunk, lane = self._channel(group, number)
            place = [chunk, channel, tap, 0, 0, lane]
            return broadcast(tir.BufferLoad(kernel.weights, place), lanes)

        def store(sums: VectorSums) -> None:
            for place, (number, vector) in enumerate(places):
                chunk, lane = self._channel(group, number)
                at = (self.image, chunk, self.first_row + row, start + vector * lanes, lane)
                self._write_columns(kernel.write, at, functools.partial(sums.element, place))

        microkernel = Microkernel(places, lanes, window.data.dtype, columns, weight, store)
        microkernel.emit(ib, terms(ib, tap=window.kernel[0], channel=window.in_channels))

    def _channel(self, group: Any, number: int) -> tuple[Any, Any]:
        """Return chunk and lane of a channel of a tile."""
        channels, lanes = self.kernel.tile.channels, self.kernel.window.block_out
        if channels % lanes == 0:
            at = tir.const(number % lanes, "int32")
            return group * (channels // lanes) + number // lanes, at
        tiles = lanes // channels
        return tir.floordiv(group, tiles), tir.floormod(group, tiles) * channels + number

    def _write_columns(
        self, write: Store, place: tuple[Any, ...], value_of: Callable[[Any], Any]
    ) -> None:
        """Write a vector of columns from `place` on, each access by its place in memory."""
        image, chunk, row, column, channel = place

        def written(lane: Any) -> Any:
            stmt = write(image, chunk, row, column + lane, channel, value_of(lane))
            return with_flat_access(stmt, lane)

        self.ib.emit(each_lane(self.kernel.lanes, written))
