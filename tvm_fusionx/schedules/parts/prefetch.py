"""Lines of the caches that are fetched from memory before they are read."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.processors.rates import LINE_BYTES

# Of LLVM's prefetch: addresses as the instruction takes them, to read, kept in the second level
# cache, and data.
_PREFETCH = "llvm.prefetch.p0"
_READ, _SECOND_LEVEL, _DATA = 0, 2, 1
_ARGUMENTS = 4


def fetched(buffer: Any, place: list[Any]) -> Any:
    """Return the statement that begins to fetch the line at `place` of `buffer`."""
    address = tir.call_intrin("handle", "tir.address_of", tir.BufferLoad(buffer, place))
    options = [tir.const(each, "int32") for each in (_READ, _SECOND_LEVEL, _DATA)]
    count = tir.const(_ARGUMENTS, "uint32")
    return tir.Evaluate(tir.call_llvm_intrin("void", _PREFETCH, count, address, *options))


def fetched_lines(buffer: Any, place: Any, lines: int) -> list[Any]:
    """Return the statements that begin to fetch some lines, none of them behind the buffer.

    Parameters
    ----------
    place
        Of the first element, as if the buffer were flat.
    """
    line = elements_of_a_line(buffer.dtype)
    total = math.prod(int(extent) for extent in buffer.shape)
    flat = tir.decl_buffer([total], buffer.dtype, buffer.name, data=buffer.data)
    first = tir.min(place, max(0, total - lines * line))
    return [fetched(flat, [first + each * line]) for each in range(lines)]


def elements_of_a_line(dtype: str) -> int:
    """Return how many elements a line of the caches holds."""
    return LINE_BYTES * 8 // int(tvm.DataType(dtype).bits)
