"""Vectors of output channels: of one chunk each, or of neighbouring chunks that fill it together.

Where a vector has 16 lanes, 24 channels are three chunks of 8: two vectors cover them, where one
for each chunk would make three half as wide. The last of an odd number lies over the one before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.parts.hand_written_kernel import Store
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import ramp
from tvm_fusionx.schedules.windows.structure import Window


def joined_chunks(chunks: int, lanes: int, cpu: Cpu | Gpu) -> int:
    """Return how many of so many chunks of `lanes` channels one vector holds, a power of two."""
    room = cpu.lanes // lanes if cpu.lanes % lanes == 0 else 1
    most = max(1, min(room, chunks))
    return 1 << (most.bit_length() - 1)


def with_joined_chunks(window: Window, cpu: Cpu) -> Window:
    """Return `window` as a tiling counts it: what one vector holds is a chunk."""
    vectors = OutputVectors.of(window, cpu)
    batch, _, rows, columns, _ = window.out_shape
    shape = (batch, vectors.number, rows, columns, vectors.lanes)
    return dataclasses.replace(window, out_shape=shape)


@dataclass(frozen=True)
class OutputVectors:
    """The output channels of a window as vectors."""

    chunks: int
    """Chunks of the output."""
    chunk_lanes: int
    """Channels of a chunk."""
    joined: int
    """Chunks that a vector holds."""

    @classmethod
    def of(cls, window: Window, cpu: Cpu) -> OutputVectors:
        """Return those that fill the vectors of `cpu`, as :func:`with_joined_chunks` counts."""
        return cls(
            window.out_blocks,
            window.block_out,
            joined_chunks(window.out_blocks, window.block_out, cpu),
        )

    @property
    def number(self) -> int:
        """How many there are."""
        return -(-self.chunks // self.joined)

    @property
    def lanes(self) -> int:
        """Lanes of a vector."""
        return self.chunk_lanes * self.joined

    def first_chunk(self, vector: Any) -> Any:
        """Return the first chunk of a vector."""
        first, last = vector * self.joined, self.chunks - self.joined
        if self.chunks % self.joined == 0:
            return first
        return min(first, last) if isinstance(first, int) else tir.min(first, last)

    def load(self, weights: Any, vector: Any, place: Sequence[Any]) -> Any:
        """Return a vector of packed weights ``[O / o, ..., o]``.

        Parameters
        ----------
        place
            Indices between the chunk and the lane.
        """
        first, lanes = self.first_chunk(vector), ramp(0, self.chunk_lanes)
        parts = [
            tir.BufferLoad(weights, [first + each, *place, lanes]) for each in range(self.joined)
        ]
        while len(parts) > 1:
            parts = [_combined(*two) for two in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def store(
        self, sums: VectorSums, store: Store, at: tuple[Any, ...], first_chunk: Any, place: int
    ) -> None:
        """Store sum `place`, a vector that begins with `first_chunk`, chunk by chunk.

        Parameters
        ----------
        store
            Called with image, chunk, row, column, lane and the value.
        at
            Image, row and column.
        """
        image, row, column = at
        for each in range(self.joined):
            part = (each * self.chunk_lanes, self.chunk_lanes)
            sums.store(store, (image, first_chunk + each, row, column), place, part)


def _combined(low: Any, high: Any) -> Any:
    lanes = low.dtype.partition("x")[2]
    both = f"{low.dtype.removesuffix(f'x{lanes}')}x{2 * int(lanes)}"
    return tir.call_intrin(both, "tir.vectorcombine", low, high)
