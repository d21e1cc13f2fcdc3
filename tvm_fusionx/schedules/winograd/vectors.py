"""Vectors in buffers and registers, for kernels of minimal filtering that are laid out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tir


class Vectors:
    """Writes statements on vectors of one type with an IR builder."""

    def __init__(self, dtype: str) -> None:
        self.ib = tir.ir_builder.create()
        self.dtype = dtype

    def allocate(self, name: str, size: int, scope: str = "global") -> Any:
        """Return a new flat buffer of `size` elements."""
        return self.ib.allocate(self.dtype, (size,), name, scope=scope)._buffer

    def store(self, buffer: Any, start: Any, value: Any, lanes: int) -> None:
        """Write one vector to a flat buffer."""
        self.ib.emit(tir.BufferStore(buffer, value, [ramp(start, lanes)]))

    def keeper(self, name: str, lanes: int, most: int) -> Callable[[Any], Any]:
        """Return a function that keeps up to `most` vectors in registers of their own."""
        registers = self.allocate(name, most * lanes, "local")
        used = iter(range(most))

        def keep(value: Any) -> Any:
            start = next(used) * lanes
            self.store(registers, start, value, lanes)
            return load(registers, start, lanes)

        return keep


def ramp(start: Any, lanes: int) -> Any:
    """Return the indices of a vector in a flat buffer."""
    return tir.Ramp(start, 1, lanes) if lanes > 1 else start


def load(buffer: Any, start: Any, lanes: int) -> Any:
    """Return a vector of a flat buffer."""
    return tir.BufferLoad(buffer, [ramp(start, lanes)])
