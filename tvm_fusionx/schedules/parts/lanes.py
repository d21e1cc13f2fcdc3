"""Multiply-adds that take one lane of a vector: an operand loaded four numbers at a time.

Arm's multiply-add multiplies a vector by one lane of another, so that numbers that lie side by side
are loaded together. Elsewhere each is loaded and spread by an instruction of its own, which costs
what a load does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tir

from tvm_fusionx.processors.cpu import FLOAT32_BITS, Cpu
from tvm_fusionx.schedules.parts.vectors import broadcast, load

# Vectors of 128 bits in 32 registers are Advanced SIMD's (Arm ARM, section B1.2.1).
NEON_BITS, NEON_REGISTERS = 128, 32

# Registers that are neither sums, nor weights, nor lanes: LLVM spills where fewer are free.
SPARE_BESIDE_LANES = 2


def lanes_multiplied(cpu: Cpu) -> int:
    """Return the float32 lanes of a vector that multiply-adds can take one by one; 1 where none."""
    is_neon = cpu.lanes * FLOAT32_BITS == NEON_BITS and cpu.registers == NEON_REGISTERS
    return cpu.lanes if is_neon else 1


def lane_of(vector: Any, lane: int, lanes: int) -> Any:
    """Return a vector of `lanes` times the lane `lane` of `vector`."""
    return broadcast(tir.Shuffle([vector], [lane]), lanes)


def rows_by_lanes(vectors: int, cpu: Cpu) -> int:
    """Return the most rows of a tile of so many vectors, each row with a register of its lanes.

    All registers but those that LLVM needs beside sums, lanes and a row of the other operand:
    with fewer it spills.
    """
    return max(1, (cpu.registers - vectors - SPARE_BESIDE_LANES) // (vectors + 1))


@contextmanager
def terms_by_lanes(ib: Any, extent: int, lanes: int) -> Iterator[Iterator[tuple[Any, int | None]]]:
    """Open loops over the terms of a sum, `lanes` of them written out in each turn.

    A step is the place of a vector of terms and the lane in it; for the terms that fill no vector,
    and where `lanes` is one, the place of a term and None. Steps open and close the loops that they
    are in, so they have to be taken one after another.
    """
    yield _steps(ib, extent, lanes)


def _steps(ib: Any, extent: int, lanes: int) -> Iterator[tuple[Any, int | None]]:
    whole = extent // lanes * lanes if lanes > 1 else 0
    if whole:
        with ib.for_range(0, whole // lanes, "lanes") as at:
            for lane in range(lanes):
                yield at * lanes, lane
    if whole < extent:
        with ib.for_range(0, extent - whole, "term") as at:
            yield whole + at, None


def shared(buffer: Any, place: Any, lane: int | None, lanes: int, width: int) -> Any:
    """Return a vector of `width` times one element of a flat buffer.

    Parameters
    ----------
    place, lane
        A step of :func:`terms_by_lanes`: the element's place, or that of the vector it is in.
    lanes
        Of that vector.
    """
    if lane is None:
        return broadcast(load(buffer, place, 1), width)
    return lane_of(load(buffer, place, lanes), lane, width)
