"""One row of one chunk of channels, gathered: zeros, what lies in the image, zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tir

from tvm_fusionx.expressions.sparse_products import Geometry
from tvm_fusionx.schedules.parts.vectors import broadcast, each_lane, store

# Elements that are set to zero at once.
ZEROS = 16


def gather_line(
    ib: Any, geometry: Geometry, held: Any, line: Any, element: Callable[[Any, Any], Any]
) -> None:
    """Emit what gathers a row of a chunk that lies in the image.

    Parameters
    ----------
    held, line
        Where to: a flat buffer, and the first element of the row there.
    element
        Returns an element of the image by its column and its lane.
    """
    first, last = columns_inside(geometry)
    lanes = geometry.lanes
    for start, end in ((0, first), (last, geometry.columns)):
        if end > start:
            fill_with_zeros(ib, held, line + start * lanes, (end - start) * lanes)
    if last > first:
        with ib.for_range(0, last - first, "column") as number:
            column = first + number

            def moved(lane: Any) -> Any:
                value = element(_in_image(geometry, column), lane)
                return tir.BufferStore(held, value, [line + column * lanes + lane])

            ib.emit(each_lane(lanes, moved))


def fill_with_zeros(ib: Any, held: Any, start: Any, count: int) -> None:
    """Emit what sets so many elements to zero."""
    whole, rest = divmod(count, ZEROS)
    zero = tir.const(0, held.dtype)
    if whole:
        with ib.for_range(0, whole, "zeros") as number:
            ib.emit(store(held, start + number * ZEROS, broadcast(zero, ZEROS), ZEROS))
    for number in range(rest):
        ib.emit(tir.BufferStore(held, zero, [start + whole * ZEROS + number]))


def columns_inside(geometry: Geometry) -> tuple[int, int]:
    """Return the first gathered column that lies in the image, and the first behind it."""
    inside = [
        column
        for column in range(geometry.columns)
        if 0 <= _in_image(geometry, column) < geometry.width
    ]
    return (inside[0], inside[-1] + 1) if inside else (geometry.columns, geometry.columns)


def _in_image(geometry: Geometry, column: Any) -> Any:
    """Return the column of the image for a gathered one."""
    return column * geometry.steps[1] - geometry.padding[1]
