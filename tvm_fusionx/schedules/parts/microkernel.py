"""The register tile at the heart of each kernel that is laid out by hand: one skeleton, four holes.

A tile holds vectors of sums in registers, one for each place ``(row, column)``. What it does is the
same in all kernels; what differs fills the holes (after YNNPACK's ``dot_base``):

    begin(sums)
    for step in steps:                  # the loops are the kernel's
        for row, column in places:
            product(sums[row, column], load_a(step, row, column), load_b(step, row, column))
    store(sums)

The sides of the tile are the kernel's to choose: pixels by vectors of channels where an element of
the image multiplies a vector of weights, channels by vectors of columns where a weight multiplies a
vector of the image, and columns by channel chunks where a window keeps channels apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.schedules.parts.half_sums import HALF, HalfSums
from tvm_fusionx.schedules.parts.vector_sums import VectorSums

# Takes a step, and row and column of a place; returns a vector, or None where the place has none.
Operand = Callable[[Any, int, int], Any]

# Opens the loops over the terms of a sum, and gives the steps that are written out inside.
Steps = AbstractContextManager[Iterable[Any]]


def add_product(sums: VectorSums, place: int, left: Any, right: Any) -> None:
    """Add the product of two vectors to a sum, as those sums are added to."""
    sums.add_product(place, left, right)


@dataclass(frozen=True)
class Microkernel:
    """A register tile, and what fills the holes of the skeleton."""

    places: Sequence[tuple[int, int]]
    """Row and column of each sum, in the order in which they are computed."""

    lanes: int
    """Of a sum."""

    dtype: str
    """Of a sum."""

    load_a: Operand
    """Returns the left operand; None leaves the place out, as in the border of an image."""

    load_b: Operand
    """Returns the right operand."""

    store: Callable[[VectorSums], None]
    """Stores the sums."""

    product: Callable[[VectorSums, int, Any, Any], None] = add_product
    """Takes the sums, the number of one, and both operands, and adds to it."""

    begin: Callable[[VectorSums], None] = VectorSums.fill
    """Gives the sums their first values."""

    def emit(self, ib: Any, steps: Steps) -> None:
        """Emit the kernel of one tile."""
        number = len(self.places)
        if self.dtype == HALF:
            sums: VectorSums = HalfSums(ib, number, self.lanes)
        else:
            sums = VectorSums(ib, number, self.lanes, self.dtype)
        self.begin(sums)
        with steps as unrolled:
            for step in unrolled:
                for number, (row, column) in enumerate(self.places):
                    left = self.load_a(step, row, column)
                    if left is not None:
                        self.product(sums, number, left, self.load_b(step, row, column))
        self.store(sums)


def places_by_rows(rows: int, columns: int) -> list[tuple[int, int]]:
    """Return the places of a tile, row by row."""
    return [(row, column) for row in range(rows) for column in range(columns)]


@contextmanager
def terms(ib: Any, **extents: int) -> Iterator[list[tuple[Any, ...]]]:
    """Open a loop for each of the named extents, outermost first; a step inside is their places."""
    with ExitStack() as loops:
        named = (ib.for_range(0, extent, name) for name, extent in extents.items())
        yield [tuple(loops.enter_context(loop) for loop in named)]
