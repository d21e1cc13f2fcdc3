"""Vectors in buffers and registers, for kernels whose loops are laid out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tir


def ramp(start: Any, lanes: int) -> Any:
    """Return the indices of `lanes` consecutive elements."""
    return tir.Ramp(start, 1, lanes) if lanes > 1 else start


def broadcast(value: Any, lanes: int) -> Any:
    """Return a vector of `lanes` times `value`."""
    return tir.Broadcast(value, lanes) if lanes > 1 else value


def load(buffer: Any, start: Any, lanes: int) -> Any:
    """Return a vector of a flat buffer."""
    return tir.BufferLoad(buffer, [ramp(start, lanes)])


def store(buffer: Any, start: Any, value: Any, lanes: int) -> Any:
    """Return the statement that writes one vector to a flat buffer."""
    return tir.BufferStore(buffer, value, [ramp(start, lanes)])


def each_lane(
    lanes: int, stmt_of: Callable[[Any], Any], kind: tir.ForKind = tir.ForKind.VECTORIZED
) -> Any:
    """Return the loop over the lanes of a vector, of what `stmt_of` makes of a lane's number."""
    lane = tir.Var("lane", "int32")
    return tir.For(lane, 0, lanes, kind, stmt_of(lane))


class Vectors:
    """Writes statements on vectors of one type with an IR builder."""

    def __init__(self, ib: Any, dtype: str) -> None:
        self.ib, self.dtype = ib, dtype

    def allocate(self, name: str, size: int, scope: str = "global") -> Any:
        """Return a new flat buffer of `size` elements."""
        return self.ib.allocate(self.dtype, (size,), name, scope=scope)._buffer

    def store(self, buffer: Any, start: Any, value: Any, lanes: int) -> None:
        """Write one vector to a flat buffer."""
        self.ib.emit(store(buffer, start, value, lanes))

    def keeper(self, name: str, lanes: int, most: int) -> Callable[[Any], Any]:
        """Return a function that keeps up to `most` vectors in registers of their own."""
        registers = self.allocate(name, most * lanes, "local")
        used = iter(range(most))

        def keep(value: Any) -> Any:
            start = next(used) * lanes
            self.store(registers, start, value, lanes)
            return load(registers, start, lanes)

        return keep
