"""A padded window that keeps channels apart, several rows of its result in one register tile.

Each vector of the data is loaded once and multiplied for all places of the tile that it is under,
and each weight is loaded once for all of them. All taps are written out. What of them lies in the
border is known when the kernel is written, in columns and in rows: the strips of rows that touch
the border above or below have code of their own, the others share one loop.

    for strip:                            # so many rows; fewer in the last
        if first row == 0:   tile at row 0, without the taps above the data
        elif ...
        else:                tile, all of its rows inside
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.half_sums import HalfSums, half_of
from tvm_fusionx.schedules.parts.hidden_numbers import (
    PAIR_REACH,
    hidden,
    known_part,
    with_hidden_numbers,
)
from tvm_fusionx.schedules.parts.tasks import start_of, tasks
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import ramp
from tvm_fusionx.schedules.windows.border_tiles import WindowTiles
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.windows.structure import PaddedWindow

# First row, and number of rows.
Span = tuple[int, int]


@dataclass(frozen=True)
class StripKernel:
    """Computes rows of one chunk of a window that multiplies by weights."""

    padded: PaddedWindow

    height: int
    """Output rows of a register tile."""

    columns: int
    """Output columns of a register tile."""

    result: WindowResult
    """Stores the sums."""

    reach: int = PAIR_REACH
    """Elements from an address to the last ones that are loaded from it."""

    in_halves: bool = False
    """Whether the products of a sum are summed up in halves, all of them."""

    def build(self, *, rows: int, parts: int, parallel: bool) -> Any:
        """Return the statement that computes the window.

        Parameters
        ----------
        rows
            Output rows of a task; the last task may share some with the one before.
        parts
            Into which the chunks are divided.
        parallel
            Whether tasks run on several threads.
        """
        ib, window = tir.ir_builder.create(), self.padded.window
        chunks = window.out_blocks // parts
        slabs = math.ceil(window.rows / rows)
        spans = {(start_of(slab, rows, window.rows, slabs), rows) for slab in range(slabs)}
        with (
            tasks(ib, (window.batch, slabs, parts), parallel=parallel) as (image, slab, part),
            ib.for_range(0, chunks, "chunk") as chunk,
        ):
            first_row = start_of(slab, rows, window.rows, slabs)
            self.rows(ib, image, part * chunks + chunk, first_row, rows, spans)
        return with_hidden_numbers(ib.get())

    def rows(
        self, ib: Any, image: Any, chunk: Any, first_row: Any, rows: Any, spans: Collection[Span]
    ) -> None:
        """Compute some output rows of a chunk.

        Parameters
        ----------
        first_row
            Where they begin.
        rows
            How many there are.
        spans
            All values that `first_row` and `rows` take together.
        """
        height = self.height
        starts = {
            first + each * height for first, number in spans for each in range(number // height)
        }
        if starts:
            with ib.for_range(0, rows // height, "strip") as strip:
                self._strip(ib, image, chunk, first_row + strip * height, height, starts)
        for rest in sorted({number % height for _, number in spans} - {0}):
            starts = {first + number - rest for first, number in spans if number % height == rest}
            with contextlib.ExitStack() as tested:
                if len({number % height for _, number in spans}) > 1:
                    tested.enter_context(ib.if_scope(tir.floormod(rows, height) == rest))
                self._strip(ib, image, chunk, first_row + rows - rest, rest, starts)

    def _strip(
        self, ib: Any, image: Any, chunk: Any, out_row: Any, height: int, starts: Collection[int]
    ) -> None:
        """Compute one strip that begins at `out_row`, one of `starts`."""
        border = sorted(start for start in starts if not self._is_inside(start, height))
        inside = len(starts) > len(border)

        def emit(places: list[int]) -> None:
            if not places:
                self._row_of_tiles(ib, image, chunk, out_row, height)
                return
            first, *others = places
            if not others and not inside:
                self._row_of_tiles(ib, image, chunk, first, height)
                return
            with ib.if_scope(out_row == first):
                self._row_of_tiles(ib, image, chunk, first, height)
            with ib.else_scope():
                emit(others)

        emit(border)

    def _is_inside(self, start: int, height: int) -> bool:
        """Tell whether a strip reads no row of the border."""
        tiles, last_tap = self._tiles, self.padded.window.kernel[0] - 1
        last = tiles.row(start + height - 1, last_tap)
        return bool(tiles.row(start, 0) >= 0 and last < tiles.height)

    @functools.cached_property
    def _tiles(self) -> WindowTiles:
        return WindowTiles.of(self.padded, self.columns)

    def _row_of_tiles(self, ib: Any, image: Any, chunk: Any, out_row: Any, height: int) -> None:
        self._tiles.emit(ib, functools.partial(self._tile, ib, image, chunk, out_row, height))

    def _tile(self, ib: Any, image: Any, chunk: Any, out_row: Any, height: int, start: Any) -> None:
        """Compute the sums of some rows and columns, and store them."""
        lanes = self.padded.window.block_out
        places = [(row, column) for row in range(height) for column in range(self.columns)]
        sums = self._sums(ib, len(places), lanes)
        begun: set[int] = set()
        if self.in_halves and self.result.addend is not None:
            self.result.begin(sums, [chunk] * len(places))
            begun.update(range(len(places)))
        data, weights = (
            self._data(ib, image, chunk, out_row, start, height),
            self._weights(ib, chunk),
        )
        for row, column, tap_row, tap_column in self._products(out_row, start, height):
            number = row * self.columns + column
            tap = tap_row, tap_column
            sides = data(self._read((row, column), tap)), weights(tap)
            left, right = map(half_of, sides) if self.in_halves else sides
            product = left * right
            # The first product is the sum: adding it to zero would be an instruction more.
            sums.put(number, sums.value(number) + product if number in begun else product)
            begun.add(number)
        for number in set(range(len(places))) - begun:
            sums.put(number, tir.Broadcast(tir.const(0, sums.buffer.dtype), lanes))
        chosen = range(len(places))
        first = hidden(ib, out_row, "first") if isinstance(out_row, int) else out_row

        def pixel_at(step: int) -> tuple[Any, Any]:
            row, column = places[step]
            return first + row, start + column

        self.result.store(sums, chosen, image, chunk, pixel_at)

    def _sums(self, ib: Any, number: int, lanes: int) -> VectorSums:
        if self.in_halves:
            return HalfSums(ib, number, lanes)
        return VectorSums(ib, number, lanes, self.padded.window.dtype)

    def _products(self, out_row: Any, start: Any, height: int) -> Iterator[tuple[int, ...]]:
        """Return row and column of a place and of a tap, of all that lie in the data.

        Those that read one element of the data follow one another.
        """
        window, tiles = self.padded.window, self._tiles
        found: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        for row in range(height):
            for tap_row in range(window.kernel[0]):
                if _is_out(tiles.row(out_row + row, tap_row), tiles.height):
                    continue
                for column in range(self.columns):
                    for tap_column in range(window.kernel[1]):
                        if tiles.is_border(tiles.column(start, column, tap_column)):
                            continue
                        read = self._read((row, column), (tap_row, tap_column))
                        found.setdefault(read, []).append((row, column, tap_row, tap_column))
        for read in sorted(found):
            yield from found[read]

    def _read(self, place: tuple[int, int], tap: tuple[int, int]) -> tuple[int, int]:
        """Return row and column of the data, from where a tile begins to read."""
        stride, dilation = self.padded.window.stride, self.padded.window.dilation
        rows, columns = (
            place[axis] * stride[axis] + tap[axis] * dilation[axis] for axis in range(2)
        )
        return rows, columns

    def _data(
        self, ib: Any, image: Any, chunk: Any, out_row: Any, start: Any, height: int
    ) -> Callable[[tuple[int, int]], Any]:
        """Return what loads the data of a tile, some rows from one address."""
        window, lanes, tiles = self.padded.window, self.padded.window.block_out, self._tiles
        row, column = tiles.row(out_row, 0), tiles.column(start, 0, 0)
        first = max(0, -row) if isinstance(row, int) else 0
        left = max(0, -column) if isinstance(column, int) else 0
        width = (window.columns_read(self.columns) - 1 - left) * lanes
        together = 1 + max(0, self.reach - width) // (tiles.width * lanes)
        rows = window.rows_read(height)
        # What is known of a place is hidden with the number: LLVM would add it to each load.
        known_row, row = known_part(row + first)
        known_column, column = known_part(column + left)
        known = known_row * tiles.width + known_column
        places = {
            at: hidden(ib, ((at - first) * tiles.width + known) * lanes, "rows")
            for at in range(first, rows, together)
        }

        def load(read: tuple[int, int]) -> Any:
            begin = first + (read[0] - first) // together * together
            offset = ((read[0] - begin) * tiles.width + read[1] - left) * lanes
            lane = ramp(places[begin] + offset, lanes)
            return tir.BufferLoad(self.padded.data, [image, chunk, row, column, lane])

        return load

    def _weights(self, ib: Any, chunk: Any) -> Callable[[tuple[int, int]], Any]:
        """Return what loads the weights of a tap."""
        window, lanes = self.padded.window, self.padded.window.block_out
        begin = hidden(ib, 0, "weights")

        def load(tap: tuple[int, int]) -> Any:
            offset = (tap[0] * window.kernel[1] + tap[1]) * lanes
            place = [chunk, 0, 0, 0, 0, ramp(begin + offset, lanes)]
            return tir.BufferLoad(window.weights, place)

        return load


def _is_out(place: Any, extent: int) -> bool:
    """Tell whether a place is known to lie outside the data."""
    return isinstance(place, int) and not 0 <= place < extent
