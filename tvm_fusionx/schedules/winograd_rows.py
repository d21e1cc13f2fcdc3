"""Write tiles of a convolution by minimal filtering, row by row, or what a pool makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.winograd_pool import Pool
from tvm_fusionx.schedules.winograd_tiling import Problem

# Writes one vector of the result: takes image, chunk, row, column, lane and the value.
Write = Callable[[Any, Any, Any, Any, Any, Any], Any]


@dataclass(frozen=True)
class Pooling:
    """A pool between the convolution and what is written."""

    pool: Pool
    """Its windows; their sides divide those of the tiles."""

    between: Write
    """Takes what :data:`Write` takes, and returns what the pool reads there."""


class TileRows:
    """Writes rows of tiles with an IR builder.

    Rows lie in a flat buffer, a vector of output channels for each column; a vector may hold
    several chunks.
    """

    def __init__(self, ib: Any, problem: Problem, write: Write) -> None:
        self.ib, self.problem, self.write = ib, problem, write
        self.vectors = problem.panel_vectors

    def _by_chunk(self, first_chunk: Any, stmt_of: Callable[[Any, Any, Any], Any]) -> Any:
        """Return what `stmt_of` makes of chunk, lane of it and lane of the vector, for a vector."""
        stmts = []
        for each in range(self.vectors.joined):
            lane, lanes = tir.Var("lane", "int32"), self.vectors.chunk_lanes
            stmt = stmt_of(first_chunk + each, lane, each * lanes + lane)
            stmts.append(tir.For(lane, 0, lanes, tir.ForKind.VECTORIZED, stmt))
        return tir.stmt_seq(*stmts)

    def write_row(self, pixels: Any, k: int, first_chunk: Any, place: tuple[Any, ...]) -> None:
        """Write one row of a tile, as far as it lies in the image."""
        _, _, rows, columns, _ = self.problem.out_shape
        tile, lanes = self.problem.filtering.tile, self.vectors.lanes
        image, tile_row, tile_column = place
        row, stmts = tile_row * tile + k, []
        for j in range(tile):

            def written(chunk: Any, lane: Any, at: Any, j: int = j) -> Any:
                value = tir.BufferLoad(pixels, [j * lanes + at])
                return self.write(image, chunk, row, tile_column * tile + j, lane, value)

            stmt = self._by_chunk(first_chunk, written)
            stmts.append(_unless_last(tile_column, j, columns, tile, stmt))
        self.ib.emit(_unless_last(tile_row, k, rows, tile, tir.stmt_seq(*stmts)))

    def pool_row(
        self,
        pooling: Pooling,
        pixels: Any,
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
                pixel = tir.BufferLoad(pixels, [j * lanes + at])
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
                return self.write(image, chunk, row, column, lane, value)

            stmt = self._by_chunk(first_chunk, written)
            stmts.append(_unless_last(tile_column, (j + 1) * wide - 1, columns, tile, stmt))
        self.ib.emit(_unless_last(tile_row, k, rows, tile, tir.stmt_seq(*stmts)))


def _unless_last(at: Any, position: int, extent: int, tile: int, stmt: Any) -> Any:
    """Return `stmt`, left out in the last tile if its position lies beyond the extent."""
    last = -(-extent // tile) - 1
    return tir.IfThenElse(at < last, stmt, None) if last * tile + position >= extent else stmt
