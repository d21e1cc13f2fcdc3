"""Sums in vector registers, for kernels whose loops are laid out by hand."""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.hand_written_kernel import Store
from tvm_fusionx.schedules.parts.vectors import broadcast, each_lane, load, store


class VectorSums:
    """Some vectors of `lanes` elements that are added to and then stored.

    Parameters
    ----------
    ib
        Builder of the kernel; the sums live in its present scope.
    number, lanes, dtype
        How many vectors, and what they hold: nothing yet.
    """

    def __init__(self, ib: Any, number: int, lanes: int, dtype: str) -> None:
        self.ib, self.number, self.lanes = ib, number, lanes
        self.buffer = ib.allocate(dtype, (number * lanes,), "sums", scope="local")._buffer

    def fill(self, initial: Any | None = None) -> None:
        """Put `initial` into each element; zero when None."""
        first = tir.const(0, self.buffer.dtype) if initial is None else initial
        for place in range(self.number):
            self.put(place, broadcast(first, self.lanes))

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

        def stored(lane: Any) -> Any:
            value = self.element(place, lane, first_lane)
            indices = (tir.const(each, "int32") if isinstance(each, int) else each for each in at)
            return store(*indices, lane, value)

        loop = each_lane(lanes, stored)
        if isinstance(loop.body, tir.IfThenElse):
            loop = tir.For(loop.loop_var, 0, lanes, tir.ForKind.UNROLLED, loop.body)
        self.ib.emit(loop)

    def value(self, place: int) -> Any:
        """Return sum `place`."""
        return load(self.buffer, place * self.lanes, self.lanes)

    def element(self, place: int, lane: Any, first: int = 0) -> Any:
        """Return lane `lane` of sum `place`, counted from its lane `first`."""
        return tir.BufferLoad(self.buffer, [place * self.lanes + first + lane])

    def put(self, place: int, value: Any) -> None:
        """Put a vector in the place of sum `place`."""
        self.ib.emit(store(self.buffer, place * self.lanes, value, self.lanes))
