"""Loads from a table of 256 bytes, at the place that a byte says."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

ENTRIES = 256
BYTES = ("int8", "uint8")

_BYTE = tvm.DataType("uint8")


def byte_looked_up(load: Any) -> Any | None:
    """Return the byte, or vector of bytes, by which `load` reads a table; None of other loads."""
    buffer = load.buffer
    if str(buffer.dtype) not in BYTES or len(load.indices) != 1 or len(buffer.shape) != 1:
        return None
    (index,), (extent,) = load.indices, buffer.shape
    if not isinstance(index, tir.Cast) or not isinstance(extent, tir.IntImm):
        return None
    kind = tvm.DataType(index.value.dtype)
    is_byte = (kind.type_code, kind.bits) == (_BYTE.type_code, _BYTE.bits)
    return index.value if is_byte and int(extent) == ENTRIES else None
