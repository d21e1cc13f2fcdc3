"""Write tiles of a convolution by minimal filtering, row by row, or what a pool makes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.hand_written_kernel import Store
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.winograd.pool import Pool
from tvm_fusionx.schedules.winograd.tiling import Problem


@dataclass(frozen=True)
class Pooling:
    """A pool between the convolution and what is written."""

    pool: Pool
    """Its windows; their sides divide those of the tiles."""

    between: Store
    """Called with image, chunk, row, column, lane and the value; what the pool reads there."""


class TileRows:
    """Writes rows of tiles with an IR builder.

    A row is a vector of output channels for each column; a vector may hold several chunks.
    """

    def __init__(self, ib: Any, problem: Problem, result: WindowResult) -> None:
        self.ib, self.problem, self.result = ib, problem, result
        self.vectors = problem.panel_vectors

    def _by_chunk(self, first_chunk: Any, stmt_of: Callable[[Any, Any, Any], Any]) -> Any:
        """Return what `stmt_of` makes of chunk, lane of it and lane of the vector, for a vector."""
        stmts = []
        for each in range(self.vectors.joined):
            lane, lanes = tir.Var("lane", "int32"), self.vectors.chunk_lanes
            stmt = stmt_of(first_chunk + each, lane, each * lanes + lane)
            stmts.append(tir.For(lane, 0, lanes, tir.ForKind.VECTORIZED, stmt))
        return tir.stmt_seq(*stmts)

    def write_row(
        self, pixels: VectorSums, k: int, first_chunk: Any, place: tuple[Any, ...]
    ) -> None:
        """Write one row of a tile, as far as it lies in the image."""
        if self.result.along_pixels:
            self._write_pixels(pixels, k, first_chunk, place)
            return
        _, _, rows, columns, _ = self.problem.out_shape
        tile, lanes = self.problem.filtering.tile, self.vectors.lanes
        image, tile_row, tile_column = place
        row, stmts = tile_row * tile + k, []
        for j in range(tile):

            def written(chunk: Any, lane: Any, at: Any, j: int = j) -> Any:
                value = tir.BufferLoad(pixels.buffer, [j * lanes + at])
                return self.result.write(image, chunk, row, tile_column * tile + j, lane, value)

            stmt = self._by_chunk(first_chunk, written)
            stmts.append(_unless_last(tile_column, j, columns, tile, stmt))
        self.ib.emit(_unless_last(tile_row, k, rows, tile, tir.stmt_seq(*stmts)))

    def _write_pixels(
        self, pixels: VectorSums, k: int, first_chunk: Any, place: tuple[Any, ...]
    ) -> None:
        """Write one row of a tile, each channel for all of its pixels in the image at once."""
        ib, tile = self.ib, self.problem.filtering.tile
        _, _, rows, columns, _ = self.problem.out_shape
        last_row, last_column = self.problem.tile_rows - 1, self.problem.tile_columns - 1
        image, tile_row, tile_column = place

        def pixel_at(pixel: Any) -> tuple[Any, Any]:
            return tile_row * tile + k, tile_column * tile + pixel

        def write(number: int) -> None:
            self.result.store(pixels, range(number), image, first_chunk, pixel_at)

        is_in_image = last_row * tile + k < rows or tile_row < last_row
        with contextlib.nullcontext() if is_in_image is True else ib.if_scope(is_in_image):
            if columns % tile == 0:
                write(tile)
                return
            with ib.if_scope(tile_column < last_column):
                write(tile)
            with ib.else_scope():
                write(columns % tile)

    def pool_row(
        self,
        pooling: Pooling,
        pixels: VectorSums,
        pooled: Any,
        k: int,
        first_chunk: Any,
        place: tuple[Any, ...],
    ) -> None:
        """Add one row of a tile to its windows, and write the windows that it ends.

        Parameters
        ----------
        pooled
            The windows that are not complete, side by side; kept from row to row.
        """
        _, _, rows, columns, _ = self.problem.out_shape
        tile, lanes = self.problem.filtering.tile, self.vectors.lanes
        high, wide = pooling.pool.window
        image, tile_row, tile_column = place
        row, stmts = tile_row * tile + k, []
        for j in range(tile):

            def added(chunk: Any, lane: Any, at: Any, j: int = j) -> Any:
                pixel = tir.BufferLoad(pixels.buffer, [j * lanes + at])
                value = pooling.between(image, chunk, row, tile_column * tile + j, lane, pixel)
                slot = j // wide * lanes + at
                if k % high or j % wide:
                    value = pooling.pool.combine(tir.BufferLoad(pooled, [slot]), value)
                return tir.BufferStore(pooled, value, [slot])

            stmt = self._by_chunk(first_chunk, added)
            stmts.append(_unless_last(tile_column, j, columns, tile, stmt))
        self.ib.emit(_unless_last(tile_row, k, rows, tile, tir.stmt_seq(*stmts)))
        if (k + 1) % high:
            return
        row, stmts = tile_row * (tile // high) + k // high, []
        for j in range(tile // wide):

            def written(chunk: Any, lane: Any, at: Any, j: int = j) -> Any:
                value = tir.BufferLoad(pooled, [j * lanes + at])
                column = tile_column * (tile // wide) + j
                return self.result.write(image, chunk, row, column, lane, value)

            stmt = self._by_chunk(first_chunk, written)
            stmts.append(_unless_last(tile_column, (j + 1) * wide - 1, columns, tile, stmt))
        self.ib.emit(_unless_last(tile_row, k, rows, tile, tir.stmt_seq(*stmts)))


def _unless_last(at: Any, position: int, extent: int, tile: int, stmt: Any) -> Any:
    """Return `stmt`, left out in the last tile if its position lies beyond the extent."""
    last = -(-extent // tile) - 1
    return tir.IfThenElse(at < last, stmt, None) if last * tile + position >= extent else stmt
