"""The loops of an attention over any number of queries and keys, laid out by hand.

One parallel loop over tasks: some rows of one head. A task copies the keys of its head into panels
and the values beside each other. Then, for each block of query rows and each chunk of keys, it
multiplies queries with keys into a buffer that stays in the first-level cache, takes the softmax
there, and multiplies with the values. Where the keys are several chunks, each row keeps its largest
score and its sum so far, and what it has gathered is scaled down whenever a larger score comes
(M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018).

    keys   [N / panel][depth][panel]      values [width / panel][N][panel]
    scores [block rows][chunk]            result [width / panel][block rows][panel]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.late_passes.polynomials import weight_of_score
from tvm_fusionx.schedules.attention.panels import DTYPE, PanelCopies
from tvm_fusionx.schedules.attention.structure import Softmax
from tvm_fusionx.schedules.parts.hand_written_kernel import Store
from tvm_fusionx.schedules.parts.lanes import shared, terms_by_lanes
from tvm_fusionx.schedules.parts.microkernel import Microkernel, places_by_rows
from tvm_fusionx.schedules.parts.tasks import tasks
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import Vectors, broadcast, each_lane, load

# The place of a term, or that of a vector of them and the lane.
_Term = tuple[Any, int | None]


@dataclass(frozen=True)
class AttentionTiling:
    """How an attention is divided."""

    lanes: int
    """Elements of a vector."""
    rows: int
    """Query rows of a register tile."""
    key_vectors: int
    """Vectors of scores in a register tile."""
    value_vectors: int
    """Vectors of a value in a register tile."""
    block_tiles: int
    """Register tiles above each other whose scores are held at once."""
    chunk: int
    """Keys whose scores are held at once; a multiple of the tile's, or all."""
    shares: int
    """Tasks that share the rows of a head."""
    lanes_read: int = 1
    """Elements of a query, or weights of a row, that are loaded at once and multiplied by lane."""
    rows_weighed: int | None = None
    """Rows whose softmax is taken side by side; those of a register tile when None."""


class StreamedAttentionKernel(Vectors):
    """An attention whose softmax is taken chunk by chunk.

    Parameters
    ----------
    softmax
        What to compute.
    tiling
        How it is divided.
    write
        Called with each result: head, row, column and the value.
    """

    def __init__(self, softmax: Softmax, tiling: AttentionTiling, write: Store) -> None:
        super().__init__(tir.ir_builder.create(), DTYPE)
        self.softmax, self.tiling, self.write = softmax, tiling, write
        self.lanes, self.rows = tiling.lanes, tiling.rows
        self.panel = tiling.key_vectors * self.lanes
        self.out_panel = tiling.value_vectors * self.lanes
        self.out_panels = -(-softmax.width // self.out_panel)
        self.chunk = min(tiling.chunk, softmax.columns)
        self.stride = -(-self.chunk // self.lanes) * self.lanes
        self.block = tiling.block_tiles * self.rows
        self.is_chunked = self.chunk < softmax.columns

    def build(self, *, parallel: bool) -> Any:
        """Return the statement that computes the attention, on several threads or on one."""
        ib, softmax, tiling = self.ib, self.softmax, self.tiling
        tiles = -(-softmax.rows // self.rows)
        share_tiles = -(-tiles // tiling.shares)
        with tasks(ib, (softmax.heads, tiling.shares), parallel=parallel) as (self.head, share):
            first_tile = share * share_tiles
            panels = -(-softmax.columns // self.panel)
            self.keys = self.allocate("keys", panels * softmax.depth * self.panel)
            self.values = self.allocate(
                "values", self.out_panels * softmax.columns * self.out_panel
            )
            self.copies = PanelCopies(ib, softmax, self.head, self.lanes)
            self.copies.copy_keys(self.keys, self.panel)
            self.copies.copy_values(self.values, self.out_panel)
            blocks = -(-share_tiles // tiling.block_tiles)
            with ib.for_range(0, blocks, "block") as block:
                start = first_tile + block * tiling.block_tiles
                self._block(start, self._tiles_at(tiles, share_tiles, first_tile, start))
        return ib.get()

    def _tiles_at(self, tiles: int, share_tiles: int, first_tile: Any, start: Any) -> Any:
        """Return how many tiles a block has, where not all blocks have the same number."""
        number = self.tiling.block_tiles
        if share_tiles % number == 0 and share_tiles * self.tiling.shares == tiles:
            return number
        end = tir.min(first_tile + share_tiles, tiles)
        return tir.max(tir.min(end - start, number), 0)

    def _hold(self, value: Any) -> Any:
        """Keep a vector in a register of its own."""
        if isinstance(value, tir.FloatImm):
            return value
        lanes = tvm.DataType(value.dtype).lanes
        return self.keeper("held", lanes, 1)(value)

    def _block(self, first_tile: Any, tiles: Any) -> None:
        """Compute the rows of some tiles."""
        ib, softmax, lanes = self.ib, self.softmax, self.lanes
        self.first_row = first_tile * self.rows
        self.queries = self.allocate("queries", self.block * softmax.depth)
        self.scores = self.allocate("scores", self.block * self.stride)
        self.result = self.allocate("result", self.out_panels * self.block * self.out_panel)
        self.largest = self.allocate("largest", self.block)
        self.sums = self.allocate("sums", self.block * lanes)
        self.scale = self.allocate("scale", self.block)
        self.copies.copy(
            lambda head, row, depth: softmax.query(head, self._row(row), depth),
            self.queries,
            lambda row, depth: row * softmax.depth + depth,
            tiles * self.rows,
            softmax.depth,
        )
        with ib.for_range(0, tiles * self.rows, "row") as row:
            self.store(self.largest, row, tir.min_value(DTYPE), 1)
            self.store(self.sums, row * lanes, broadcast(_zero(), lanes), lanes)
        if self.is_chunked:
            size = self.out_panels * self.block * self.tiling.value_vectors
            with ib.for_range(0, size, "vector") as vector:
                self.store(self.result, vector * lanes, broadcast(_zero(), lanes), lanes)
        whole = softmax.columns // self.chunk
        if whole == 1:
            self._chunk(0, self.chunk, tiles)
        else:
            with ib.for_range(0, whole, "chunk") as chunk:
                self._chunk(chunk * self.chunk, self.chunk, tiles)
        if softmax.columns % self.chunk:
            self._chunk(whole * self.chunk, softmax.columns % self.chunk, tiles)
        self._write(tiles)

    def _row(self, row: Any) -> Any:
        """Return the number of a block's row; the last tile computes the last row repeatedly."""
        at = self.first_row + row
        return tir.min(at, self.softmax.rows - 1) if self.softmax.rows % self.rows else at

    def _chunk(self, first_key: Any, keys: int, tiles: Any) -> None:
        """Add the weighted values of some keys."""
        ib = self.ib
        whole = keys // self.panel
        if whole:
            with (
                ib.for_range(0, whole, "panel") as panel,
                ib.for_range(0, tiles, "tile") as tile,
            ):
                self._score_tile(first_key, panel, tile, self.panel)
        if keys % self.panel:
            with ib.for_range(0, tiles, "tile") as tile:
                self._score_tile(first_key, whole, tile, keys % self.panel)
        with ib.for_range(0, tiles, "tile") as tile:
            self._weigh(tile, -(-keys // self.lanes))
        with (
            ib.for_range(0, self.out_panels, "panel") as panel,
            ib.for_range(0, tiles, "tile") as tile,
        ):
            self._value_tile(first_key, keys, panel, tile)

    def _score_tile(self, first_key: Any, panel: Any, tile: Any, columns: int) -> None:
        """Multiply a tile of queries with a panel of keys, and finish the scores."""
        lanes, depth = self.lanes, self.softmax.depth
        vectors = -(-columns // lanes)
        source = (first_key // self.panel + panel) * (depth * self.panel)
        places = places_by_rows(self.rows, vectors)

        def finish(sums: VectorSums) -> None:
            for place, (row, vector) in enumerate(places):
                in_block = tile * self.rows + row
                start = panel * self.panel + vector * lanes
                valid = min(lanes, columns - vector * lanes)
                at = in_block * self.stride + start
                self._finish_scores(sums, place, in_block, first_key + start, at, valid)

        def query(term: _Term, row: int, _: int) -> Any:
            return self._shared(self.queries, (tile * self.rows + row) * depth, term)

        def keys(term: _Term, _: int, vector: int) -> Any:
            return load(self.keys, source + _place(term) * self.panel + vector * lanes, lanes)

        Microkernel(places, lanes, DTYPE, query, keys, finish).emit(
            self.ib, terms_by_lanes(self.ib, depth, self.tiling.lanes_read)
        )

    def _shared(self, buffer: Any, start: Any, term: _Term) -> Any:
        """Return a vector of one element of a row that begins at `start`."""
        at, lane = term
        return shared(buffer, start + at, lane, self.tiling.lanes_read, self.lanes)

    def _finish_scores(
        self, sums: VectorSums, place: int, row: Any, key: Any, target: Any, valid: int
    ) -> None:
        """Store one vector of scores; those beyond the keys weigh nothing."""
        lanes = self.lanes
        if valid < lanes:
            # Less than the lowest number, which a mask may give to every key of a row.
            nothing = broadcast(tir.const(float("-inf"), DTYPE), lanes)
            self.store(self.scores, target, nothing, lanes)

        def finished(lane: Any) -> Any:
            score = sums.element(place, lane)
            value = self.softmax.finish(self.head, self._row(row), key + lane, score)
            return tir.BufferStore(self.scores, value, [target + lane])

        kind = tir.ForKind.VECTORIZED if valid == lanes else tir.ForKind.UNROLLED
        self.ib.emit(each_lane(valid, finished, kind))

    def _weigh(self, tile: Any, vectors: int) -> None:
        """Replace the scores of a tile by their exponentials, below the largest of each row."""
        first, together = tile * self.rows, self.tiling.rows_weighed or self.rows
        groups, rest = divmod(self.rows, together)
        if groups > 1:
            with self.ib.for_range(0, groups, "group") as group:
                self._weigh_rows(first + group * together, together, vectors)
        elif groups:
            self._weigh_rows(first, together, vectors)
        if rest:
            self._weigh_rows(first + groups * together, rest, vectors)

    def _weigh_rows(self, first: Any, number: int, vectors: int) -> None:
        """Replace the scores of some rows of a block, side by side."""
        ib, lanes = self.ib, self.lanes
        maxima = self.allocate("maxima", number * lanes, "local")
        for row in range(number):
            self.store(maxima, row * lanes, broadcast(tir.min_value(DTYPE), lanes), lanes)
        with ib.for_range(0, vectors, "vector") as vector:
            for row in range(number):
                score = load(self.scores, self._score_at(first + row, vector), lanes)
                value = tir.Max(load(maxima, row * lanes, lanes), score)
                self.store(maxima, row * lanes, value, lanes)
        now = self.allocate("now", number, "local")
        for row in range(number):
            lanes_of = [load(maxima, row * lanes + lane, 1) for lane in range(lanes)]
            self.store(now, row, _tree(lanes_of, tir.Max), 1)
        if self.is_chunked:
            before = load(self.largest, first, number)
            self.store(now, 0, tir.Max(before, load(now, 0, number)), number)
            scale = weight_of_score(before - load(now, 0, number), self._hold)
            self.store(self.scale, first, scale, number)
            self.store(self.largest, first, load(now, 0, number), number)
        totals = self.allocate("totals", number * lanes, "local")
        for row in range(number):
            at = first + row
            before = load(self.sums, at * lanes, lanes)
            if self.is_chunked:
                before = before * broadcast(tir.BufferLoad(self.scale, [at]), lanes)
            self.store(totals, row * lanes, before, lanes)
        with ib.for_range(0, vectors, "vector") as vector:
            for row in range(number):
                at = self._score_at(first + row, vector)
                below = load(self.scores, at, lanes) - broadcast(load(now, row, 1), lanes)
                weight = self._hold(weight_of_score(below, self._hold))
                self.store(self.scores, at, weight, lanes)
                self.store(totals, row * lanes, load(totals, row * lanes, lanes) + weight, lanes)
        for row in range(number):
            total = load(totals, row * lanes, lanes)
            self.store(self.sums, (first + row) * lanes, total, lanes)

    def _score_at(self, row: Any, vector: Any) -> Any:
        return row * self.stride + vector * self.lanes

    def _value_tile(self, first_key: Any, keys: int, panel: Any, tile: Any) -> None:
        """Add the weighted values of a chunk to one panel of a tile of rows."""
        lanes = self.lanes
        places = places_by_rows(self.rows, self.tiling.value_vectors)
        source = panel * (self.softmax.columns * self.out_panel) + first_key * self.out_panel

        def weight(term: _Term, row: int, _: int) -> Any:
            return self._shared(self.scores, (tile * self.rows + row) * self.stride, term)

        def value(term: _Term, _: int, vector: int) -> Any:
            at = source + _place(term) * self.out_panel + vector * lanes
            return load(self.values, at, lanes)

        def add(sums: VectorSums) -> None:
            for place, (row, vector) in enumerate(places):
                in_block = tile * self.rows + row
                at = self._result_at(panel, in_block) + vector * lanes
                total = sums.value(place)
                if self.is_chunked:
                    scale = broadcast(tir.BufferLoad(self.scale, [in_block]), lanes)
                    total = load(self.result, at, lanes) * scale + total
                self.store(self.result, at, total, lanes)

        Microkernel(places, lanes, DTYPE, weight, value, add).emit(
            self.ib, terms_by_lanes(self.ib, keys, self.tiling.lanes_read)
        )

    def _result_at(self, panel: Any, row: Any) -> Any:
        return (panel * self.block + row) * self.out_panel

    def _write(self, tiles: Any) -> None:
        """Divide by the sums, and write the rows."""
        ib, lanes, width = self.ib, self.lanes, self.softmax.width
        with ib.for_range(0, tiles * self.rows, "row") as row:
            parts = [load(self.sums, row * lanes + lane, 1) for lane in range(lanes)]
            total = _tree(parts, tir.Add)
            self.store(self.scale, row, tir.const(1, DTYPE) / total, 1)
            for start in range(0, width, lanes):
                valid = min(lanes, width - start)
                at = self._result_at(start // self.out_panel, row) + start % self.out_panel
                kind = tir.ForKind.VECTORIZED if valid == lanes else tir.ForKind.SERIAL
                written = functools.partial(self._written, row, start, at)
                ib.emit(each_lane(valid, written, kind))

    def _written(self, row: Any, start: int, at: Any, lane: Any) -> Any:
        """Return the statement that writes an element of a row, `start` its vector's first."""
        value = tir.BufferLoad(self.result, [at + lane]) * tir.BufferLoad(self.scale, [row])
        return self.write(self.head, self._row(row), start + lane, value)


def _place(term: _Term) -> Any:
    """Return the place of a term."""
    at, lane = term
    return at if lane is None else at + lane


def _zero() -> Any:
    return tir.const(0, DTYPE)


def _tree(values: list[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Combine values in pairs: as few steps after each other as possible."""
    while len(values) > 1:
        paired = [
            combine(one, other) for one, other in zip(values[::2], values[1::2], strict=False)
        ]
        values = paired + values[len(paired) * 2 :]
    return values[0]
