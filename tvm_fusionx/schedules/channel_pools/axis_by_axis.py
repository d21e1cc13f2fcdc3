"""The largest of each window over the last axes of one channel, axis by axis, laid out by hand.

A window of three axes is three windows of one axis, one after the other: 6 comparisons instead of
26 where each spans three elements. A task takes some channels. For each plane of the result it
takes the largest of the planes under the window into a buffer with rows above and below, of its
rows into a second buffer, and of their columns into the result. Planes of the buffers have rows of
the data's length and no gaps, so that vectors run across rows; neighbours that belong to another
row are kept out by a mask.

    data [N, C, D, H, W]   rows [above + H + below, W]   columns [H', W]   result [N, C, D', H', W']
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.channel_pools.before import each_piece, fill
from tvm_fusionx.schedules.channel_pools.places import (
    Place,
    each_vector,
    part_of,
    place_in,
    store_at,
)
from tvm_fusionx.schedules.channel_pools.window import (
    OUTER_AXES,
    Before,
    ChannelWindow,
    largest,
)
from tvm_fusionx.schedules.parts.tasks import shares
from tvm_fusionx.schedules.parts.vectors import broadcast, ramp

# Planes of fewer vectors than that go along each axis together, up to so many elements: as many as
# are in the cache for certain when they are read.
VECTORS_ALONE = 8
ELEMENTS_TOGETHER = 1024


@dataclass(frozen=True)
class _Plane:
    """A plane of the result, and what is kept of it."""

    data: Place
    rows: Place
    columns: Place
    masks: Any
    result: Place
    plane: Any
    """Its number."""


class ChannelPoolKernel:
    """A window that is taken axis by axis.

    Parameters
    ----------
    window
        What to compute.
    lanes
        Elements of a vector.
    before
        What computes the data; None where they are there.
    """

    def __init__(self, window: ChannelWindow, lanes: int, before: Before | None) -> None:
        self.window, self.lanes, self.before = window, lanes, before
        self.ib = tir.ir_builder.create()
        self.dtype = str(window.data.dtype)
        (_, height, self.width) = window.size
        (_, self.out_height, self.out_width) = window.out_size
        stride, kernel = window.stride[1], window.kernel[1]
        self.plane = height * self.width
        above, left = window.padding[1:]
        below = max(0, (self.out_height - 1) * stride + kernel - above - height)
        # What is stored begins with a whole vector, whatever is above it and to its left.
        self.rows_start = _whole_vectors(above * self.width, lanes)
        self.columns_start = _whole_vectors(left, lanes)
        # Vectors of the buffers may run over their end.
        self.rows_size = self.rows_start + self.plane + below * self.width + lanes
        self.columns_size = (
            self.columns_start
            + self.out_height * self.width
            + max(lanes, self.out_width - self.width + window.kernel[2])
        )
        # Without a window over planes, rows are read where they are.
        self.is_direct = window.kernel[0] == 1 and self.width >= lanes
        # Parts of a plane in which vectors run across rows.
        whole = self.out_width == self.width
        self.column_parts, self.column_length = (
            (1, self.out_height * self.width) if whole else (self.out_height, self.out_width)
        )
        self.masked = [
            tap
            for tap in range(window.kernel[2])
            if tap < window.padding[2] or self.out_width - 1 + tap - window.padding[2] >= self.width
        ]

    def build(self, cores: int) -> Any:
        """Return the statement that computes the window, the channels shared by so many threads."""
        ib = self.ib
        total = math.prod(int(extent) for extent in self.window.data.shape[:OUTER_AXES])
        together, planes = self._together(total)
        with shares(ib, total, cores, together) as (first, number):
            buffers = (
                None
                if self.is_direct
                else self._filled("rows", together * planes * self.rows_size),
                self._filled("columns", together * planes * self.columns_size),
                self._masks(),
            )
            steps = tir.floordiv(number + (together - 1), together)
            with ib.for_range(0, steps, "step") as step:
                done = step * together
                count = tir.min(together, number - done) if total % together else together
                self._channels(first + done, count, together, buffers, planes)
        return ib.get()

    def _together(self, total: int) -> tuple[int, int]:
        """Return how many channels, and planes of each, go along one axis before the next.

        A load of what several stores have just written waits until they are in the cache.
        """
        if self.plane >= VECTORS_ALONE * self.lanes:
            return 1, 1
        planes = self.window.out_size[0]
        return min(total, max(1, ELEMENTS_TOGETHER // (planes * self.plane))), planes

    def _channels(
        self, first: Any, count: Any, together: int, buffers: tuple[Any, Any, Any], planes: int
    ) -> None:
        """Compute `count` channels, at most `together`, from number `first` on."""
        ib, window = self.ib, self.window
        rows, columns, masks = buffers
        channels = int(window.data.shape[1])
        kept = None
        if self.before is not None and not self.before.is_result:
            size = together * math.prod(window.size)
            kept = ib.allocate(self.dtype, (size,), "channels", scope="global")._buffer

        def place(number: Any) -> tuple[Any, Any]:
            return tir.floordiv(first + number, channels), tir.floormod(first + number, channels)

        def data(number: Any) -> Place:
            if kept is None:
                return place_in(window.data, *place(number))
            return part_of(kept, number * math.prod(window.size))

        if self.before is not None:
            with ib.for_range(0, count, "number") as number:
                self._prepare(self.before, place(number), data(number))
        with ib.for_range(0, window.out_size[0] // planes, "planes") as group:
            rows_first = (self._across_planes, self._across_rows)
            before = (self._across_data_rows,) if self.is_direct else rows_first
            for across in (*before, self._across_columns):
                with (
                    ib.for_range(0, count, "number") as number,
                    ib.for_range(0, planes, "plane") as plane,
                ):
                    slot = number * planes + plane
                    at = _Plane(
                        data(number),
                        part_of(rows, slot * self.rows_size),
                        part_of(columns, slot * self.columns_size),
                        masks,
                        place_in(window.result, *place(number)),
                        group * planes + plane,
                    )
                    across(at)

    def _filled(self, name: str, size: int) -> Any:
        """Return a new buffer that holds the lowest value."""
        buffer = self.ib.allocate(self.dtype, (size,), name, scope="global")._buffer
        self._each_vector(
            size,
            lambda at, lanes: tir.BufferStore(
                buffer, broadcast(self.window.lowest, lanes), [ramp(at, lanes)]
            ),
        )
        return buffer

    def _masks(self) -> Any:
        """Return a mask for each column that reaches beyond rows: the lowest value there.

        The smaller one of mask and element is the element elsewhere.
        """
        if not self.masked:
            return None
        size, window = self.column_length, self.window
        highest = tir.max_value(self.dtype)
        if self.dtype.startswith("float"):
            highest = tir.const(float("inf"), self.dtype)
        buffer = self.ib.allocate(self.dtype, (len(self.masked) * size,), "masks", scope="global")
        for place, tap in enumerate(self.masked):
            with self.ib.for_range(0, size, "at") as at:
                column = tir.floormod(at, self.out_width) + (tap - window.padding[2])
                inside = tir.all(column >= 0, column < self.width)
                value = tir.Select(inside, highest, window.lowest)
                self.ib.emit(tir.BufferStore(buffer._buffer, value, [place * size + at]))
        return buffer._buffer

    def _prepare(self, before: Before, outer: tuple[Any, Any], data: Place) -> None:
        """Compute the data of a channel."""
        size = self.window.size[-self.window.moving :]

        def computed(value: Any, moving: list[Any]) -> None:
            fill(self.ib, data, value, moving, size, self.lanes)

        each_piece(self.ib, before, outer, computed)

    def _across_planes(self, place: _Plane) -> None:
        planes = self.window.under(0, place.plane)

        def emit(at: Any, lanes: int) -> Any:
            places = [place.data(ramp(plane * self.plane + at, lanes)) for plane in planes]
            value = self._largest_of(places, lanes)
            return store_at(place.rows, ramp(self.rows_start + at, lanes), value)

        self._each_vector(self.plane, emit)

    def _largest_of(self, places: list[Any], lanes: int) -> Any:
        lowest = broadcast(self.window.lowest, lanes)
        return largest([lowest, *(tir.BufferLoad(*each) for each in places)])

    def _across_rows(self, place: _Plane) -> None:
        window, lanes = self.window, self.lanes
        kernel, stride = window.kernel[1], window.stride[1]
        # Next rows are next to one another: vectors run across all of them.
        parts, length = (
            (1, self.out_height * self.width) if stride == 1 else (self.out_height, self.width)
        )
        with (
            self.ib.for_range(0, parts, "part") as part,
            self.ib.for_range(0, math.ceil(length / lanes), "vector") as vector,
        ):
            at = vector * lanes
            first = self.rows_start + (part * stride - window.padding[1]) * self.width + at
            elements = [
                tir.BufferLoad(*place.rows(ramp(first + tap * self.width, lanes)))
                for tap in range(kernel)
            ]
            target = ramp(self.columns_start + part * self.width + at, lanes)
            self.ib.emit(store_at(place.columns, target, largest(elements)))

    def _across_data_rows(self, place: _Plane) -> None:
        window, width = self.window, self.width
        plane = place.plane * window.stride[0] * self.plane
        with self.ib.for_range(0, self.out_height, "part") as part:
            rows = window.under(1, part)

            def emit(at: Any, lanes: int) -> Any:
                places = [place.data(ramp(plane + row * width + at, lanes)) for row in rows]
                target = ramp(self.columns_start + part * width + at, lanes)
                return store_at(place.columns, target, self._largest_of(places, lanes))

            self._each_vector(width, emit)

    def _across_columns(self, place: _Plane) -> None:
        window, size = self.window, self.column_length
        with self.ib.for_range(0, self.column_parts, "part") as part:

            def emit(at: Any, lanes: int) -> Any:
                elements = []
                for tap in range(window.kernel[2]):
                    column = self.columns_start - window.padding[2] + tap + at
                    element = tir.BufferLoad(
                        *place.columns(ramp(part * self.width + column, lanes))
                    )
                    if tap in self.masked:
                        index = ramp(self.masked.index(tap) * size + at, lanes)
                        element = tir.Min(element, tir.BufferLoad(place.masks, [index]))
                    elements.append(element)
                first = (place.plane * self.column_parts + part) * size
                return store_at(place.result, ramp(first + at, lanes), largest(elements))

            self._each_vector(size, emit)

    def _each_vector(self, size: int, emit: Callable[[Any, int], Any]) -> None:
        """Emit a statement for each vector of `size` elements; the last one is moved back."""
        each_vector(self.ib, size, self.lanes, emit)


def _whole_vectors(elements: int, lanes: int) -> int:
    return math.ceil(elements / lanes) * lanes
