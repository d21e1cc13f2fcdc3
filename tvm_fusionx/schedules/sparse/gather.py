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

from tvm_fusionx.expressions.sparse_products import Geometry
from tvm_fusionx.schedules.parts.vectors import each_lane
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
        self.product, self.tiling = product, tiling

    def data_of(self, ib: Any, image: Any, top: Any, left: Any) -> Data:
        """Return what a task reads whose first row and column are given."""
        geometry = self.geometry
        if not geometry.is_in_place:
            return self._gathered(ib, image, top)
        lanes = geometry.lanes
        if self.source.is_stored:
            return in_place(self.source.buffer, image, left, lanes)
        return self._computed(ib, image, left)

    def _computed(self, ib: Any, image: Any, left: Any) -> Data:
        """Compute the columns of a task where the data would lie."""
        geometry, lanes = self.geometry, self.geometry.lanes
        size = geometry.chunks * geometry.chunk_step
        held = ib.allocate("float32", (size,), "computed")._buffer
        with (
            ib.for_range(0, geometry.chunks, "chunk") as chunk,
            ib.for_range(0, self.tiling.task_columns, "pixel") as number,
        ):
            pixel = left + number
            place = (image, chunk, pixel // geometry.width, pixel % geometry.width)
            at = chunk * geometry.chunk_step + pixel * lanes
            ib.emit(
                each_lane(
                    lanes,
                    lambda lane: tir.BufferStore(
                        held, self.source.element(*place, lane), [at + lane]
                    ),
                )
            )

        def element(offset: Any) -> Any:
            return tir.BufferLoad(held, [left * lanes + offset])

        return Data(element, lanes, 0)

    def _gathered(self, ib: Any, image: Any, top: Any) -> Data:
        """Gather the rows that a task reads, with zeros around them."""
        geometry, lanes = self.geometry, self.geometry.lanes
        rows = geometry.gathered(self.tiling.task_rows, 0)
        columns = geometry.gathered(geometry.result[1], 1)
        held = ib.allocate("float32", (rows * geometry.row_step,), "gathered")._buffer
        above, before = geometry.padding[:2]
        with (
            ib.for_range(0, rows, "row") as row,
            ib.for_range(0, geometry.chunks, "chunk") as chunk,
        ):
            line = row * geometry.row_step + chunk * geometry.chunk_step
            h = (top * geometry.moves[0] + row) * geometry.steps[0] - above

            def copied(column: Any, w: Any) -> None:
                ib.emit(
                    each_lane(
                        lanes,
                        lambda lane: tir.BufferStore(
                            held,
                            self.source.element(image, chunk, h, w, lane),
                            [line + column * lanes + lane],
                        ),
                    )
                )

            def zeros(column: Any) -> None:
                ib.emit(
                    each_lane(
                        lanes,
                        lambda lane: tir.BufferStore(
                            held, tir.const(0, "float32"), [line + column * lanes + lane]
                        ),
                    )
                )

            first, last = _inside(geometry, columns)
            with ib.if_scope(tir.all(h >= 0, h < geometry.height)):
                for start, end in ((0, first), (last, columns)):
                    if end > start:
                        with ib.for_range(0, end - start, "column") as column:
                            zeros(start + column)
                if last > first:
                    with ib.for_range(0, last - first, "column") as number:
                        column = first + number
                        copied(column, column * geometry.steps[1] - before)
            with ib.else_scope(), ib.for_range(0, columns, "column") as column:
                zeros(column)

        def element(offset: Any) -> Any:
            return tir.BufferLoad(held, [offset])

        return Data(element, geometry.moves[1] * lanes, geometry.moves[0] * geometry.row_step)


def in_place(buffer: Any, image: Any, column: Any, step: int) -> Data:
    """Return data that is read where it lies, from a column on that is so many elements wide."""
    outer = [tir.const(0, "int32")] * (len(buffer.shape) - 1)

    def element(offset: Any) -> Any:
        return tir.BufferLoad(buffer, [*([image] if outer else []), *outer[1:], start + offset])

    start = column * step
    return Data(element, step, 0)


def _inside(geometry: Geometry, columns: int) -> tuple[int, int]:
    """Return the first gathered column that lies in the image, and the first behind it."""
    before, step = geometry.padding[1], geometry.steps[1]
    inside = [column for column in range(columns) if 0 <= column * step - before < geometry.width]
    return (inside[0], inside[-1] + 1) if inside else (columns, columns)
