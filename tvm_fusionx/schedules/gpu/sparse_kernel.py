"""The kernel of a sparse product on a GPU: each work-item reads one list for a tile of sums.

Neighbouring items have neighbouring places and one list: what they read of the weights is the
same, and of the data it is in a row. The offsets of four entries are one load, so that what they
point at is asked for together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.expressions.sparse_products import FLOAT, Index
from tvm_fusionx.schedules.gpu.threads import GROUPS, ITEMS
from tvm_fusionx.schedules.gpu.work import MEAN_EXTENT, VECTOR_LOAD
from tvm_fusionx.schedules.parts.tasks import coordinates, start_of
from tvm_fusionx.schedules.parts.vectors import broadcast, each_lane, load, store
from tvm_fusionx.sparse.gpu_tiling import STEPS, PlaneProduct

REGISTERS = "local"
INDEX = "int32"


@dataclass(frozen=True)
class Operands:
    """What the kernel reads."""

    data: Callable[[Any, Any], Any]
    """Returns the element of an image at an address."""
    address: Callable[[Any], Any]
    """Returns the address of an offset, or those of a vector of offsets, from that of a place."""
    place_step: int
    """Elements from a place to the next of a row."""
    row_step: int
    """And from a row to the next."""
    value: Callable[[Any, Any, Any], Any]
    """Returns a weight: of an entry, a vector and a lane."""
    index: Any
    parts: Index

    def told(self, place: Any) -> Any:
        """Return an integer of the index."""
        return tir.BufferLoad(self.index, [place])


# Given image, first channel of a vector, row, column, lane, and the value: stores it.
Write = Callable[..., Any]


class GpuSparseKernel:
    """Emits the kernel.

    Parameters
    ----------
    product
        What is computed.
    places, items
        Of a tile, and of a work-group.
    operands
        What is read.
    write
        Stores one number.
    is_vector
        Whether the lanes of a vector are stored together.
    """

    def __init__(
        self,
        product: PlaneProduct,
        places: int,
        items: int,
        operands: Operands,
        write: Write,
        *,
        is_vector: bool,
    ) -> None:
        self.product, self.operands = product, operands
        self.places, self.items = places, items
        self.write, self.is_vector = write, is_vector

    def build(self) -> Any:
        """Return the statement."""
        tiles, items = self.product.tiles(self.places), self.items
        outer, inner = (tir.Var(name, INDEX) for name in ("work_group", "work_item"))
        last = self.product.groups * tiles - 1
        # What is left over of the last group computes the last tile again.
        number = tir.min(outer * items + inner, last)
        ib = tir.ir_builder.create()
        self._tile(ib, tir.floordiv(number, tiles), tir.floormod(number, tiles))
        body = ib.get()
        for var, extent, tag in ((inner, items, ITEMS[0]), (outer, last // items + 1, GROUPS[0])):
            axis = tir.IterVar(None, tag, tir.IterVar.ThreadIndex, tag)
            body = tir.For(var, 0, extent, tir.ForKind.THREAD_BINDING, body, axis)
        return body

    def _tile(self, ib: Any, group: Any, tile: Any) -> None:
        product, places, operands = self.product, self.places, self.operands
        pieces = -(-product.columns // places)
        image, row, piece = coordinates(tile, (product.images, product.rows, pieces))
        left = ib.let("left", start_of(piece, places, product.columns))
        base = ib.let("base", row * operands.row_step + left * operands.place_step)
        begin = ib.let("begin", operands.told(group))
        start = at_most(begin, product.entries)
        length = at_most(ib.let("length", operands.told(group + 1) - begin), product.entries)
        first = ib.let("first", operands.told(operands.parts.firsts + group))
        first = at_most(first, operands.parts.channels)
        count = product.vectors * places
        sums = ib.allocate(FLOAT, (count * product.lanes,), "sums", scope=REGISTERS)._buffer
        for place in range(count):
            zero = broadcast(tir.const(0, FLOAT), product.lanes)
            ib.emit(store(sums, place * product.lanes, zero, product.lanes))
        mean = -(-product.entries // product.groups)
        whole = tir.floordiv(length, STEPS)

        def some(number: Any, steps: int, before: Any) -> Any:
            inner = tir.ir_builder.create()
            self._entries(inner, sums, image, base, start + before + number * steps, steps)
            return inner.get()

        ib.emit(_loop(whole, mean // STEPS, lambda number: some(number, STEPS, 0)))
        rest = tir.floormod(length, STEPS)
        ib.emit(_loop(rest, mean % STEPS, lambda number: some(number, 1, whole * STEPS)))
        for vector in range(product.vectors):
            for place in range(places):
                self._store(ib, sums, (image, row, left + place), first, vector, place)

    def _entries(self, ib: Any, sums: Any, image: Any, base: Any, entry: Any, steps: int) -> None:
        """Multiply what some entries point at, and add it."""
        product, places, operands = self.product, self.places, self.operands
        lanes = product.lanes
        at = ib.allocate(INDEX, (steps,), "at", scope=REGISTERS)._buffer
        ib.emit(store(at, 0, _vector(operands.told(operands.parts.offsets + entry), steps), steps))
        address = broadcast(base, steps) + operands.address(load(at, 0, steps))
        ib.emit(store(at, 0, address, steps))
        data = ib.allocate(FLOAT, (steps * places,), "data", scope=REGISTERS)._buffer
        size = product.vectors * lanes
        weights = ib.allocate(FLOAT, (steps * size,), "weights", scope=REGISTERS)._buffer
        for step in range(steps):
            first = tir.BufferLoad(at, [step])
            if operands.place_step == 1:
                value = _vector(operands.data(image, first), places)
                ib.emit(store(data, step * places, value, places))
            else:
                for place in range(places):
                    value = operands.data(image, first + place * operands.place_step)
                    ib.emit(tir.BufferStore(data, value, [step * places + place]))
            for vector in range(product.vectors):

                def weight(lane: Any, step: int = step, vector: int = vector) -> Any:
                    value = operands.value(entry + step, vector, lane)
                    return tir.BufferStore(weights, value, [step * size + vector * lanes + lane])

                ib.emit(each_lane(lanes, weight))
        for step in range(steps):
            for vector in range(product.vectors):
                weight_of = load(weights, step * size + vector * lanes, lanes)
                for place in range(places):
                    number = tir.BufferLoad(data, [step * places + place])
                    at_sum = (vector * places + place) * lanes
                    total = load(sums, at_sum, lanes) + broadcast(number, lanes) * weight_of
                    ib.emit(store(sums, at_sum, total, lanes))

    def _store(
        self, ib: Any, sums: Any, at: tuple[Any, Any, Any], first: Any, vector: int, place: int
    ) -> None:
        lanes = self.product.lanes
        number = vector * self.places + place
        image, row, column = at

        def stored(lane: Any) -> Any:
            value = tir.BufferLoad(sums, [number * lanes + lane])
            return self.write(image, first + vector * lanes, row, column, lane, value)

        kind = tir.ForKind.VECTORIZED if self.is_vector else tir.ForKind.UNROLLED
        ib.emit(each_lane(lanes, stored, kind))


def at_most(number: Any, most: int) -> Any:
    """Return an integer that was loaded so that TVM knows its bounds: else it has 64 bits.

    It is none below zero and none above `most`, so this changes nothing.
    """
    return tir.bitwise_and(number, tir.const((1 << most.bit_length()) - 1, INDEX))


def _vector(element: Any, lanes: int) -> Any:
    """Return the vector that begins with an element, wherever that lies.

    TVM loads vectors as such only where their place is a multiple of their lanes.
    """
    if lanes == 1:
        return element
    kind = f"{element.dtype}x{lanes}"
    return tir.call_pure_extern(kind, f"{VECTOR_LOAD}{lanes}", 0, tir.address_of(element))


def _loop(extent: Any, mean: int, body_of: Callable[[Any], Any]) -> Any:
    """Return a loop as long as a list, which is so long on the average."""
    number = tir.Var("entries", INDEX)
    told = {MEAN_EXTENT: tir.const(mean, INDEX)}
    return tir.For(number, 0, extent, tir.ForKind.SERIAL, body_of(number), None, told)
