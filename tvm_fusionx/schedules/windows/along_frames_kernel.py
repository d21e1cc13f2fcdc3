"""The loops of a convolution over whole planes, laid out by hand.

One parallel loop over tasks: some columns of some rows of one image, and a part of the output
channels. A task copies the columns of all input channels and rows that it reads, vector beside
vector; then, for each tile of output channels and each row, it sums with vectors of columns in
registers, each weight multiplying all columns of its channel.

    data [N, I, H, W, 1]   wide [row][I][columns of the panel]   weights [O / o, I, h, 1, 1, o]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.hand_written_kernel import Store
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import broadcast, ramp
from tvm_fusionx.schedules.windows.along_frames_tiling import PlaneTasks, PlaneTile, panels_of
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.tir.flat_access import with_flat_access


def build_kernel(
    window: Window,
    weights: Any,
    tile: PlaneTile,
    tasks: PlaneTasks,
    lanes: int,
    gather: Callable[[Store], Store],
    write: Store,
    *,
    parallel: bool,
) -> Any:
    """Return the statement that computes a convolution over whole planes.

    Parameters
    ----------
    window
        The convolution; its kernel and its stride are one column wide, its data is not blocked.
    weights
        Buffer of the weights.
    tile, tasks
        How it is divided.
    lanes
        Columns of a vector.
    gather
        Takes the function that stores into the buffer, and returns the one that is called with each
        place of the input: image, channel, row, column, 0 and None.
    write
        Called with each sum: image, chunk, row, column, lane and the value.
    parallel
        Whether tasks run on several threads.
    """
    kernel = _Kernel(window, weights, tile, tasks, lanes, gather, write)
    return kernel.build("parallel" if parallel else "serial")


class _Kernel:
    def __init__(
        self,
        window: Window,
        weights: Any,
        tile: PlaneTile,
        tasks: PlaneTasks,
        lanes: int,
        gather: Callable[[Store], Store],
        write: Store,
    ) -> None:
        self.window, self.weights, self.tile, self.tasks = window, weights, tile, tasks
        self.lanes, self.gather, self.write = lanes, gather, write
        self.ib = tir.ir_builder.create()
        self.dtype = window.data.dtype
        self.panels = panels_of(window.columns, tile.vectors, lanes)
        self.in_rows = window.rows_read(tasks.rows)
        groups = window.out_blocks * window.block_out // tile.channels
        self.groups = groups // tasks.channel_tasks

    def build(self, kind: str) -> Any:
        ib, window, tasks = self.ib, self.window, self.tasks
        slabs, parts, panels = window.rows // tasks.rows, tasks.channel_tasks, len(self.panels)
        number = window.batch * slabs * panels * parts
        with ib.for_range(0, number, "task", kind=kind) as task:
            image = tir.floordiv(task, slabs * panels * parts)
            slab = tir.floormod(tir.floordiv(task, panels * parts), slabs)
            panel = tir.floormod(tir.floordiv(task, parts), panels)
            part = tir.floormod(task, parts)
            first_row = slab * tasks.rows
            size = self.in_rows * window.in_channels * self.tile.vectors * self.lanes
            wide = ib.allocate(self.dtype, (size,), "wide", scope="global")._buffer
            last = self.panels[-1]
            if last == self.tile.vectors:
                self._panel(wide, image, first_row, panel, part, last)
            else:
                with ib.if_scope(panel < panels - 1):
                    self._panel(wide, image, first_row, panel, part, self.tile.vectors)
                with ib.else_scope():
                    self._panel(wide, image, first_row, panel, part, last)
        return ib.get()

    def _panel(
        self, wide: Any, image: Any, first_row: Any, panel: Any, part: Any, vectors: int
    ) -> None:
        """Compute a panel of so many vectors."""
        ib, columns = self.ib, self.window.columns
        start = panel * (self.tile.vectors * self.lanes)
        if columns % (self.tile.vectors * self.lanes):
            start = tir.min(start, columns - vectors * self.lanes)
        self._gathered(wide, image, first_row, start, vectors)
        with (
            ib.for_range(0, self.groups, "group") as group,
            ib.for_range(0, self.tasks.rows, "row") as row,
        ):
            self._tile(wide, image, first_row, row, part * self.groups + group, start, vectors)

    def _gathered(self, wide: Any, image: Any, first_row: Any, start: Any, vectors: int) -> None:
        """Copy the input of a panel into its buffer."""
        ib, window, lanes = self.ib, self.window, self.lanes
        top = first_row * window.stride[0]
        with (
            ib.for_range(0, self.in_rows, "in_row") as row,
            ib.for_range(0, window.in_channels, "channel") as channel,
        ):
            begin = self._at(row, channel, vectors)

            def keep(*place_and_value: Any) -> Any:
                *_, column, _, value = place_and_value
                return tir.BufferStore(wide, value, [begin + column - start])

            read = self.gather(keep)
            for each in range(vectors):
                lane, zero = tir.Var("lane", "int32"), tir.const(0, "int32")
                column = start + each * lanes + lane
                self._emit(read(image, channel, top + row, column, zero, None), lane)

    def _at(self, row: Any, channel: Any, vectors: int) -> Any:
        """Return where the columns of a row and channel begin in the buffer."""
        return (row * self.window.in_channels + channel) * (vectors * self.lanes)

    def _tile(
        self,
        wide: Any,
        image: Any,
        first_row: Any,
        row: Any,
        group: Any,
        start: Any,
        vectors: int,
    ) -> None:
        """Compute one tile of output channels in one row of a panel."""
        ib, window, lanes = self.ib, self.window, self.lanes
        places = [(c, v) for c in range(self.tile.channels) for v in range(vectors)]
        sums = VectorSums(ib, len(places), lanes, self.dtype)
        sums.fill()
        with (
            ib.for_range(0, window.kernel[0], "tap") as tap,
            ib.for_range(0, window.in_channels, "channel") as channel,
        ):
            in_row = row * window.stride[0] + tap * window.dilation[0]
            at = self._at(in_row, channel, vectors)
            for place, (c, v) in enumerate(places):
                chunk, lane = self._channel(group, c)
                weight = tir.BufferLoad(self.weights, [chunk, channel, tap, 0, 0, lane])
                columns = tir.BufferLoad(wide, [ramp(at + v * lanes, lanes)])
                sums.add_product(place, columns, broadcast(weight, lanes))
        for place, (c, v) in enumerate(places):
            chunk, lane = self._channel(group, c)
            column = tir.Var("column", "int32")
            value = tir.BufferLoad(sums.buffer, [place * lanes + column])
            row_written = first_row + row
            at_column = start + v * lanes + column
            self._emit(self.write(image, chunk, row_written, at_column, lane, value), column)

    def _channel(self, group: Any, number: int) -> tuple[Any, Any]:
        """Return chunk and lane of a channel of a tile."""
        channels, lanes = self.tile.channels, self.window.block_out
        if channels % lanes == 0:
            at = tir.const(number % lanes, "int32")
            return group * (channels // lanes) + number // lanes, at
        tiles = lanes // channels
        return tir.floordiv(group, tiles), tir.floormod(group, tiles) * channels + number

    def _emit(self, stmt: Any, lane: Any) -> None:
        """Write a statement for all lanes of a vector."""
        stmt = with_flat_access(stmt, lane)
        self.ib.emit(tir.For(lane, 0, self.lanes, tir.ForKind.VECTORIZED, stmt))
