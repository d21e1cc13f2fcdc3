"""A padded window read in place, laid out by hand: the image is not copied to be padded.

Which columns of a tile lie in the border is known when the kernel is written, and rows are cut by
the bounds of the loop over the window's rows (:mod:`tvm_fusionx.schedules.windows.border_tiles`).
Three kinds of windows are read so: those that keep channels apart, those that sum a few channels of
an image, and those whose rows lie apart (dilation), between which a copy would move rows that
nobody reads. Loop order, outermost first: tasks (image, part of the rows, part of the channels, in
parallel); channel chunks of a tile and rows; columns of a tile; window rows; summed channels;
window columns, written out; then what follows on the registers.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.half_sums import HALF, HalfChains
from tvm_fusionx.schedules.parts.hand_written_kernel import (
    gather_what_follows,
    replace_stages,
    schedule_around,
    stage_nests,
)
from tvm_fusionx.schedules.parts.hidden_numbers import hidden, known_part, with_hidden_numbers
from tvm_fusionx.schedules.parts.microkernel import Microkernel, places_by_rows
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.parts.tasks import start_of, tasks
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import broadcast, ramp
from tvm_fusionx.schedules.template import UnschedulableError
from tvm_fusionx.schedules.windows.border_tiles import WindowTiles
from tvm_fusionx.schedules.windows.output_vectors import OutputVectors
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.windows.structure import PaddedWindow, converting_stages
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.half_terms import adds_in_halves
from tvm_fusionx.tir.indices import simplify_indices
from tvm_fusionx.tir.numbers import divisors


@dataclass(frozen=True)
class InPlaceKernel:
    """A window over data that is only padded before it."""

    padded: PaddedWindow

    chunks: int
    """Output chunks of a register tile."""

    columns: int
    """Output columns of a register tile."""

    result: WindowResult
    """Stores the sums."""

    pair: str | None = None
    """LLVM's name of what multiplies pairs of short integers, for the vectors of a window of them;
    None where they are multiplied as they are."""

    weights_apart: bool = False
    """Whether the weights of each chunk of a tile have an address of their own, so that they load
    in pairs, however far the chunks are apart."""

    rows_inside: bool = False
    """Whether all rows of a task follow one another for each tile of channels, whose weights then
    stay near; windows that keep channels apart always do so."""

    half_terms: int = 0
    """Most terms of a sum of halves, no fewer than a chunk or a row of an image's window has; 0 for
    sums of float32 alone."""

    adds_in_halves: bool = False
    """Whether what a sum begins with may be a term of a sum of halves."""

    @property
    def is_one_chain(self) -> bool:
        """Whether each sum is of halves whole."""
        window = self.padded.window
        begins = self.result.addend is None or self.adds_in_halves
        is_short = math.prod(window.kernel) * window.in_channels <= self.half_terms
        return is_short and begins and not self.result.along_pixels

    def build(self, *, rows: int, parts: int, parallel: bool) -> Any:
        """Return the statement that computes the window.

        Parameters
        ----------
        rows
            Output rows of a task; the last task may share some with the one before.
        parts
            Into which the tiles of output channels are divided.
        parallel
            Whether tasks run on several threads.
        """
        ib, window = tir.ir_builder.create(), self.padded.window
        # Tiles of other chunks make another number of groups.
        parts = math.gcd(window.out_blocks // self.chunks, parts)
        groups = window.out_blocks // self.chunks // parts
        # Slabs of rows outermost: a core then reads the rows that it wrote in the kernel before.
        extents = window.batch, math.ceil(window.rows / rows), parts
        with (
            tasks(ib, extents, parallel=parallel) as (image, slab, part),
            self._groups_and_rows(ib, groups, rows) as (group, row),
        ):
            first_row, first_group = start_of(slab, rows, window.rows), part * groups
            self.row(ib, image, (first_group + group) * self.chunks, first_row + row)
        kernel = ib.get()
        return with_hidden_numbers(kernel) if self.weights_apart else kernel

    @contextlib.contextmanager
    def _groups_and_rows(self, ib: Any, groups: int, rows: int) -> Iterator[tuple[Any, Any]]:
        """Open the loops over tiles of channels and rows: rows inside where channels are apart."""
        if self.padded.window.sums_channels and not self.rows_inside:
            with ib.for_range(0, rows, "row") as row, ib.for_range(0, groups, "group") as group:
                yield group, row
        else:
            with ib.for_range(0, groups, "group") as group, ib.for_range(0, rows, "row") as row:
                yield group, row

    def row(self, ib: Any, image: Any, first_chunk: Any, out_row: Any) -> None:
        """Compute one output row of the chunks of a tile."""
        tiles = WindowTiles.of(self.padded, self.columns)
        tiles.emit(ib, functools.partial(self._tile, ib, tiles, image, first_chunk, out_row))

    def _tile(
        self, ib: Any, tiles: WindowTiles, image: Any, first_chunk: Any, out_row: Any, start: Any
    ) -> None:
        """Compute the sums of some columns of some chunks, and store them."""
        window, weights = self.padded.window, self.padded.window.weights
        lanes = window.block_out
        places = places_by_rows(self.columns, self.chunks)
        if not window.sums_channels:  # the columns of a chunk share its weight
            places.sort(key=lambda place: place[1])

        # Those of the first chunk are reached from where all are.
        others = range(1, self.chunks) if self.weights_apart else ()
        begins = {chunk: hidden(ib, 0, "weights") for chunk in others}
        origin, above, left = 0, 0, 0
        if self.weights_apart:
            # What is known of a place is hidden, too: LLVM would add it to each load.
            above, (left, _) = -tiles.padding[0], known_part(tiles.column(start, 0, 0))
            origin = hidden(ib, (above * tiles.width + left) * window.block_in, "data")

        def element(at: _Tap, step: int, chunk: int) -> Any | None:
            column = tiles.column(start, step, at.column)
            if tiles.is_border(column):
                return None
            row = tiles.row(out_row, at.row)
            if window.sums_channels:
                place = [image, at.chunk, row - above, column - left, at.channel + origin]
                return broadcast(tir.BufferLoad(self.padded.data, place), lanes)
            place = [image, first_chunk + chunk, row, column, ramp(0, lanes)]
            return self._widened(tir.BufferLoad(self.padded.data, place), lanes)

        def weight(at: _Tap, _: int, chunk: int) -> Any | None:
            if weights is None:
                return None
            lane = ramp(begins.get(chunk, 0), lanes)
            place = [first_chunk + chunk, at.chunk, at.row, at.column, at.channel, lane]
            return self._widened_weight(tir.BufferLoad(weights, place), lanes)

        def store(sums: VectorSums) -> None:
            for chunk in range(self.chunks):
                chosen = [number for number, (_, each) in enumerate(places) if each == chunk]
                self.result.store(
                    sums, chosen, image, first_chunk + chunk, lambda step: (out_row, start + step)
                )

        def begin(sums: VectorSums) -> None:
            if self.result.addend is None:
                sums.fill(window.stage.block.init.value)
            else:
                self.result.begin(sums, [first_chunk + chunk for _, chunk in places])

        in_chains = self.half_terms and not self.is_one_chain
        chains = HalfChains(ib) if in_chains else None
        Microkernel(
            places,
            lanes,
            HALF if self.is_one_chain else window.dtype,
            element,
            weight,
            store,
            product=chains.add_product if chains else self._combine,
            begin=chains.beginning(begin) if chains else begin,
        ).emit(ib, self._taps(ib, tiles, out_row, start, chains))

    def _widened(self, element: Any, lanes: int) -> Any:
        """Return a vector of the data as it is multiplied: bytes in the type of the sums."""
        widening, dtype = self.padded.widening, self.padded.window.dtype
        return element if widening is None else widening.of(element, _vector_type(dtype, lanes))

    def _widened_weight(self, weight: Any, lanes: int) -> Any:
        """Return a vector of weights as it is multiplied; of a pair the second one is zero."""
        if self.padded.widening is None:
            return weight
        wide = _vector_type(self.padded.window.dtype, lanes)
        if self.pair is None:
            return weight.astype(wide)
        return tir.call_intrin(f"uint16x{lanes}", "tir.reinterpret", weight).astype(wide)

    def _combine(self, sums: VectorSums, place: int, element: Any, weight: Any | None) -> None:
        if weight is None:
            combiner = type(self.padded.window.stage.block.body.value)
            sums.combine(place, combiner, element)
        elif self.pair is not None and self.padded.widening is not None:
            pairs = f"int16x{2 * sums.lanes}"
            sides = (tir.call_intrin(pairs, "tir.reinterpret", each) for each in (element, weight))
            number = tir.const(2, "uint32")
            product = tir.call_llvm_pure_intrin(element.dtype, self.pair, number, *sides)
            sums.combine(place, tir.Add, product)
        else:
            sums.add_product(place, element, weight)

    @contextlib.contextmanager
    def _taps(
        self, ib: Any, tiles: WindowTiles, out_row: Any, start: Any, chains: HalfChains | None
    ) -> Iterator[Iterable[_Tap]]:
        """Open the loops over the window's rows in the data, and the channels that are summed."""
        window = self.padded.window
        first, number = tiles.row_taps(out_row)
        with ib.for_range(0, number, "tap_row") as row:
            if window.block_in > 1 and window.sums_channels:
                yield self._column_by_column(ib, tiles, first + row, start, chains)
                return
            # A chain is a row of all channels where that has no more terms, or of each.
            is_row = window.in_channels * window.kernel[1] <= self.half_terms
            with contextlib.ExitStack() as loops:
                chunk = 0
                if chains is not None and is_row:
                    loops.enter_context(chains.chained())
                if window.sums_channels:
                    chunk = loops.enter_context(ib.for_range(0, window.in_channels, "channel"))
                if chains is not None and not is_row:
                    loops.enter_context(chains.chained())
                yield [_Tap(first + row, chunk, 0, each) for each in range(window.kernel[1])]

    def _column_by_column(
        self, ib: Any, tiles: WindowTiles, row: Any, start: Any, chains: HalfChains | None
    ) -> Iterator[_Tap]:
        """Give each column of the window with loops of its own over chunks and their channels.

        A column's inputs are vectors of channels, which taps of other columns do not share: written
        out beside one another, all of them would want registers.
        """
        window = self.padded.window
        chunks = window.in_channels // window.block_in
        for column in range(window.kernel[1]):
            read = (tiles.column(start, step, column) for step in range(self.columns))
            if all(map(tiles.is_border, read)):
                continue
            with (
                self._chunks(ib, chunks, chains) as chunk,
                ib.for_range(0, window.block_in, "channel") as channel,
            ):
                yield _Tap(row, chunk, channel, column)

    @contextlib.contextmanager
    def _chunks(self, ib: Any, chunks: int, chains: HalfChains | None) -> Iterator[Any]:
        """Open the loops over input chunks, of which so many make a chain; give their number."""
        if chains is None:
            with ib.for_range(0, chunks, "chunk") as chunk:
                yield chunk
            return
        inner = self.padded.window.block_in
        together = max(each for each in divisors(chunks) if each * inner <= self.half_terms)
        with (
            ib.for_range(0, chunks // together, "chain") as chain,
            chains.chained(),
            ib.for_range(0, together, "chunk") as step,
        ):
            yield chain * together + step


def _vector_type(dtype: str, lanes: int) -> str:
    return f"{dtype}x{lanes}" if lanes > 1 else dtype


@dataclass(frozen=True)
class _Tap:
    """A place of the window, and one of the channels it sums: a chunk, and which of that."""

    row: Any
    chunk: Any
    channel: Any
    column: int


def read_in_place(
    info: BlockInfo,
    found: PaddedWindow,
    name: str,
    chunks: int,
    columns: int,
    rows: int,
    *,
    rows_inside: bool = False,
    half_terms: int = 0,
) -> Any:
    """Return the kernel of a block around a window that sums channels, and is read in place.

    Parameters
    ----------
    info, found
        The block, and its window.
    name
        Of the kernel's block.
    chunks, columns
        Of a register tile.
    rows
        Of a task.
    rows_inside, half_terms
        Of the kernel; see :class:`InPlaceKernel`.

    Raises
    ------
    UnschedulableError
        Where what follows the window cannot be applied to registers.
    """
    sch = fresh_schedule(info.func)
    reduction = found.window.stage.name
    write = gather_what_follows(sch, info, reduction, info.outputs[0])
    func = simplify_indices(sch.mod["main"])
    blocks = stage_nests(func)
    stages = [stage for stage in (found.pad, reduction) if stage is not None]
    converting = converting_stages(info) & info.upstream(reduction)
    if blocks.keys() != {*stages, *converting, write}:
        raise UnschedulableError("stages after the window keep loop nests of their own")
    written = {region.buffer.data for region in blocks[reduction].writes}
    parallel = should_parallelise(info.stages.values(), info.cpu.cores)
    vectors = OutputVectors(found.window.out_blocks, found.window.block_out, 1)
    begins = info.cpu.begins_with_bias
    result = WindowResult.of(
        blocks[write], found.window.columns, vectors, written, begins_with_bias=begins
    )
    apart = info.cpu.multiplies_by_lane
    kernel = InPlaceKernel(
        found,
        chunks,
        columns,
        result,
        weights_apart=apart,
        rows_inside=rows_inside,
        half_terms=half_terms,
        adds_in_halves=adds_in_halves(info.func),
    ).build(rows=rows, parts=1, parallel=parallel)
    func = replace_stages(func, stages, write, [found.data], name, kernel)
    return schedule_around(func, name, info.cpu)
