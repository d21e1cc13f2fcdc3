"""Shape and dtype of one tensor."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property

BITS_PER_BYTE = 8

# Types whose arithmetic is float32 in a block: narrower ones are how tensors lie between blocks.
COMPUTED_IN_SINGLE = ("float32", "float16", "bfloat16")
_DTYPE_BITS = re.compile(r"[a-z_]+(\d+)")
_BOOL_BITS = 8


@dataclass(frozen=True)
class TensorType:
    """Static shape and element type of a tensor.

    Parameters
    ----------
    shape
        Extents, outermost first; all known.
    dtype
        TVM's name of the element type: ``float32``, ``int64``, ``bool``.
    """

    shape: tuple[int, ...]
    dtype: str

    @cached_property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes in memory."""
        match = _DTYPE_BITS.match(self.dtype)
        bits = int(match.group(1)) if match else _BOOL_BITS
        return (self.elements * bits + BITS_PER_BYTE - 1) // BITS_PER_BYTE

    @property
    def is_float(self) -> bool:
        """Whether elements are floating point."""
        return "float" in self.dtype

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"
