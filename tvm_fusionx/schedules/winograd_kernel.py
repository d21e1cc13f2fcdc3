"""The loops of a convolution by minimal filtering, laid out by hand.

One parallel loop over tasks. A task transforms the input of its tiles into a buffer of its own;
then, for each panel of output channels, multiplies point by point with sums in registers, the
weights streaming through in the order they lie in memory; then transforms the panel's products back
and writes them, with everything that follows the convolution applied to the registers.

    data   [N, I / i, H, W, i]            weights [O / panel, points, I, panel]
    wide   [points][I / i][tiles][i]      product [panel / o][tiles][points][o]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.winograd_pool import Pool
from tvm_fusionx.schedules.winograd_program import apply_matrix
from tvm_fusionx.schedules.winograd_source import Source
from tvm_fusionx.schedules.winograd_tiling import Cut, Problem

# Elements between the points of `wide` besides the tiles' own. Without them the points of a tile
# lie a power of two apart, in the same few sets of the first level cache.
POINT_GAP = 16

# Writes one vector of the result: takes image, chunk, row, column, lane and the value.
Write = Callable[[Any, Any, Any, Any, Any, Any], Any]


@dataclass(frozen=True)
class Pooling:
    """A pool between the convolution and what is written."""

    pool: Pool
    """Its windows; their sides divide those of the tiles."""

    between: Write
    """Takes what :data:`Write` takes, and returns what the pool reads there."""


def build_kernel(
    problem: Problem,
    source: Source,
    weights: Any,
    cut: Cut,
    write: Write,
    pooling: Pooling | None = None,
    *,
    parallel: bool,
) -> Any:
    """Return the statement that computes `problem`.

    Parameters
    ----------
    problem
        What to compute.
    source
        Where the input ``[N, I / i, H, W, i]`` is.
    weights
        Buffer ``[O / panel, points, I, panel]``.
    cut
        How it is divided.
    write
        Called for each output vector, with the value of the convolution, or of the pool.
    pooling
        The pool, where there is one.
    parallel
        Whether tasks run on several threads.
    """
    kernel = _Kernel(problem, source, weights, cut, write, pooling)
    return kernel.build("parallel" if parallel else "serial")


class _Kernel:
    def __init__(
        self,
        problem: Problem,
        source: Source,
        weights: Any,
        cut: Cut,
        write: Write,
        pooling: Pooling | None,
    ) -> None:
        self.problem, self.cut = problem, cut
        self.write, self.pooling = write, pooling
        self.source, self.weights = source, weights
        self.ib = tir.ir_builder.create()
        self.points = problem.filtering.points
        self.dtype = source.buffer.dtype
        _, self.in_chunks, self.height, self.width, self.inner = problem.in_shape
        self.outer = problem.out_shape[4]
        self.point_stride = self.in_chunks * cut.tiles * self.inner + POINT_GAP

    def build(self, kind: str) -> Any:
        ib, cut, problem = self.ib, self.cut, self.problem
        groups = math.ceil(problem.tiles / cut.tiles)
        with ib.for_range(0, groups * cut.panel_tasks, "task", kind=kind) as task:
            first = tir.floordiv(task, cut.panel_tasks) * cut.tiles
            panels = problem.panels // cut.panel_tasks
            wide = self._allocate("wide", self.points * self.point_stride)
            product = self._allocate(
                "product", problem.panel_chunks * cut.tiles * self.points * self.outer
            )
            with (
                ib.for_range(0, self.in_chunks, "chunk") as chunk,
                ib.for_range(0, cut.tiles, "tile") as tile,
            ):
                self._transform_input(wide, chunk, tile, self._place(first + tile))
            with ib.for_range(0, panels, "panel") as step:
                panel = tir.floormod(task, cut.panel_tasks) * panels + step
                self._multiply(wide, product, panel)
                with (
                    ib.for_range(0, problem.panel_chunks, "chunk") as chunk,
                    ib.for_range(0, cut.tiles, "tile") as tile,
                ):
                    source = (chunk * cut.tiles + tile) * (self.points * self.outer)
                    place = self._place(first + tile)
                    self._transform_output(
                        product, source, panel * problem.panel_chunks + chunk, place
                    )
        return ib.get()

    def _allocate(self, name: str, size: int, scope: str = "global") -> Any:
        return self.ib.allocate(self.dtype, (size,), name, scope=scope)._buffer

    def _place(self, tile: Any) -> tuple[Any, Any, Any]:
        """Return image, row and column of a tile among tiles; the last tile's beyond the end."""
        problem = self.problem
        if problem.tiles % self.cut.tiles:
            tile = tir.min(tile, problem.tiles - 1)
        row = tir.floordiv(tile, problem.tile_columns)
        return (
            tir.floordiv(row, problem.tile_rows),
            tir.floormod(row, problem.tile_rows),
            tir.floormod(tile, problem.tile_columns),
        )

    def _store(self, buffer: Any, start: Any, value: Any, lanes: int) -> None:
        self.ib.emit(tir.BufferStore(buffer, value, [_ramp(start, lanes)]))

    def _keeper(self, name: str, lanes: int, most: int) -> Callable[[Any], Any]:
        """Return a function that keeps vectors in registers of their own."""
        registers = self._allocate(name, most * lanes, "local")
        used = iter(range(most))

        def keep(value: Any) -> Any:
            start = next(used) * lanes
            self._store(registers, start, value, lanes)
            return _load(registers, start, lanes)

        return keep

    def _transform_input(self, wide: Any, chunk: Any, tile: Any, place: tuple[Any, ...]) -> None:
        problem, lanes, span = self.problem, self.inner, self.problem.filtering.span
        image, tile_row, tile_column = place
        top = tile_row * problem.filtering.tile - problem.padding[0]
        left = tile_column * problem.filtering.tile - problem.padding[1]
        half = self._allocate("half", self.points * lanes, "local")
        at, inside = self.source.at(image, chunk)

        def element(k: int, j: int) -> Any:
            return tir.BufferLoad(self.source.buffer, [*at, top + k, left + j, _ramp(0, lanes)])

        def at_border(k: int, j: int) -> Any:
            tests = self._inside(place, range(k, k + 1), range(j, j + 1))
            zero = tir.const(0, f"{self.dtype}x{lanes}")
            return (
                tir.if_then_else(tir.all(*tests), element(k, j), zero) if tests else element(k, j)
            )

        tests = self._inside(place, range(span), range(span))

        def transform() -> None:
            if not tests:
                self._transform_columns(element, half)
                return
            with self.ib.if_scope(tir.all(*tests)):
                self._transform_columns(element, half)
            with self.ib.else_scope():
                self._transform_columns(at_border, half)

        if inside is None:
            transform()
        else:
            with self.ib.if_scope(inside):
                transform()
            with self.ib.else_scope():
                for start in range(0, self.points * lanes, lanes):
                    self._store(half, start, tir.const(0, f"{self.dtype}x{lanes}"), lanes)
        matrix = problem.filtering.input_matrix
        for k in range(span):
            values = [_load(half, (k * span + j) * lanes, lanes) for j in range(span)]
            keep = self._keeper("kept", lanes, span)
            for j, value in enumerate(apply_matrix(matrix, values, keep)):
                start = (k * span + j) * self.point_stride
                start = start + (chunk * self.cut.tiles + tile) * lanes
                self._store(wide, start, value, lanes)

    def _inside(self, place: tuple[Any, ...], rows: range, columns: range) -> list[Any]:
        """Return what must hold for these rows and columns of a tile to lie in the input.

        Bounds on the tile's number, not on rows: TVM's simplifier loses ``4 * t + 5 <= 13`` beside
        ``4 * t - 1 >= 0``.
        """
        problem = self.problem
        tests = []
        for at, number, extent, padding, wanted in (
            (place[1], problem.tile_rows, self.height, problem.padding[0], rows),
            (place[2], problem.tile_columns, self.width, problem.padding[1], columns),
        ):
            step = problem.filtering.tile
            first = -((wanted[0] - padding) // step)
            last = (extent - 1 - wanted[-1] + padding) // step
            if first > 0:
                tests.append(at >= first)
            if last < number - 1:
                tests.append(at <= last)
        return tests

    def _transform_columns(self, element: Callable[[int, int], Any], half: Any) -> None:
        """Apply the input's matrix to each column of a tile."""
        lanes, span = self.inner, self.problem.filtering.span
        for j in range(span):
            keep = self._keeper("kept", lanes, 2 * span)
            values = [keep(element(k, j)) for k in range(span)]
            results = apply_matrix(self.problem.filtering.input_matrix, values, keep)
            for k, value in enumerate(results):
                self._store(half, (k * span + j) * lanes, value, lanes)

    def _multiply(self, wide: Any, product: Any, panel: Any) -> None:
        """Multiply one panel of weights with all tiles of the task, at every point."""
        ib, cut, lanes = self.ib, self.cut, self.outer
        chunks, vector = self.problem.panel_chunks, f"{self.dtype}x{self.outer}"
        sums = [(j, k) for j in range(cut.columns) for k in range(chunks)]
        with (
            ib.for_range(0, self.points, "point") as point,
            ib.for_range(0, math.ceil(cut.tiles / cut.columns), "columns") as step,
        ):
            tile = step * cut.columns
            if cut.tiles % cut.columns:
                tile = tir.min(tile, cut.tiles - cut.columns)
            total = self._allocate("total", len(sums) * lanes, "local")
            for place, _ in enumerate(sums):
                self._store(total, place * lanes, tir.const(0, vector), lanes)
            with (
                ib.for_range(0, self.in_chunks, "chunk") as chunk,
                ib.for_range(0, self.inner, "channel") as channel,
            ):
                source = point * self.point_stride + (chunk * cut.tiles + tile) * self.inner
                for place, (j, k) in enumerate(sums):
                    factor = tir.BufferLoad(wide, [source + j * self.inner + channel])
                    weight = tir.BufferLoad(
                        self.weights,
                        [panel, point, chunk * self.inner + channel, _ramp(k * lanes, lanes)],
                    )
                    value = _load(total, place * lanes, lanes)
                    value = value + tir.Broadcast(factor, lanes) * weight
                    self._store(total, place * lanes, value, lanes)
            for place, (j, k) in enumerate(sums):
                target = ((k * cut.tiles + tile + j) * self.points + point) * lanes
                self._store(product, target, _load(total, place * lanes, lanes), lanes)

    def _transform_output(
        self, product: Any, source: Any, chunk: Any, place: tuple[Any, ...]
    ) -> None:
        filtering, lanes = self.problem.filtering, self.outer
        span, tile = filtering.span, filtering.tile
        half = self._allocate("half", tile * span * lanes, "local")
        for j in range(span):
            keep = self._keeper("kept", lanes, 2 * span)
            values = [
                keep(_load(product, source + (k * span + j) * lanes, lanes)) for k in range(span)
            ]
            for k, value in enumerate(apply_matrix(filtering.output_matrix, values, keep)):
                self._store(half, (k * span + j) * lanes, value, lanes)
        pooled = self._allocate("pooled", tile * lanes, "local") if self.pooling else None
        for k in range(tile):
            values = [_load(half, (k * span + j) * lanes, lanes) for j in range(span)]
            keep = self._keeper("kept", lanes, span)
            pixels = self._allocate("pixels", tile * lanes, "local")
            for j, value in enumerate(apply_matrix(filtering.output_matrix, values, keep)):
                self._store(pixels, j * lanes, value, lanes)
            if self.pooling is None:
                self._write_row(pixels, k, chunk, place)
            else:
                self._pool_row(self.pooling, pixels, pooled, k, chunk, place)

    def _write_row(self, pixels: Any, k: int, chunk: Any, place: tuple[Any, ...]) -> None:
        """Write one row of a tile, as far as it lies in the image."""
        _, _, rows, columns, lanes = self.problem.out_shape
        tile = self.problem.filtering.tile
        image, tile_row, tile_column = place
        stmts = []
        for j in range(tile):
            lane = tir.Var("lane", "int32")
            value = tir.BufferLoad(pixels, [j * lanes + lane])
            stmt = self.write(
                image, chunk, tile_row * tile + k, tile_column * tile + j, lane, value
            )
            stmt = tir.For(lane, 0, lanes, tir.ForKind.VECTORIZED, stmt)
            stmts.append(_unless_last(tile_column, j, columns, tile, stmt))
        self.ib.emit(_unless_last(tile_row, k, rows, tile, tir.stmt_seq(*stmts)))

    def _pool_row(
        self,
        pooling: Pooling,
        pixels: Any,
        pooled: Any,
        k: int,
        chunk: Any,
        place: tuple[Any, ...],
    ) -> None:
        """Add one row of a tile to its windows, and write the windows that it ends.

        Parameters
        ----------
        pooled
            The windows that are not complete, side by side; kept from row to row.
        """
        _, _, rows, columns, lanes = self.problem.out_shape
        tile = self.problem.filtering.tile
        high, wide = pooling.pool.window
        image, tile_row, tile_column = place
        stmts = []
        for j in range(tile):
            lane = tir.Var("lane", "int32")
            value = pooling.between(
                image,
                chunk,
                tile_row * tile + k,
                tile_column * tile + j,
                lane,
                tir.BufferLoad(pixels, [j * lanes + lane]),
            )
            slot = j // wide * lanes + lane
            if k % high or j % wide:
                value = pooling.pool.combine(tir.BufferLoad(pooled, [slot]), value)
            stmt = tir.BufferStore(pooled, value, [slot])
            stmt = tir.For(lane, 0, lanes, tir.ForKind.VECTORIZED, stmt)
            stmts.append(_unless_last(tile_column, j, columns, tile, stmt))
        self.ib.emit(_unless_last(tile_row, k, rows, tile, tir.stmt_seq(*stmts)))
        if (k + 1) % high:
            return
        row, stmts = tile_row * (tile // high) + k // high, []
        for j in range(tile // wide):
            lane = tir.Var("lane", "int32")
            value = tir.BufferLoad(pooled, [j * lanes + lane])
            stmt = self.write(image, chunk, row, tile_column * (tile // wide) + j, lane, value)
            stmt = tir.For(lane, 0, lanes, tir.ForKind.VECTORIZED, stmt)
            stmts.append(_unless_last(tile_column, (j + 1) * wide - 1, columns, tile, stmt))
        self.ib.emit(_unless_last(tile_row, k, rows, tile, tir.stmt_seq(*stmts)))


def _unless_last(at: Any, position: int, extent: int, tile: int, stmt: Any) -> Any:
    """Return `stmt`, left out in the last tile if its position lies beyond the extent."""
    last = -(-extent // tile) - 1
    return tir.IfThenElse(at < last, stmt, None) if last * tile + position >= extent else stmt


def _ramp(start: Any, lanes: int) -> Any:
    return tir.Ramp(start, 1, lanes) if lanes > 1 else start


def _load(buffer: Any, start: Any, lanes: int) -> Any:
    return tir.BufferLoad(buffer, [_ramp(start, lanes)])
