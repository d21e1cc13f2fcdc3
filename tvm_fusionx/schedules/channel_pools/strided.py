"""The largest of each window of one channel whose columns are two apart: row by row, in registers.

Of rows and planes a window needs few, and few windows look at one of them, so nothing is kept of
them: for each row of the result, vectors of all rows under its windows are compared as they are
read, where they lie (pieces are not put together before), and the columns of what is largest are
picked by shuffles (:mod:`tvm_fusionx.schedules.channel_pools.strided_columns`).

    data [N, C, D, H, W]   largest rows, some vectors [W]   result [N, C, D', H', W']
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.channel_pools.before import each_piece, fill, place_of
from tvm_fusionx.schedules.channel_pools.places import Place, part_of, place_in, store_at
from tvm_fusionx.schedules.channel_pools.strided_columns import (
    Columns,
    Lanes,
    OutVector,
    Run,
    parts_of,
    row_lanes,
    runs_of,
)
from tvm_fusionx.schedules.channel_pools.window import (
    OUTER_AXES,
    Before,
    ChannelWindow,
    largest,
)
from tvm_fusionx.schedules.parts.tasks import shares
from tvm_fusionx.schedules.parts.vectors import broadcast, ramp


class StridedPoolKernel:
    """A window whose columns are two apart.

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
        columns = Columns(
            window.size[2],
            window.out_size[2],
            window.kernel[2],
            window.stride[2],
            window.padding[2],
        )
        self.loaded = row_lanes(columns, lanes)
        self.runs = runs_of(columns, lanes)

    def build(self, cores: int) -> Any:
        """Return the statement that computes the window, the channels shared by so many threads."""
        ib, shape = self.ib, self.window.data.shape
        total, channels = math.prod(int(extent) for extent in shape[:OUTER_AXES]), int(shape[1])
        with (
            shares(ib, total, cores) as (first, number),
            ib.for_range(0, number, "step") as step,
        ):
            at = first + step
            outer = (tir.floordiv(at, channels), tir.floormod(at, channels))
            if self.before is None or self.before.is_result:
                data = place_in(self.window.data, *outer)
                if self.before is not None:
                    each_piece(ib, self.before, outer, functools.partial(self._fill, data))
                self._channel(data, outer)
            else:
                each_piece(ib, self.before, outer, functools.partial(self._piece, outer))
        return ib.get()

    def _piece(self, outer: tuple[Any, Any], value: Any, moving: list[Any]) -> None:
        """Compute a channel whose data are `value`."""
        self._channel(self._read(value, moving), outer)

    def _read(self, value: Any, moving: list[Any]) -> Place:
        """Return where a channel of `value` is read: where it lies, or where it is computed."""
        size = self.window.size[-len(moving) :]
        data = place_of(value, moving, size)
        if data is None:
            kept = self.ib.allocate(
                str(self.window.data.dtype), (math.prod(size),), "channel", scope="global"
            )
            data = part_of(kept._buffer, 0)
            self._fill(data, value, moving)
        return data

    def _fill(self, data: Place, value: Any, moving: list[Any]) -> None:
        fill(self.ib, data, value, moving, self.window.size[-len(moving) :], self.lanes)

    def _channel(self, data: Place, outer: tuple[Any, Any]) -> None:
        ib, window = self.ib, self.window
        planes, height, width = window.out_size
        result = place_in(window.result, *outer)
        with (
            ib.for_range(0, planes, "plane") as plane,
            ib.for_range(0, height, "row") as row,
        ):
            rows = [
                (at_plane * window.size[1] + at_row) * window.size[2]
                for at_plane, at_row in itertools.product(
                    self.window.under(0, plane), self.window.under(1, row)
                )
            ]
            target = (plane * height + row) * width
            for run in self.runs:
                self._run(run, data, rows, result, target)

    def _run(self, run: Run, data: Place, rows: list[Any], result: Place, target: Any) -> None:
        ib, step = self.ib, self.window.stride[2]
        with ib.for_range(0, run.number, "chunk") as number:
            first = run.first + number * run.size
            under = []
            for start in run.chunk.loads:
                places = [ramp(row + (first * step + start), self.loaded) for row in rows]
                loads = [tir.BufferLoad(*data(place)) for place in places]
                under.append(ib.let("largest", largest(loads)))
            for vector in run.chunk.vectors:
                self._store(vector, under, result, target + first)

    def _store(self, vector: OutVector, rows: list[Any], result: Place, target: Any) -> None:
        value = largest([_picked(rows, lanes) for lanes in vector.taps])
        lanes = len(vector.taps[0])
        # Windows begin with the lowest value, which is more than minus infinity.
        value = self.ib.let("value", tir.Max(broadcast(self.window.lowest, lanes), value))
        starts, count = parts_of(vector.count)
        for start in starts:
            part = _picked([value], tuple((0, start + lane) for lane in range(count)))
            self.ib.emit(store_at(result, ramp(target + (vector.start + start), count), part))


def _picked(vectors: list[Any], lanes: Lanes) -> Any:
    """Return a vector of lanes of `vectors`."""
    used = sorted({number for number, _ in lanes})
    size = int(tvm.DataType(vectors[0].dtype).lanes)
    if len(used) == 1 and [lane for _, lane in lanes] == list(range(size)):
        return vectors[used[0]]
    chosen = [tir.const(used.index(number) * size + lane, "int32") for number, lane in lanes]
    return tir.Shuffle([vectors[number] for number in used], chosen)
