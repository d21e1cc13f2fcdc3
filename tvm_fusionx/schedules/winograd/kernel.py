"""The loops of a convolution by minimal filtering, laid out by hand.

One parallel loop over tasks. A task transforms the input of its tiles into a buffer of its own;
then, for each panel of output channels, multiplies point by point with sums in registers, the
weights streaming through in the order they lie in memory; then transforms the panel's products back
and writes them, with everything that follows the convolution applied to the registers.

    data   [N, I / i, H, W, i]            weights [O / panel, points, I, panel]
    wide   [points][I / i][tiles][i]      product [panel / v][tiles][points][v]

A vector v is one output chunk, or several that fill it together (`output_vectors.py`).

Where weights are many and tiles few, the kernel transforms the weights itself. It then goes through
the input channels part by part, so that what is transformed stays in the second level cache, and
adds to the products of all its panels:

    weights [O / panel, I, 3, 3, panel]   ready   [points][part of I][panel]
    wide    [points][part of I][tiles]    product [panels][points][tiles][panel]
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.lanes import shared, terms_by_lanes
from tvm_fusionx.schedules.parts.microkernel import Microkernel, places_by_rows
from tvm_fusionx.schedules.parts.operand import GatheredOperand
from tvm_fusionx.schedules.parts.tasks import start_of, tasks
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import Vectors, load, ramp
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.winograd.apply_matrix import apply_matrix
from tvm_fusionx.schedules.winograd.output_rows import Pooling, TileRows
from tvm_fusionx.schedules.winograd.products import Products
from tvm_fusionx.schedules.winograd.source import Source
from tvm_fusionx.schedules.winograd.tiling import Cut, Problem
from tvm_fusionx.schedules.winograd.weights import ReadyWeights

# A chunk of input channels, a channel of it, and the lane of a vector that begins there.
_Term = tuple[Any, Any, int | None]


class WinogradKernel(Vectors):
    """A convolution by minimal filtering.

    Parameters
    ----------
    problem
        What to compute.
    source
        Where the input ``[N, I / i, H, W, i]`` is.
    weights
        Buffer ``[O / panel, points, I, panel]``; ``[O / panel, I, 3, 3, panel]`` where the kernel
        transforms them.
    cut
        How it is divided.
    result
        Stores what the convolution gives, or the pool.
    pooling
        The pool, where there is one.
    """

    def __init__(
        self,
        problem: Problem,
        source: Source,
        weights: Any,
        cut: Cut,
        result: WindowResult,
        pooling: Pooling | None = None,
    ) -> None:
        super().__init__(tir.ir_builder.create(), source.buffer.dtype)
        self.problem, self.cut = problem, cut
        self.rows, self.pooling = TileRows(self.ib, problem, result), pooling
        self.source, self.weights = source, weights
        self.points = problem.filtering.points
        _, in_chunks, self.height, self.width, self.inner = problem.in_shape
        self.vectors = problem.panel_vectors
        self.depth = cut.depth or in_chunks
        self.parts = in_chunks // self.depth
        # Sums are added to by each part: columns of tiles may not overlap then.
        self.tiles = cut.tiles if self.parts == 1 else cut.whole_tiles
        self.panels = problem.panels // cut.panel_tasks
        self.ready = ReadyWeights(problem.filtering, self.depth * self.inner, problem.panel)
        self.products = Products(
            self.points,
            self.tiles,
            self.vectors.number,
            self.vectors.lanes,
            self.panels,
            self.parts > 1,
        )

    def build(self, *, parallel: bool) -> Any:
        """Return the statement that computes the convolution, on several threads or on one."""
        ib, cut, problem = self.ib, self.cut, self.problem
        extents = math.ceil(problem.tiles / cut.tiles), cut.panel_tasks
        with tasks(ib, extents, parallel=parallel) as (group, panels):
            first, first_panel = group * cut.tiles, panels * self.panels
            elements = self.depth * self.tiles * self.inner
            wide = GatheredOperand(ib, self.dtype, self.points, elements)
            ready = self.allocate("ready", self.ready.size) if problem.transforms_weights else None
            product = self.allocate("product", self.products.size)
            with ib.for_range(0, self.parts, "part") as part:
                with (
                    ib.for_range(0, self.depth, "chunk") as chunk,
                    ib.for_range(0, self.tiles, "tile") as tile,
                ):
                    self._transform_input(wide, part, chunk, tile, self._place(first + tile))
                with ib.for_range(0, self.panels, "panel") as step:
                    panel = first_panel + step
                    if ready is not None:
                        start = part * self.ready.channels
                        lanes = self.vectors.chunk_lanes
                        self.ready.transform(self, self.weights, panel, start, ready, lanes)
                    self._multiply(wide, product, ready, panel, step, part)
                    if self.parts == 1:
                        self._finish_panel(product, step, panel, first)
            if self.parts > 1:
                with ib.for_range(0, self.panels, "panel") as step:
                    self._finish_panel(product, step, first_panel + step, first)
        return ib.get()

    def _finish_panel(self, product: Any, step: Any, panel: Any, first: Any) -> None:
        """Transform the products of one panel back, and write what they make."""
        with (
            self.ib.for_range(0, self.vectors.number, "vector") as vector,
            self.ib.for_range(0, self.cut.tiles, "tile") as tile,
        ):

            def at(point: int) -> Any:
                return self.products.at(step, vector, tile, point)

            first_chunk = panel * self.vectors.chunks + self.vectors.first_chunk(vector)
            self._transform_output(product, at, first_chunk, self._place(first + tile))

    def _place(self, tile: Any) -> tuple[Any, Any, Any]:
        """Return image, row and column of a tile among tiles; the last tile's beyond the end."""
        problem = self.problem
        if problem.tiles % self.cut.tiles or self.tiles > self.cut.tiles:
            tile = tir.min(tile, problem.tiles - 1)
        row = tir.floordiv(tile, problem.tile_columns)
        return (
            tir.floordiv(row, problem.tile_rows),
            tir.floormod(row, problem.tile_rows),
            tir.floormod(tile, problem.tile_columns),
        )

    def _transform_input(
        self,
        wide: GatheredOperand,
        part: Any,
        chunk: Any,
        tile: Any,
        place: tuple[Any, ...],
    ) -> None:
        problem, lanes, span = self.problem, self.inner, self.problem.filtering.span
        image, tile_row, tile_column = place
        top = tile_row * problem.filtering.tile - problem.padding[0]
        left = tile_column * problem.filtering.tile - problem.padding[1]
        half = self.allocate("half", self.points * lanes, "local")
        outer, inside = self.source.at(image, part * self.depth + chunk)

        def element(k: int, j: int) -> Any:
            return tir.BufferLoad(self.source.buffer, [*outer, top + k, left + j, ramp(0, lanes)])

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
                    self.store(half, start, tir.const(0, f"{self.dtype}x{lanes}"), lanes)
        matrix = problem.filtering.input_matrix
        for k in range(span):
            values = [load(half, (k * span + j) * lanes, lanes) for j in range(span)]
            keep = self.keeper("kept", lanes, span)
            for j, value in enumerate(apply_matrix(matrix, values, keep)):
                at = wide.at(k * span + j, (chunk * self.tiles + tile) * lanes)
                self.store(wide.buffer, at, value, lanes)

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
            keep = self.keeper("kept", lanes, 2 * span)
            values = [keep(element(k, j)) for k in range(span)]
            results = apply_matrix(self.problem.filtering.input_matrix, values, keep)
            for k, value in enumerate(results):
                self.store(half, (k * span + j) * lanes, value, lanes)

    def _multiply(
        self, wide: GatheredOperand, product: Any, ready: Any, panel: Any, step: Any, part: Any
    ) -> None:
        """Multiply one panel of weights with all tiles of the task, at every point."""
        ib, cut, lanes = self.ib, self.cut, self.vectors.lanes
        places = places_by_rows(cut.columns, self.vectors.number)
        steps = math.ceil(self.tiles / cut.columns)
        with (
            ib.for_range(0, self.points, "point") as point,
            ib.for_range(0, steps, "columns") as column,
        ):
            tile = start_of(column, cut.columns, self.tiles)
            kept = [self.products.at(step, k, tile + j, point) for j, k in places]

            def begin(sums: VectorSums) -> None:
                if ready is not None:
                    at = (*self._after(panel, step, part), point * steps + column)
                    self.ready.fetch(self, self.weights, *at, self.points * steps)
                if self.parts == 1:
                    sums.fill()
                    return
                with ib.if_scope(part == 0):
                    sums.fill()
                with ib.else_scope():
                    for number, at in enumerate(kept):
                        sums.put(number, load(product, at, lanes))

            def factor(at: _Term, j: int, _: int) -> Any:
                chunk, channel, lane = at
                first = (chunk * self.tiles + tile) * self.inner
                place = wide.at(point, first, j * self.inner, channel)
                return shared(wide.buffer, place, lane, self.cut.lanes_read, lanes)

            def weight(at: _Term, _: int, k: int) -> Any:
                chunk, first, lane = at
                channel = chunk * self.inner + first + (lane or 0)
                start = self.vectors.first_chunk(k) * self.vectors.chunk_lanes
                if ready is not None:
                    return load(ready, self.ready.at(point, channel, start), lanes)
                read = part * self.ready.channels + channel
                return tir.BufferLoad(self.weights, [panel, point, read, ramp(start, lanes)])

            def keep(sums: VectorSums) -> None:
                for number, at in enumerate(kept):
                    self.store(product, at, sums.value(number), lanes)

            tiles = Microkernel(places, lanes, self.dtype, factor, weight, keep, begin=begin)
            tiles.emit(ib, self._terms())

    @contextlib.contextmanager
    def _terms(self) -> Iterator[Iterator[_Term]]:
        """Open the loops over chunks of input channels and the channels of a chunk."""
        read = self.cut.lanes_read
        with (
            self.ib.for_range(0, self.depth, "chunk") as chunk,
            terms_by_lanes(self.ib, self.inner, read) as steps,
        ):
            yield ((chunk, channel, lane) for channel, lane in steps)

    def _after(self, panel: Any, step: Any, part: Any) -> tuple[Any, Any]:
        """Return panel and first channel of the weights after these."""
        ends = step == self.panels - 1
        part = tir.Select(ends, tir.min(part + 1, self.parts - 1), part)
        return tir.Select(ends, panel - step, panel + 1), part * self.ready.channels

    def _transform_output(
        self, product: Any, at: Callable[[int], Any], first_chunk: Any, place: tuple[Any, ...]
    ) -> None:
        """Transform one vector of products back, and write what its chunks make."""
        filtering, lanes = self.problem.filtering, self.vectors.lanes
        span, tile = filtering.span, filtering.tile
        half = self.allocate("half", tile * span * lanes, "local")
        for j in range(span):
            keep = self.keeper("kept", lanes, 2 * span)
            values = [keep(load(product, at(k * span + j), lanes)) for k in range(span)]
            for k, value in enumerate(apply_matrix(filtering.output_matrix, values, keep)):
                self.store(half, (k * span + j) * lanes, value, lanes)
        pooled = self.allocate("pooled", tile * lanes, "local") if self.pooling else None
        for k in range(tile):
            values = [load(half, (k * span + j) * lanes, lanes) for j in range(span)]
            keep = self.keeper("kept", lanes, span)
            pixels = VectorSums(self.ib, tile, lanes, self.dtype)
            pixels.fill()
            for j, value in enumerate(apply_matrix(filtering.output_matrix, values, keep)):
                pixels.put(j, value)
            if self.pooling is None:
                self.rows.write_row(pixels, k, first_chunk, place)
            else:
                self.rows.pool_row(self.pooling, pixels, pooled, k, first_chunk, place)
