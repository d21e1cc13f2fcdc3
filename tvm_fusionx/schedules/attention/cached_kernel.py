"""The kernel of one token's attention over a cache: chunks of filled places, then their sum.

A task takes one chunk of a group's places for all heads that share them: its scores lie in a small
buffer, their exponentials are taken against the chunk's own largest, and so are its values mixed.
What the chunks found is put together behind the loop, with the token itself, as in *Online
normalizer calculation for softmax* (Milakov and Gimelshein, 2018). There are as many tasks as
chunks that hold something, so a step reads what was written and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.expressions.cached_attention import LOWEST
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import Vectors, broadcast, load, ramp

FLOAT = "float32"


@dataclass(frozen=True)
class CachedOperands:
    """The operands' buffers, and the result's."""

    query: Any
    keys: Any
    values: Any
    key: Any
    value: Any
    position: Any
    result: Any

    @property
    def reads(self) -> list[Any]:
        """Those that are read, each once."""
        found = (self.query, self.keys, self.values, self.key, self.value, self.position)
        return list({buffer.data: buffer for buffer in found}.values())


@dataclass(frozen=True)
class CachedTiling:
    """How the kernel is divided."""

    lanes: int
    chunk: int
    """Places of a task: whole tiles of keys."""
    rows: int
    """Heads of a tile."""
    key_vectors: int
    """Vectors of places in a tile of scores."""
    value_vectors: int
    """Vectors of features in a tile of values."""


class CachedAttentionKernel:
    """Emits the kernel.

    Parameters
    ----------
    operands
        The buffers.
    tiling
        How it is divided.
    """

    def __init__(self, operands: CachedOperands, tiling: CachedTiling) -> None:
        self.operands, self.tiling = operands, tiling
        self.groups, self.rows, self.size = (int(extent) for extent in operands.query.shape)
        self.places = int(operands.keys.shape[2])
        self.ib = tir.ir_builder.create()
        self.vectors = Vectors(self.ib, FLOAT)
        chunks = self.groups * -(-self.places // tiling.chunk)
        # Of each chunk and head: values, the sum of weights, the largest score.
        self.mixed, self.totals, self.tops = (
            self.vectors.allocate(name, chunks * self.rows * width)
            for name, width in (("mixed", self.size), ("totals", 1), ("tops", 1))
        )

    def build(self, *, parallel: bool) -> Any:
        """Return the statement."""
        ib, groups, chunk = self.ib, self.groups, self.tiling.chunk
        position = tir.BufferLoad(self.operands.position, [0])
        filled = tir.max(tir.min(position, self.places), 0)
        chunks = tir.floordiv(filled + (chunk - 1), chunk)
        kind = "parallel" if parallel else "serial"
        with ib.for_range(0, chunks * groups, "task", kind=kind) as task:
            first = tir.floordiv(task, groups) * chunk
            self._part(task, tir.floormod(task, groups), first, tir.min(chunk, filled - first))
        with ib.for_range(0, groups, "g") as g, ib.for_range(0, self.rows, "r") as r:
            self._result(g, r, chunks)
        return ib.get()

    def _part(self, task: Any, group: Any, first: Any, count: Any) -> None:
        """Attend to one chunk, of which `count` places are filled."""
        chunk = self.tiling.chunk
        scores = self.vectors.allocate("scores", self.rows * chunk)
        for start, rows in _pieces(self.rows, self.tiling.rows):
            self._scores(scores, group, first, count, start, rows)
        with self.ib.for_range(0, self.rows, "r") as r:
            self._weights(scores, r * chunk, task * self.rows + r)
        for start, rows in _pieces(self.rows, self.tiling.rows):
            self._mix(scores, task, group, first, count, start, rows)

    def _scores(
        self, scores: Any, group: Any, first: Any, count: Any, start: int, rows: int
    ) -> None:
        """Store the scores of some heads, tile after tile of places."""
        ib, tiling, lanes, chunk = self.ib, self.tiling, self.tiling.lanes, self.tiling.chunk
        across = tiling.key_vectors
        with ib.for_range(0, chunk // (across * lanes), "tile") as tile:
            begin = tile * (across * lanes)
            sums = VectorSums(ib, rows * across, lanes, FLOAT)
            sums.fill()
            with ib.for_range(0, self.size, "k") as k:
                for vector in range(across):
                    place = ramp(first + begin + vector * lanes, lanes)
                    keys = tir.BufferLoad(self.operands.keys, [group, k, place])
                    for row in range(rows):
                        query = tir.BufferLoad(self.operands.query, [group, start + row, k])
                        sums.add_product(row * across + vector, broadcast(query, lanes), keys)
            lowest = broadcast(tir.const(LOWEST, FLOAT), lanes)
            for row in range(rows):
                for vector in range(across):
                    place = begin + vector * lanes
                    is_filled = ramp(place, lanes) < broadcast(count, lanes)
                    value = tir.Select(is_filled, sums.value(row * across + vector), lowest)
                    self.vectors.store(scores, (start + row) * chunk + place, value, lanes)

    def _weights(self, scores: Any, start: Any, number: Any) -> None:
        """Make weights of the scores of one head; keep their sum and the largest score."""
        ib, lanes, chunk = self.ib, self.tiling.lanes, self.tiling.chunk
        largest = VectorSums(ib, 1, lanes, FLOAT)
        largest.fill(tir.const(LOWEST, FLOAT))
        with ib.for_range(0, chunk // lanes, "v") as v:
            largest.combine(0, tir.Max, load(scores, start + v * lanes, lanes))
        top = self._across(largest, tir.Max)
        ib.emit(tir.BufferStore(self.tops, top, [number]))
        total = VectorSums(ib, 1, lanes, FLOAT)
        total.fill()
        with ib.for_range(0, chunk // lanes, "v") as v:
            place = start + v * lanes
            weight = tir.exp(load(scores, place, lanes) - broadcast(top, lanes))
            self.vectors.store(scores, place, weight, lanes)
            total.combine(0, tir.Add, load(scores, place, lanes))
        ib.emit(tir.BufferStore(self.totals, self._across(total, tir.Add), [number]))

    def _mix(
        self, scores: Any, task: Any, group: Any, first: Any, count: Any, start: int, rows: int
    ) -> None:
        """Store the values of a chunk, weighted, of some heads."""
        ib, lanes, across = self.ib, self.tiling.lanes, self.tiling.value_vectors
        with ib.for_range(0, self.size // (across * lanes), "tile") as tile:
            feature = tile * (across * lanes)
            sums = VectorSums(ib, rows * across, lanes, FLOAT)
            sums.fill()
            with ib.for_range(0, count, "p") as p:
                for vector in range(across):
                    at = ramp(feature + vector * lanes, lanes)
                    values = tir.BufferLoad(self.operands.values, [group, first + p, at])
                    for row in range(rows):
                        weight = tir.BufferLoad(scores, [(start + row) * self.tiling.chunk + p])
                        sums.add_product(row * across + vector, broadcast(weight, lanes), values)
            for row in range(rows):
                line = (task * self.rows + start + row) * self.size + feature
                for vector in range(across):
                    value = sums.value(row * across + vector)
                    self.vectors.store(self.mixed, line + vector * lanes, value, lanes)

    def _result(self, group: Any, row: Any, chunks: Any) -> None:
        """Put the chunks of one head together, and the token itself."""
        ib, lanes, size = self.ib, self.tiling.lanes, self.size
        operands = self.operands

        def number(chunk: Any) -> Any:
            return (chunk * self.groups + group) * self.rows + row

        def each_vector(do: Callable[[int, Any], None]) -> None:
            for vector in range(size // lanes):
                do(vector, ramp(vector * lanes, lanes))

        product = VectorSums(ib, 1, lanes, FLOAT)
        product.fill()
        each_vector(
            lambda vector, at: product.add_product(
                0,
                tir.BufferLoad(operands.query, [group, row, at]),
                tir.BufferLoad(operands.key, [group, at]),
            )
        )
        own = self._across(product, tir.Add)
        top = self._kept("top", own)
        with ib.for_range(0, chunks, "c") as c:
            ib.emit(
                tir.BufferStore(
                    top.buffer, tir.max(top, tir.BufferLoad(self.tops, [number(c)])), [0]
                )
            )
        weight = self._kept("weight", tir.exp(own - top))
        total = self._kept("total", weight)
        sums = VectorSums(ib, size // lanes, lanes, FLOAT)
        each_vector(
            lambda vector, at: sums.put(
                vector, broadcast(weight, lanes) * tir.BufferLoad(operands.value, [group, at])
            )
        )
        with ib.for_range(0, chunks, "c") as c:
            place = number(c)
            part = self._kept("part", tir.exp(tir.BufferLoad(self.tops, [place]) - top))
            share = part * tir.BufferLoad(self.totals, [place])
            ib.emit(tir.BufferStore(total.buffer, total + share, [0]))
            each_vector(
                lambda vector, at: sums.add_product(
                    vector,
                    broadcast(part, lanes),
                    load(self.mixed, place * size + vector * lanes, lanes),
                )
            )
        each_vector(
            lambda vector, at: ib.emit(
                tir.BufferStore(
                    operands.result,
                    sums.value(vector) / broadcast(total, lanes),
                    [group, row, at],
                )
            )
        )

    def _kept(self, name: str, value: Any) -> Any:
        """Return a number that lies in a register of its own."""
        kept = self.vectors.allocate(name, 1, "local")
        self.ib.emit(tir.BufferStore(kept, value, [0]))
        return tir.BufferLoad(kept, [0])

    def _across(self, sums: VectorSums, combiner: Any) -> Any:
        """Return all lanes of a vector put together, in halves."""
        elements: Sequence[Any] = [sums.element(0, lane) for lane in range(self.tiling.lanes)]
        while len(elements) > 1:
            half = len(elements) // 2
            elements = [
                combiner(one, other)
                for one, other in zip(elements[:half], elements[half:], strict=True)
            ]
        return self._kept("across", elements[0])


def _pieces(extent: int, size: int) -> list[tuple[int, int]]:
    """Return first element and number of each piece of an axis."""
    return [(start, min(size, extent - start)) for start in range(0, extent, size)]
