"""Turn vectors in registers: what lies vector after vector comes to lie lane after lane.

    a0 a1 a2 a3            a0 b0 a1 b1
    b0 b1 b2 b3     is     a2 b2 a3 b3

Of a product of primes, each is a step of its own: with twelve vectors, two times two at once, then
three. A step of `p` puts each new vector together from `p` old ones by `p - 1` shuffles.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.schedules.vector_sums import ramp


class RegisterTurn:
    """Takes vectors one by one and returns them turned.

    Parameters
    ----------
    ib
        Builder of the kernel; the vectors live in its present scope.
    number
        How many there are.
    lanes, dtype
        What each holds.
    """

    def __init__(self, ib: Any, number: int, lanes: int, dtype: str) -> None:
        self.ib, self.number, self.lanes = ib, number, lanes
        made = number + sum(shuffled for _, shuffled in turning_steps(number))
        self.buffer = ib.allocate(dtype, (made * lanes,), "turned", scope="local")._buffer
        self.made = number

    def place(self, vector: int, lane: Any) -> Any:
        """Return where in `buffer` a lane of a vector is to be stored."""
        return vector * self.lanes + lane

    def turned(self) -> list[Any]:
        """Return the vectors that hold lane after lane, once all were stored."""
        return self._interleaved([self._load(slot) for slot in range(self.number)])

    def _interleaved(self, vectors: list[Any]) -> list[Any]:
        number = len(vectors)
        if number == 1:
            return vectors
        prime = smallest_factor(number)
        together = number // prime
        runs = [self._interleaved_prime(vectors[first::together]) for first in range(together)]
        # The vectors of a run follow each other: each place of all runs is interleaved alone.
        return [
            each for place in zip(*runs, strict=True) for each in self._interleaved(list(place))
        ]

    def _interleaved_prime(self, vectors: list[Any]) -> list[Any]:
        number, lanes = len(vectors), self.lanes
        results = []
        for first in range(0, number * lanes, lanes):
            wanted = [divmod(first + lane, number)[::-1] for lane in range(lanes)]
            value: Any = None
            for source in sorted({vector for vector, _ in wanted}):
                if value is None:
                    begun, value = source, vectors[source]
                    places = [at for _, at in wanted]
                    continue
                order = [
                    lanes + at if vector == source else kept
                    for (vector, at), kept in zip(wanted, places, strict=True)
                ]
                value = self._stored(tir.Shuffle([value, vectors[source]], _constants(order)))
                places = list(range(lanes))
            if begun == source and places != list(range(lanes)):
                value = self._stored(tir.Shuffle([value], _constants(places)))
            results.append(value)
        return results

    def _stored(self, vector: Any) -> Any:
        slot, self.made = self.made, self.made + 1
        self.ib.emit(tir.BufferStore(self.buffer, vector, [ramp(slot * self.lanes, self.lanes)]))
        return self._load(slot)

    def _load(self, slot: int) -> Any:
        return tir.BufferLoad(self.buffer, [ramp(slot * self.lanes, self.lanes)])


def part_of(vector: Any, first: int, lanes: int) -> Any:
    """Return some neighbouring lanes of a vector, or one as a number."""
    return tir.Shuffle([vector], _constants(list(range(first, first + lanes))))


def turning_steps(number: int) -> list[tuple[int, int]]:
    """Return the prime of each step that turns so many vectors, and its shuffles at most."""
    steps, left = [], number
    while left > 1:
        prime = smallest_factor(left)
        steps.append((prime, number * max(1, prime - 1)))
        left //= prime
    return steps


def smallest_factor(number: int) -> int:
    """Return the least prime that divides a number above 1."""
    return next(each for each in range(2, number + 1) if number % each == 0)


def _constants(places: list[int]) -> list[Any]:
    return [tir.const(place, "int32") for place in places]
