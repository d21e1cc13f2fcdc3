"""Sums in vector registers, for kernels whose loops are laid out by hand."""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.hand_written_kernel import Store


class VectorSums:
    """Some vectors of `lanes` elements that are added to and then stored.

    Parameters
    ----------
    ib
        Builder of the kernel; the sums live in its present scope.
    number, lanes, dtype
        How many vectors, and what they hold.
    initial
        What each element starts with; zero when None.
    """

    def __init__(
        self, ib: Any, number: int, lanes: int, dtype: str, initial: Any | None = None
    ) -> None:
        self.ib, self.lanes = ib, lanes
        self.buffer = ib.allocate(dtype, (number * lanes,), "sums", scope="local")._buffer
        first = tir.const(0, dtype) if initial is None else initial
        for place in range(number):
            self.put(place, broadcast(first, lanes))

    def add_product(self, place: int, left: Any, right: Any) -> None:
        """Add the product of two vectors to sum `place`."""
        self.put(place, self.value(place) + left * right)

    def combine(self, place: int, combiner: Any, element: Any) -> None:
        """Put sum `place` and a vector together by `combiner`, a class such as ``tir.Max``."""
        self.put(place, combiner(self.value(place), element))

    def store(
        self, store: Store, at: tuple[Any, ...], place: int, part: tuple[int, int] | None = None
    ) -> None:
        """Store sum `place` with the function `store` at `at`: as a vector, or lane by lane.

        Lanes that are tested are written out, so that the sums stay in registers.

        Parameters
        ----------
        part
            First lane, and number of lanes, of those that are stored; all when None.
        """
        first_lane, lanes = part if part is not None else (0, self.lanes)
        lane = tir.Var("lane", "int32")
        value = tir.BufferLoad(self.buffer, [place * self.lanes + first_lane + lane])
        indices = (tir.const(each, "int32") if isinstance(each, int) else each for each in at)
        stmt = store(*indices, lane, value)
        is_tested = isinstance(stmt, tir.IfThenElse)
        kind = tir.ForKind.UNROLLED if is_tested else tir.ForKind.VECTORIZED
        self.ib.emit(tir.For(lane, 0, lanes, kind, stmt))

    def value(self, place: int) -> Any:
        """Return sum `place`."""
        return tir.BufferLoad(self.buffer, [ramp(place * self.lanes, self.lanes)])

    def put(self, place: int, value: Any) -> None:
        """Put a vector in the place of sum `place`."""
        at = ramp(place * self.lanes, self.lanes)
        self.ib.emit(tir.BufferStore(self.buffer, value, [at]))


def ramp(start: Any, lanes: int) -> Any:
    """Return the indices of `lanes` consecutive elements."""
    return tir.Ramp(start, 1, lanes) if lanes > 1 else start


def broadcast(value: Any, lanes: int) -> Any:
    """Return a vector of `lanes` times `value`."""
    return tir.Broadcast(value, lanes) if lanes > 1 else value
