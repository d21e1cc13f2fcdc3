"""The kernel of a convolution that reuses products.

The image is put together with its padding, channels innermost, so that a segment of any row lies in
one piece. Then tasks share the segments: each hashes the segment of all rows while it reads them,
finds the cluster of each in a table by its code, and multiplies what stands for each cluster. Last,
tasks share the rows: a row is the sum of its segments' products. A segment without a cluster is
multiplied there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.reuse.layer import ReuseLayer, Segment
from tvm_fusionx.reuse.tiling import ReuseTiling
from tvm_fusionx.schedules.parts.tasks import tasks
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import Vectors, broadcast, load, ramp, store
from tvm_fusionx.schedules.reuse.image import PaddedImage

FLOAT, INT = "float32", "int32"

# Rows that a task adds up.
ROWS_A_TASK = 32

# Of the table that are set at once.
WIDE = 16


@dataclass(frozen=True)
class ReuseOperands:
    """The buffers of a layer, as the operator has them."""

    data: Any
    weights: Any
    projections: Any
    thresholds: Any
    bias: Any
    result: Any
    table: Any = None
    """And what calls share, where they do: the cluster of each code,"""
    known: Any = None
    """and the products of each cluster."""

    @property
    def reads(self) -> list[Any]:
        """Those that are read, each once."""
        found = [self.data, self.weights, self.projections, self.thresholds, self.bias]
        found += [each for each in (self.table, self.known) if each is not None]
        return list({buffer.data: buffer for buffer in found}.values())


class ReuseKernel:
    """Emits the kernel.

    Parameters
    ----------
    layer
        What is computed.
    operands
        Its buffers.
    tiling
        How it is divided.
    """

    def __init__(self, layer: ReuseLayer, operands: ReuseOperands, tiling: ReuseTiling) -> None:
        self.layer, self.operands, self.tiling = layer, operands, tiling
        self.ib = tir.ir_builder.create()
        self.vectors = Vectors(self.ib, FLOAT)
        self.image = PaddedImage(self.ib, layer, operands.data)

    def build(self, *, parallel: bool) -> Any:
        """Return the statement."""
        layer = self.layer
        segments = layer.segment_count
        self.image.allocate()
        self.clusters = self._integers("cluster", segments * layer.rows)
        self.products = self.vectors.allocate(
            "products", segments * layer.clusters * layer.channels
        )
        with self.ib.for_range(0, layer.groups, "group") as group:
            self.image.fill(group, parallel=parallel)
            with tasks(self.ib, [segments], parallel=parallel) as (number,):
                self._segment(group, number)
            pieces = -(-layer.rows // ROWS_A_TASK)
            with tasks(self.ib, [pieces], parallel=parallel) as (piece,):
                first = piece * ROWS_A_TASK
                count = tir.min(ROWS_A_TASK, layer.rows - first)
                with self.ib.for_range(0, count, "row") as row:
                    self._row(group, first + row)
        return self.ib.get()

    def _integers(self, name: str, size: int, scope: str = "global") -> Any:
        return self.ib.allocate(INT, (size,), name, scope=scope)._buffer

    def _set(self, buffer: Any, place: Any, value: Any) -> None:
        self.ib.emit(tir.BufferStore(buffer, value, [place]))

    def _segment(self, group: Any, number: Any) -> None:
        """Put the segments of all rows together, and multiply what stands for each cluster."""
        layer, ib = self.layer, self.ib
        segment = layer.segment(number)
        sums = self.vectors.allocate("sums", layer.clusters * layer.length)
        members = self._integers("members", layer.clusters)
        table = self._integers("table", 1 << layer.bits)
        count = self._integers("count", 1, "local")
        self._set(count, 0, tir.const(0, INT))
        lanes = min(WIDE, 1 << layer.bits)
        with ib.for_range(0, (1 << layer.bits) // lanes, "code") as code:
            ib.emit(store(table, code * lanes, broadcast(tir.const(-1, INT), lanes), lanes))
        state = _State(number, segment, sums, members, table, count)
        rows = self.tiling.hash_rows
        with ib.for_range(0, layer.rows // rows, "tile") as tile:
            self._hash(group, state, tile * rows, rows)
        if layer.rows % rows:
            self._hash(group, state, layer.rows - layer.rows % rows, layer.rows % rows)
        if layer.takes_mean:
            with ib.for_range(0, load(count, 0, 1), "cluster") as found:
                many = tir.Cast(FLOAT, load(members, found, 1))
                with ib.for_range(0, segment.length, "k") as k:
                    place = found * layer.length + k
                    self._set(sums, place, load(sums, place, 1) / many)
        self._multiply(state)

    def _hash(self, group: Any, state: _State, first: Any, rows: int) -> None:
        """Find the codes of some rows, and the cluster of each."""
        layer, ib, tiling = self.layer, self.ib, self.tiling
        lanes = tiling.hash_lanes
        vectors = -(-layer.bits // lanes)
        starts = self._integers("starts", rows, "local")
        for row in range(rows):
            self._set(starts, row, self.image.start(first + row) + state.segment.offset)
        sums = VectorSums(ib, rows * vectors, lanes, FLOAT)
        sums.fill()
        with ib.for_range(0, state.segment.length, "k") as k:
            for row in range(rows):
                element = self.image.element(group, load(starts, row, 1) + k)
                for vector in range(vectors):
                    columns = ramp(tir.const(vector * lanes, INT), lanes)
                    projection = tir.BufferLoad(self.operands.projections, [k, columns])
                    sums.add_product(row * vectors + vector, broadcast(element, lanes), projection)
        codes = self._integers("codes", rows, "local")
        for row in range(rows):
            parts = [
                self._code(state, vector, sums.value(row * vectors + vector))
                for vector in range(vectors)
            ]
            self._set(codes, row, sum(parts[1:], parts[0]))
        with ib.for_range(0, rows, "row") as row:
            self._place(group, state, first + row, load(codes, row, 1))

    def _code(self, state: _State, vector: int, value: Any) -> Any:
        """Return the part of a code that a vector of projections makes."""
        lanes = self.tiling.hash_lanes
        columns = ramp(tir.const(vector * lanes, INT), lanes)
        threshold = tir.BufferLoad(self.operands.thresholds, [state.number, columns])
        powers = broadcast(tir.const(1 << (vector * lanes), INT), lanes)
        if lanes > 1:
            powers = powers << tir.Ramp(tir.const(0, INT), tir.const(1, INT), lanes)
        bits = tir.Select(value > threshold, powers, broadcast(tir.const(0, INT), lanes))
        if lanes == 1:
            return bits
        return tir.call_llvm_pure_intrin(
            INT, "llvm.vector.reduce.add", tir.const(1, "uint32"), bits
        )

    def _place(self, group: Any, state: _State, row: Any, code: Any) -> None:
        """Find the cluster of one row's segment, and take the segment into it."""
        layer, ib = self.layer, self.ib
        found = self._integers("found", 1, "local")
        self._set(found, 0, load(state.table, code, 1))
        cluster, count = load(found, 0, 1), load(state.count, 0, 1)
        source = self.image.start(row) + state.segment.offset

        def take(value_of: Any) -> None:
            with ib.for_range(0, state.segment.length, "k") as k:
                element = self.image.element(group, source + k)
                place = cluster * layer.length + k
                self._set(state.sums, place, value_of(load(state.sums, place, 1), element))

        def begin() -> None:
            self._set(found, 0, count)
            self._set(state.table, code, count)
            self._set(state.members, count, tir.const(1, INT))
            self._set(state.count, 0, count + 1)
            take(lambda _, element: element)

        with ib.if_scope(cluster < 0):  # noqa: SIM117 (the branch ends with the outer one)
            with ib.if_scope(count < layer.clusters):
                begin()
        if layer.takes_mean:
            with ib.else_scope():
                self._set(state.members, cluster, load(state.members, cluster, 1) + 1)
                take(lambda before, element: before + element)
        self._set(self.clusters, state.number * layer.rows + row, cluster)

    def _multiply(self, state: _State) -> None:
        """Multiply what stands for each cluster by the segment's weights."""
        ib, tiling = self.ib, self.tiling
        count = load(state.count, 0, 1)
        width = tiling.product_vectors * tiling.lanes
        rows = tiling.product_rows
        with ib.for_range(0, self.layer.channels // width, "columns") as columns:
            with ib.for_range(0, tir.floordiv(count, rows), "tile") as tile:
                self._product(state, tile * rows, rows, columns * width)
            if rows > 1:
                rest = tir.floormod(count, rows)
                with ib.for_range(0, rest, "rest") as row:
                    self._product(state, count - rest + row, 1, columns * width)

    def _product(self, state: _State, first: Any, rows: int, channel: Any) -> None:
        layer, lanes, vectors = self.layer, self.tiling.lanes, self.tiling.product_vectors
        sums = VectorSums(self.ib, rows * vectors, lanes, FLOAT)
        sums.fill()
        with self.ib.for_range(0, state.segment.length, "k") as k:
            for row in range(rows):
                element = load(state.sums, (first + row) * layer.length + k, 1)
                for vector in range(vectors):
                    weight = self._weight(state.segment.column + k, channel + vector * lanes)
                    sums.add_product(row * vectors + vector, broadcast(element, lanes), weight)
        for row in range(rows):
            for vector in range(vectors):
                line = (state.number * layer.clusters + first + row) * layer.channels
                place = line + channel + vector * lanes
                value = sums.value(row * vectors + vector)
                self.vectors.store(self.products, place, value, lanes)

    def _weight(self, column: Any, channel: Any) -> Any:
        return tir.BufferLoad(self.operands.weights, [column, ramp(channel, self.tiling.lanes)])

    def _row(self, group: Any, row: Any) -> None:
        """Add up the products of one row."""
        layer, tiling = self.layer, self.tiling
        width = tiling.sum_vectors * tiling.lanes
        with self.ib.for_range(0, layer.channels // width, "columns") as columns:
            self._sum(group, row, columns * width)

    def _sum(self, group: Any, row: Any, channel: Any) -> None:
        layer, ib, lanes = self.layer, self.ib, self.tiling.lanes
        vectors = range(self.tiling.sum_vectors)
        sums = VectorSums(ib, len(vectors), lanes, FLOAT)
        for vector in vectors:
            at = [ramp(channel + vector * lanes, lanes)]
            sums.put(vector, tir.BufferLoad(self.operands.bias, at))
        with ib.for_range(0, layer.segment_count, "number") as number:
            found = self._integers("found", 1, "local")
            self._set(found, 0, load(self.clusters, number * layer.rows + row, 1))
            cluster = load(found, 0, 1)

            def add() -> None:
                for vector in vectors:
                    product = self._made(number, cluster, channel + vector * lanes)
                    sums.put(vector, sums.value(vector) + product)

            if layer.has_room:
                add()
            else:
                with ib.if_scope(cluster >= 0):
                    add()
                with ib.else_scope():
                    self._add_single(group, row, number, channel, sums)
        for vector in vectors:
            value = sums.value(vector)
            if layer.has_relu:
                value = tir.Max(value, broadcast(tir.const(0.0, FLOAT), lanes))
            self._store(group, row, channel + vector * lanes, value)

    def _made(self, number: Any, cluster: Any, channel: Any) -> Any:
        """Return a vector of the products of a cluster."""
        line = (number * self.layer.clusters + cluster) * self.layer.channels
        return load(self.products, line + channel, self.tiling.lanes)

    def _add_single(
        self, group: Any, row: Any, number: Any, channel: Any, sums: VectorSums
    ) -> None:
        """Multiply a segment that found no place in a cluster."""
        lanes = self.tiling.lanes
        segment = self.layer.segment(number)
        source = self.image.start(row) + segment.offset
        with self.ib.for_range(0, segment.length, "k") as k:
            element = broadcast(self.image.element(group, source + k), lanes)
            for vector in range(sums.number):
                weight = self._weight(segment.column + k, channel + vector * lanes)
                sums.add_product(vector, element, weight)

    def _store(self, group: Any, row: Any, channel: Any, value: Any) -> None:
        layer = self.layer
        pixel = tir.floormod(row, layer.pixels)
        image = tir.floordiv(row, layer.pixels) if layer.per_batch else group
        at = [
            image,
            tir.floordiv(channel, layer.block),
            tir.floordiv(pixel, layer.result[1]),
            tir.floormod(pixel, layer.result[1]),
            ramp(tir.floormod(channel, layer.block), self.tiling.lanes),
        ]
        self.ib.emit(tir.BufferStore(self.operands.result, value, at))


@dataclass(frozen=True)
class _State:
    """What a task knows of a segment."""

    number: Any
    segment: Segment
    sums: Any
    """What stands for each cluster, ``[clusters * length]``."""
    members: Any
    table: Any
    """The cluster of each code; -1 for none."""
    count: Any
    """Clusters so far, one element."""
