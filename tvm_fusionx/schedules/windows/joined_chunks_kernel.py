"""The loops of a dense window whose vectors of sums are neighbouring chunks, laid out by hand.

One parallel loop over tasks: an image, some of its rows, some of their columns, a part of the
output channels. A task gathers its input where something precedes the window, as padding does.
Then, for each tile of output channels, it moves the weights, halves of vectors as they lie, into a
panel of whole ones, where enough tiles of columns read them; and multiplies them, row by row and
tile by tile, the sums of a tile in registers.

    data    [N, C / c, H, W, c]     wide [C / c][row][column][c]
    weights [O / o, C / c, kh, kw, c, o]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.hand_written_kernel import Gather
from tvm_fusionx.schedules.parts.microkernel import Microkernel, places_by_rows, terms
from tvm_fusionx.schedules.parts.operand import GatheredOperand
from tvm_fusionx.schedules.parts.tasks import start_of, tasks
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import broadcast, each_lane
from tvm_fusionx.schedules.windows.joined_chunks_tiling import columns_of_task
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.schedules.windows.tiling import ChunkTile, Tasks
from tvm_fusionx.schedules.windows.weight_panel import WeightPanel


@dataclass(frozen=True)
class JoinedChunksKernel:
    """A dense window of all channels, its vectors those of the result."""

    window: Window

    weights: Any
    """Buffer of the weights."""

    tile: ChunkTile
    """Vectors of output channels, and columns, whose sums are held in registers."""

    tasks: Tasks
    """How it is divided; parts of the columns are whole tiles."""

    gather: Gather | None
    """Called with image, chunk, row, column, lane and None; None where a parameter is read."""

    result: WindowResult
    """Stores the sums."""

    packs: bool
    """Whether the weights of a tile are put side by side before its columns are multiplied."""

    @property
    def columns(self) -> int:
        """Output columns of a task."""
        return columns_of_task(self.window, self.tile, self.tasks)

    def build(self, *, parallel: bool) -> Any:
        """Return the statement that computes the window, on several threads or on one."""
        ib, window = tir.ir_builder.create(), self.window
        slabs, pieces = window.rows // self.tasks.rows, self.tasks.column_tasks
        groups = self.result.vectors.number // self.tile.chunks // self.tasks.channel_tasks
        # Slabs of rows outermost: a core then reads the rows that it wrote in the kernel before.
        extents = window.batch, slabs, pieces, self.tasks.channel_tasks
        with tasks(ib, extents, parallel=parallel) as (image, slab, piece, part):
            row = slab * self.tasks.rows
            column = start_of(piece, self.columns, window.columns, pieces)
            task = _Task(self, ib, image, row, column, self._gathered(ib, image, row, column))
            with ib.for_range(0, groups, "group") as group:
                task.group((part * groups + group) * self.tile.chunks)
        return ib.get()

    def _gathered(self, ib: Any, image: Any, row: Any, column: Any) -> GatheredOperand | None:
        """Gather the input of a task that begins at `row` and `column` of the result."""
        if self.gather is None:
            return None
        window, inner = self.window, self.window.block_in
        chunks, width = window.in_channels // inner, window.columns_read(self.columns)
        height = window.rows_read(self.tasks.rows)
        wide = GatheredOperand(ib, window.data.dtype, chunks, height * width * inner)
        top, left = row * window.stride[0], column * window.stride[1]
        with (
            ib.for_range(0, chunks, "chunk") as chunk,
            ib.for_range(0, height, "in_row") as y,
            ib.for_range(0, width, "in_column") as x,
        ):
            gathered = self.gather(
                lambda *at: wide.store(at[-1], chunk, (y * width + x) * inner, at[-2])
            )
            place = (image, chunk, top + y, left + x)
            ib.emit(each_lane(inner, lambda lane: gathered(*place, lane, None)))
        return wide


@dataclass(frozen=True)
class _Task:
    """Some rows and columns of one image, their input gathered."""

    kernel: JoinedChunksKernel
    ib: Any
    image: Any
    row: Any
    column: Any
    wide: GatheredOperand | None

    def group(self, first_vector: Any) -> None:
        """Compute the vectors of a tile from `first_vector` on."""
        ib, kernel = self.ib, self.kernel
        panel = self._panel(first_vector) if kernel.packs else None
        columns = min(kernel.tile.columns, kernel.columns)
        tiles = math.ceil(kernel.columns / columns)
        with (
            ib.for_range(0, kernel.tasks.rows, "row") as row,
            ib.for_range(0, tiles, "tile") as tile,
        ):
            self._tile(first_vector, panel, row, start_of(tile, columns, kernel.columns), columns)

    def _panel(self, first_vector: Any) -> WeightPanel:
        window, vectors = self.kernel.window, self.kernel.result.vectors
        inner, number = window.block_in, self.kernel.tile.chunks
        chunks = window.in_channels // inner
        panel = WeightPanel(
            self.ib, self.kernel.weights, vectors, number, chunks, inner, window.kernel
        )
        panel.fill(first_vector, 0)
        return panel

    def _tile(
        self, first_vector: Any, panel: WeightPanel | None, row: Any, start: Any, columns: int
    ) -> None:
        """Compute `columns` sums of each vector of a tile, from place `start` of a row on."""
        kernel, window, vectors = self.kernel, self.kernel.window, self.kernel.result.vectors
        places = places_by_rows(columns, kernel.tile.chunks)

        def element(term: tuple[Any, ...], column: int, _: int) -> Any:
            return broadcast(self._element(term, row, start, column), vectors.lanes)

        def weight(term: tuple[Any, ...], _: int, vector: int) -> Any:
            if panel is not None:
                return panel.load(vector, term)
            return vectors.load(kernel.weights, first_vector + vector, term)

        def begin(sums: VectorSums) -> None:
            kernel.result.begin(sums, [first_vector + vector for _, vector in places])

        def store(sums: VectorSums) -> None:
            for vector in range(kernel.tile.chunks):
                kernel.result.store(
                    sums,
                    range(vector, len(places), kernel.tile.chunks),
                    self.image,
                    vectors.first_chunk(first_vector + vector),
                    lambda step: (self.row + row, self.column + start + step),
                )

        microkernel = Microkernel(
            places, vectors.lanes, window.dtype, element, weight, store, begin=begin
        )
        extents = {
            "in_chunk": window.in_channels // window.block_in,
            "tap_row": window.kernel[0],
            "tap_column": window.kernel[1],
            "channel": window.block_in,
        }
        microkernel.emit(self.ib, terms(self.ib, **extents))

    def _element(self, term: tuple[Any, ...], row: Any, start: Any, column: int) -> Any:
        """Return what a term multiplies for the column `column` places from `start` on."""
        window, (chunk, tap_row, tap_column, channel) = self.kernel.window, term
        y = row * window.stride[0] + tap_row * window.dilation[0]
        x = (start + column) * window.stride[1] + tap_column * window.dilation[1]
        if self.wide is None:
            y += self.row * window.stride[0]
            x += self.column * window.stride[1]
            return tir.BufferLoad(window.data, [self.image, chunk, y, x, channel])
        width = window.columns_read(self.kernel.columns)
        return self.wide.load(chunk, (y * width + x) * window.block_in, channel)
