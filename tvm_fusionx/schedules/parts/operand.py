"""An operand of a product: read where it lies, or gathered into a buffer of chunks.

A task that reads its input many times, or whose input is computed, gathers it first: chunk by
chunk, and in each chunk row by row. Chunks a power of two apart would lie in the same few sets of
the first-level cache, so there is a gap between them.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

# Elements between two chunks: a line of the caches.
CHUNK_GAP = 16


class GatheredOperand:
    """A flat buffer of chunks with a gap between them.

    Parameters
    ----------
    ib
        Builder of the kernel; the buffer lives in its present scope.
    dtype
        Of an element.
    chunks
        How many chunks there are.
    elements
        Elements of a chunk.
    """

    def __init__(self, ib: Any, dtype: str, chunks: int, elements: int) -> None:
        self.stride = chunk_stride(elements)
        size = chunks * self.stride
        self.buffer = ib.allocate(dtype, (size,), "wide", scope="global")._buffer

    def at(self, chunk: Any, *offsets: Any) -> Any:
        """Return the place of an element of a chunk, some offsets together from where it begins."""
        return sum(offsets, start=chunk * self.stride)

    def load(self, chunk: Any, *offsets: Any) -> Any:
        """Return an element of a chunk."""
        return tir.BufferLoad(self.buffer, [self.at(chunk, *offsets)])

    def store(self, value: Any, chunk: Any, *offsets: Any) -> Any:
        """Return the statement that stores an element of a chunk."""
        return tir.BufferStore(self.buffer, value, [self.at(chunk, *offsets)])


def chunk_stride(elements: int) -> int:
    """Return the elements from one chunk of so many to the next."""
    return elements + CHUNK_GAP
