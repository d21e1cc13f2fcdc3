"""What a task multiplies: the data as it lies, or rows of the padded image that it gathers.

Gathered rows lie ``[rows, C / c, columns, c]``, zeros of the padding among them, so no window tests
whether it is inside. What is computed of the data before the product is computed here, once for
each element that a task gathers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.expressions.sparse_products import Geometry, depth_of
from tvm_fusionx.processors.integers import SUM
from tvm_fusionx.schedules.parts.tasks import start_of
from tvm_fusionx.schedules.parts.transpose_in_registers import turned
from tvm_fusionx.schedules.parts.vectors import Vectors, each_lane, load, ramp
from tvm_fusionx.schedules.sparse.gather_line import fill_with_zeros, gather_line
from tvm_fusionx.schedules.sparse.kernel import Data
from tvm_fusionx.sparse.tiling import Product, Tiling
from tvm_fusionx.tir.block import BlockInfo

# Given indices of the data: its element there, what stands before the product computed.
Element = Callable[..., Any]


@dataclass(frozen=True)
class Source:
    """The tensor that a product reads, and how its elements are computed."""

    buffer: Any
    element: Element
    is_stored: bool
    """Whether the tensor lies in memory when the kernel begins."""


def find_source(info: BlockInfo, stage: str, buffer: Any) -> Source | str:
    """Return what stage `stage` reads as its data, or why it cannot be computed on the way."""
    before = {name: info.stages[name].block for name in info.upstream(stage)}
    if not before:
        return Source(buffer, lambda *place: tir.BufferLoad(buffer, list(place)), True)
    for name, block in before.items():
        if info.stages[name].is_reduction or not isinstance(block.body, tir.BufferStore):
            return "what it reads is summed up in the same kernel"
        if set(info.consumers[name]) - before.keys() - {stage}:
            return "what it reads is computed for others as well"
    bodies = {block.body.buffer.data: block for block in before.values()}

    def element(*place: Any) -> Any:
        return _written(tir.BufferLoad(buffer, list(place)), bodies)

    return Source(buffer, element, buffer.data not in bodies)


def _written(value: Any, bodies: dict[Any, Any]) -> Any:
    """Return an expression with what stages before compute in the place of their results."""

    def replaced(load: Any) -> Any:
        block = bodies.get(load.buffer.data)
        if block is None:
            return None
        at = {
            it.var: tir.Cast(it.var.dtype, index) if index.dtype != it.var.dtype else index
            for it, index in zip(block.iter_vars, load.indices, strict=False)
        }
        return _written(tir.stmt_functor.substitute(block.body.value, at), bodies)

    statement = tir.Evaluate(value)
    return tir.stmt_functor.ir_transform(statement, None, replaced, ["tir.BufferLoad"]).value


class Gathering:
    """Gives each task of a kernel what it reads.

    Parameters
    ----------
    source
        The tensor, ``[N, C / c, H, W, c]``.
    geometry
        Of the windows over it.
    product, tiling
        What is computed, and how it is divided.
    """

    def __init__(
        self, source: Source, geometry: Geometry, product: Product, tiling: Tiling
    ) -> None:
        self.source, self.geometry = source, geometry
        self.words = geometry.in_words(depth_of(source.buffer.dtype))
        self.product, self.tiling = product, tiling

    def data_of(self, ib: Any, image: Any, top: Any, left: Any) -> Data:
        """Return what a task reads whose first row and column are given."""
        geometry = self.words
        if not geometry.is_in_place:
            return self._gathered(ib, image, top)
        if self.tiling.is_turned:
            element, dtype = self._pixels(image, left), self.source.buffer.dtype
            return turned_tiles(ib, self.product, self.tiling, element, dtype)
        step = (geometry.height * geometry.width - 1) * geometry.lanes
        return in_place(
            self.source.buffer,
            image,
            left,
            geometry.lanes,
            lambda offset: offset + offset // geometry.lanes * step,
        )

    def _pixels(self, image: Any, left: Any) -> Element:
        """Return what gives a channel of a pixel, counted from the first of a task."""
        geometry = self.geometry

        def element(number: Any, channel: Any, lane: Any) -> Any:
            pixel = left + number
            place = (channel // geometry.lanes, pixel // geometry.width, pixel % geometry.width)
            return self.source.element(image, *place, channel % geometry.lanes + lane)

        return element

    def _gathered(self, ib: Any, image: Any, top: Any) -> Data:
        """Gather the rows that a task reads, with zeros around them."""
        geometry = self.geometry
        rows = geometry.gathered(self.tiling.task_rows, 0)
        held = Vectors(ib, self.source.buffer.dtype).allocate("gathered", rows * geometry.row_step)
        a_chunk = geometry.lanes * geometry.columns
        with (
            ib.for_range(0, rows, "row") as row,
            ib.for_range(0, geometry.chunks, "chunk") as chunk,
        ):
            line = row * geometry.row_step + chunk * a_chunk
            h = (top * geometry.moves[0] + row) * geometry.steps[0] - geometry.padding[0]

            def element(w: Any, lane: Any) -> Any:
                return self.source.element(image, chunk, h, w, lane)

            with ib.if_scope(tir.all(h >= 0, h < geometry.height)):
                gather_line(ib, geometry, held, line, element)
            with ib.else_scope():
                fill_with_zeros(ib, held, line, a_chunk)
        moves = geometry.moves
        step = moves[1] * self.words.lanes
        return Data(lambda at: _word(held, [], at), step, moves[0] * self.words.row_step)


def _word(buffer: Any, outer: list[Any], at: Any) -> Any:
    """Return a word of the last axis of a buffer: a float, or integers that lie side by side."""
    depth = depth_of(buffer.dtype)
    if depth == 1:
        return tir.BufferLoad(buffer, [*outer, at])
    integers = tir.BufferLoad(buffer, [*outer, ramp(at * depth, depth)])
    return tir.call_intrin(SUM, "tir.reinterpret", integers)


def in_place(
    buffer: Any,
    image: Any,
    column: Any,
    step: int,
    address: Callable[[Any], Any] = lambda offset: offset,
) -> Data:
    """Return data that is read where it lies, from a column on that is so many words wide."""
    zero = tir.const(0, "int32")
    outer = [image if axis == 0 else zero for axis in range(len(buffer.shape) - 1)]
    start = column * step

    def element(at: Any) -> Any:
        return _word(buffer, outer, start + at)

    return Data(element, step, address=address)


def turned_tiles(ib: Any, product: Product, tiling: Tiling, element: Element, dtype: str) -> Data:
    """Return tiles of the data with the places of a column side by side.

    Places of a tile lie far apart in the data, each in a line of its own, of which a list takes a
    few elements; turned, those that an entry multiplies are one line or two.

    Parameters
    ----------
    element
        Returns a number of the task's data by place, first column of a vector, and lane.
    dtype
        Of these numbers.
    """
    places, depth = tiling.columns, product.depth
    lanes = product.turned_lanes
    tiles = -(-tiling.task_columns // places) if tiling.group_outermost else 1
    width = depth_of(dtype)
    numbers, wide = Vectors(ib, dtype), lanes * width
    word_type = dtype if width == 1 else SUM
    vectors = Vectors(ib, word_type)

    def words(rows: Any, place: int) -> Any:
        value = load(rows, place * wide, wide)
        if width == 1:
            return value
        return tir.call_intrin(f"{SUM}x{lanes}", "tir.reinterpret", value)

    held = vectors.allocate("turned_tiles", tiles * depth * places)

    def fill(tile: Any, first: Any) -> None:
        base = tile * (depth * places) if tiles > 1 else tir.const(0, "int32")
        with ib.for_range(0, -(-depth // lanes), "columns") as number:
            column = start_of(number, lanes, depth)
            rows = numbers.allocate("rows", places * wide, "local")
            for place in range(places):

                def moved(lane: Any, place: int = place) -> Any:
                    value = element(first + place, column * width, lane)
                    return tir.BufferStore(rows, value, [place * wide + lane])

                ib.emit(each_lane(wide, moved))
            read = [words(rows, place) for place in range(places)]
            out = turned(ib, read, lanes, word_type) if places > 1 else None
            for place in range(places):
                value = read[0] if out is None else load(out, place * lanes, lanes)
                vectors.store(held, base + column * places + place * lanes, value, lanes)

    def read(at: Any) -> Any:
        return tir.BufferLoad(held, [at])

    step = depth * places if tiles > 1 else 0
    return Data(read, 1, tile_step=step, address=lambda offset: offset * places, fill=fill)
