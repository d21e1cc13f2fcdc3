"""Places in a channel, counted across its rows, and vectors of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.tasks import start_of

# Takes a place in a channel, counted across its rows, and returns a buffer and the indices there.
Place = Callable[[Any], tuple[Any, list[Any]]]


def each_vector(ib: Any, size: int, lanes: int, emit: Callable[[Any, int], Any]) -> None:
    """Emit what `emit` returns for the start and the lanes of each vector of `size` elements.

    The last vector is moved back where vectors do not divide the elements.
    """
    lanes = min(lanes, size)
    with ib.for_range(0, math.ceil(size / lanes), "vector") as vector:
        ib.emit(emit(start_of(vector, lanes, size), lanes))


def place_in(buffer: Any, *outer: Any) -> Place:
    """Return the places of a channel of a buffer without gaps."""
    moving = len(buffer.shape) - len(outer)
    return lambda at: (buffer, [*outer, *[0] * (moving - 1), at])


def part_of(buffer: Any, start: Any) -> Place:
    """Return the places of a buffer of one axis, counted from element `start`."""

    def place(at: Any) -> tuple[Any, list[Any]]:
        if isinstance(at, tir.Ramp):
            return buffer, [tir.Ramp(start + at.base, at.stride, at.lanes)]
        return buffer, [start + at]

    return place


def store_at(where: Place, at: Any, value: Any) -> Any:
    """Return the statement that stores `value` at a place."""
    buffer, indices = where(at)
    return tir.BufferStore(buffer, value, indices)
