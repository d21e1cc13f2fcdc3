"""Products of halves that are summed up in halves, a few terms at a time, behind sums of float32.

A register holds twice as many halves as floats, and a multiply-add of halves is one instruction. A
chain of some terms begins with zero, is widened when it has them, and added to a sum of float32:

    s = 0                                     s = 0
    for k in terms:                           for k' in terms / 16:
        s += float32(a[k]) * float32(w[k])        c = 0
                                       ->         for k in 16:
                                                      c += a[k] * w[k]
                                                  s += float32(c)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.vector_sums import VectorSums

HALF, SINGLE = "float16", "float32"


def half_of(vector: Any) -> Any:
    """Return what is loaded from halves as halves, given as float32; halves as they are."""
    if vector.dtype.startswith(HALF):
        return vector
    if isinstance(vector, tir.Broadcast):
        return tir.Broadcast(half_of(vector.value), vector.lanes)
    lanes = vector.dtype.removeprefix(SINGLE)
    return tir.Cast(f"{HALF}{lanes}", vector)


class HalfSums(VectorSums):
    """Sums of halves; what is stored of them is float32."""

    def __init__(self, ib: Any, number: int, lanes: int) -> None:
        super().__init__(ib, number, lanes, HALF)

    def put(self, place: int, value: Any) -> None:
        """Put a vector of halves, or of what is loaded from them, in the place of sum `place`."""
        super().put(place, half_of(value))

    def add_product(self, place: int, left: Any, right: Any) -> None:
        """Add the product of two vectors, loaded from halves, to sum `place`."""
        super().add_product(place, half_of(left), half_of(right))

    def element(self, place: int, lane: Any, first: int = 0) -> Any:
        """Return lane `lane` of sum `place`, counted from its lane `first`, as float32."""
        return tir.Cast(SINGLE, super().element(place, lane, first))


class HalfChains:
    """Chains of products in halves, one for each sum of a register tile.

    Parameters
    ----------
    ib
        Builder of the kernel.
    """

    def __init__(self, ib: Any) -> None:
        self.ib = ib
        self.sums: VectorSums | None = None
        self.chains: HalfSums | None = None

    def beginning(self, begin: Callable[[VectorSums], None]) -> Callable[[VectorSums], None]:
        """Return what begins the sums of float32 by `begin`; the chains are added to them."""

        def begun(sums: VectorSums) -> None:
            begin(sums)
            self.sums = sums

        return begun

    @contextmanager
    def chained(self) -> Iterator[None]:
        """Begin chains at zero; behind what is within, add them to the sums."""
        sums = self.sums
        assert sums is not None
        self.chains = HalfSums(self.ib, sums.number, sums.lanes)
        self.chains.fill()
        yield
        for place in range(sums.number):
            widened = tir.Cast(f"{SINGLE}x{sums.lanes}", self.chains.value(place))
            sums.put(place, sums.value(place) + widened)

    def add_product(self, sums: VectorSums, place: int, left: Any, right: Any) -> None:
        """Add the product of two vectors to the chain of sum `place`."""
        assert self.chains is not None
        self.chains.add_product(place, left, right)
