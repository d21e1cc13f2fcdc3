"""What a piece of a product with filters reads: planes, zeros of the padding among them.

Chunks of channels are turned as they are gathered: of some neighbouring columns, those of one
channel come to lie side by side. What is computed of the data before the product is computed here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as product_of
from typing import Any

from tvm import tir

from tvm_fusionx.expressions.sparse_filters import FilterPlanes
from tvm_fusionx.expressions.sparse_products import FLOAT
from tvm_fusionx.schedules.parts.tasks import start_of
from tvm_fusionx.schedules.parts.transpose_in_registers import turned
from tvm_fusionx.schedules.parts.vectors import Vectors, each_lane, load
from tvm_fusionx.schedules.sparse.gather import Element
from tvm_fusionx.schedules.sparse.gather_line import fill_with_zeros
from tvm_fusionx.schedules.windows.result import runs_of_pixels

# Given where a line of a channel begins, how many columns it has, and the columns of the image.
Line = Callable[[Any, int, Callable[[Any], Any]], None]


def gather_planes(
    ib: Any, planes: FilterPlanes, element: Element, at: tuple[Any, Any], lanes: int, beyond: int
) -> Any:
    """Emit what gathers the planes of a piece, and return their buffer.

    Parameters
    ----------
    element
        Returns an element of the image by its image, chunk, row, column and lane.
    at
        Image, and first row of the piece.
    lanes
        Columns that are turned at once.
    beyond
        Places behind the last plane that are read for nothing.
    """
    geometry = planes.geometry
    image, top = at
    size = geometry.channels * planes.plane + beyond
    held = Vectors(ib, FLOAT).allocate("planes", size)
    for down, across in product_of(range(geometry.moves[0]), range(geometry.moves[1])):
        if not _is_read(planes, down, across):
            continue
        first, last = _columns_inside(planes, across)
        with (
            ib.for_range(0, geometry.chunks, "chunk") as chunk,
            ib.for_range(0, planes.part_rows, "row") as row,
        ):
            part = (down * geometry.moves[1] + across) * planes.part
            line = chunk * (geometry.lanes * planes.plane) + part + row * planes.pitch
            gathered = (top + row) * geometry.moves[0] + down
            h = gathered * geometry.steps[0] - geometry.padding[0]

            def pixel(
                column: Any, lane: Any, chunk: Any = chunk, h: Any = h, across: int = across
            ) -> Any:
                return element(image, chunk, h, _in_image(planes, column, across), lane)

            with ib.if_scope(tir.all(h >= 0, h < geometry.height)):
                _zeros(ib, planes, held, line, 0, first)
                _turn(ib, planes, held, line, (first, last), pixel, lanes)
                _zeros(ib, planes, held, line, last, planes.pitch)
            with ib.else_scope():
                _zeros(ib, planes, held, line, 0, planes.pitch)
    return held


def _is_read(planes: FilterPlanes, down: int, across: int) -> bool:
    """Tell whether any place of a window lies in a part."""
    geometry = planes.geometry
    rows, columns = (
        {place * dilation % move for place in range(size)}
        for size, dilation, move in zip(
            geometry.kernel, geometry.dilation, geometry.moves, strict=True
        )
    )
    return down in rows and across in columns


def _in_image(planes: FilterPlanes, column: Any, across: int) -> Any:
    """Return the column of the image for one of a part."""
    geometry = planes.geometry
    return (column * geometry.moves[1] + across) * geometry.steps[1] - geometry.padding[1]


def _columns_inside(planes: FilterPlanes, across: int) -> tuple[int, int]:
    """Return the first column of a part that lies in the image, and the first behind it."""
    inside = [
        column
        for column in range(planes.pitch)
        if 0 <= _in_image(planes, column, across) < planes.geometry.width
    ]
    return (inside[0], inside[-1] + 1) if inside else (planes.pitch, planes.pitch)


def _zeros(ib: Any, planes: FilterPlanes, held: Any, line: Any, start: int, end: int) -> None:
    """Set columns of a line to zero, of all channels of a chunk."""
    if end > start:
        with ib.for_range(0, planes.geometry.lanes, "channel") as channel:
            fill_with_zeros(ib, held, line + channel * planes.plane + start, end - start)


def _turn(
    ib: Any,
    planes: FilterPlanes,
    held: Any,
    line: Any,
    columns: tuple[int, int],
    pixel: Element,
    lanes: int,
) -> None:
    """Copy columns of a line from a chunk to its channels."""
    first, last = columns
    count, channels = last - first, planes.geometry.lanes

    def some(start: Any, width: int) -> None:
        vectors = Vectors(ib, FLOAT)
        rows = vectors.allocate("pixels", width * channels, "local")
        for place in range(width):

            def moved(lane: Any, place: int = place) -> Any:
                value = pixel(start + place, lane)
                return tir.BufferStore(rows, value, [place * channels + lane])

            ib.emit(each_lane(channels, moved))
        read = [load(rows, place * channels, channels) for place in range(width)]
        out = turned(ib, read, channels, FLOAT) if width > 1 and channels > 1 else rows
        for channel in range(channels):
            value = load(out, channel * width, width)
            vectors.store(held, line + channel * planes.plane + start, value, width)

    if count < lanes:
        for start, width in runs_of_pixels(count, lanes):
            some(tir.const(first + start, "int32"), width)
        return
    with ib.for_range(0, -(-count // lanes), "columns") as number:
        some(first + start_of(number, lanes, count), lanes)
