"""Add up the lanes of some vectors: whole vectors of sums, without taking a lane out of any.

Of two vectors, the lanes at even places of both make one vector, those at odd places another, and
their sum holds half as many parts of each. So `n` vectors whose runs of `n` lanes belong together
become one after log2(n) such steps, of two shuffles and an addition each.

    a  a0 a1 a2 a3
    b  b0 b1 b2 b3      [a0 a2 b0 b2] + [a1 a3 b1 b3] = [a01 a23 b01 b23]
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.vectors import ramp

# What a step puts together lies in units of a power of this: numbers of a quarter of 128 bits, then
# such quarters. Each shuffle is one instruction so (shufps, vshuff64x2; uzp1 and uzp2).
UNITS_TOGETHER = 4


class LaneTree:
    """Adds up runs of lanes of vectors that come one by one.

    Parameters
    ----------
    ib
        Builder of the kernel; what is put together lives in its present scope.
    lanes
        Of a vector; a power of two.
    summed
        Neighbouring lanes that belong together, and vectors that become one; a power of two.
    dtype
        Of a lane.
    """

    def __init__(self, ib: Any, lanes: int, summed: int, dtype: str) -> None:
        self.ib, self.lanes, self.summed = ib, lanes, summed
        size = max(1, summed - 1) * lanes
        self.buffer = ib.allocate(dtype, (size,), "added", scope="local")._buffer
        self.slots = 0
        # What waits for its like: how many steps made it, the vector, and what its lanes hold.
        self.waiting: list[tuple[int, Any, list[tuple[int, int]]]] = []
        self.taken = 0

    def add(self, value: Any) -> None:
        """Take the next vector."""
        # A run of lanes is known by its vector and its place there.
        held = [(self.taken, lane // self.summed) for lane in range(self.lanes)]
        self.taken, step = self.taken + 1, 0
        while self.waiting and self.waiting[-1][0] == step:
            _, before, held_before = self.waiting.pop()
            both = held_before + held
            low, high = places_put_together(self.lanes, step)
            value, held = self._added([before, value], low, high), [both[at] for at in low]
            step += 1
        self.waiting.append((step, value, held))

    def in_order(self, wanted: list[tuple[int, int]]) -> Any:
        """Return a buffer of the sums, once all vectors were taken.

        Parameters
        ----------
        wanted
            For each lane, the vector and the place there of the run that it sums.
        """
        ((_, value, held),) = self.waiting
        order = [held.index(each) for each in wanted]
        if order != list(range(self.lanes)):
            value = tir.Shuffle([value], _constants(order))
        result = self.ib.allocate(self.buffer.dtype, (self.lanes,), "result", scope="local")._buffer
        self.ib.emit(tir.BufferStore(result, value, [ramp(0, self.lanes)]))
        return result

    def _added(self, pair: list[Any], low: list[int], high: list[int]) -> Any:
        parts = [tir.Shuffle(pair, _constants(places)) for places in (low, high)]
        at = ramp(self.slots * self.lanes, self.lanes)
        self.ib.emit(tir.BufferStore(self.buffer, parts[0] + parts[1], [at]))
        self.slots += 1
        return tir.BufferLoad(self.buffer, [at])


def places_put_together(lanes: int, step: int) -> tuple[list[int], list[int]]:
    """Return the lanes of two vectors, counted through both, that a step adds to each other."""
    unit = UNITS_TOGETHER ** (step // 2)
    low, high = [], []
    for lane in range(lanes):
        if 2 * unit < lanes:
            # Of two bits of a lane's number, the upper one comes to tell the vector.
            side = bool(lane & 2 * unit)
            first = lane & ~(3 * unit) | (2 * unit if lane & unit else 0)
        else:
            side, first = bool(lane & unit), lane & ~unit
        low.append(side * lanes + first)
        high.append(side * lanes + first + unit)
    return low, high


def _constants(places: list[int]) -> list[Any]:
    return [tir.const(place, "int32") for place in places]
