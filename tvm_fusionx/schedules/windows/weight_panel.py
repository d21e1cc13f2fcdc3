"""Weights of a tile of output channels, put side by side before its pixels are multiplied.

Weights lie chunk by chunk: those that a tile multiplies one element by come from as many places as
it has vectors, each with a load of its own where they are further apart than one address reaches.
In a panel they are neighbours, and load in pairs:

    weights [O / o, C / c, kh, kw, c, o]   ->   panel [C / c, kh, kw, c, vectors of a tile, o]

Each weight is moved once for all pixels of a task, which pays from a few tiles of pixels on.
"""

from __future__ import annotations

import math
from typing import Any

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.hidden_numbers import PAIR_REACH
from tvm_fusionx.schedules.parts.tasks import coordinates
from tvm_fusionx.schedules.parts.vectors import load, store
from tvm_fusionx.schedules.windows.output_vectors import OutputVectors
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.schedules.windows.tiling import ChunkTile

# Moving four terms of four vectors takes some 25 instructions, and each tile of pixels then saves
# six of its loads.
FEWEST_TILES = 5


def should_pack(window: Window, tile: ChunkTile, pixels: int, cpu: Cpu) -> bool:
    """Tell whether the weights of a tile are put side by side.

    Parameters
    ----------
    window
        Of one pixel.
    tile
        Vectors of output channels, and pixels.
    pixels
        Of a task.
    """
    if not cpu.multiplies_by_lane or tile.chunks < 2:
        return False
    apart = (tile.chunks - 1) * window.in_channels * cpu.lanes
    is_far = apart + (window.block_in - 1) * cpu.lanes > PAIR_REACH
    return is_far and math.ceil(pixels / tile.columns) >= FEWEST_TILES


class WeightPanel:
    """The weights of a tile of output channels and a block of input channels.

    Parameters
    ----------
    ib
        Builder of the kernel; the panel lives in its present scope.
    weights
        Buffer ``[O / o, C / c, kh, kw, c, o]``.
    vectors
        The output channels as vectors.
    number
        Vectors of a tile.
    chunks, inner
        Input chunks of a block, and channels of one.
    kernel
        Rows and columns of the window.
    """

    def __init__(
        self,
        ib: Any,
        weights: Any,
        vectors: OutputVectors,
        number: int,
        chunks: int,
        inner: int,
        kernel: tuple[int, int] = (1, 1),
    ) -> None:
        self.ib, self.weights, self.vectors = ib, weights, vectors
        self.number, self.chunks, self.inner, self.kernel = number, chunks, inner, kernel
        size = chunks * math.prod(kernel) * inner * number * vectors.lanes
        self.buffer = ib.allocate(weights.dtype, (size,), "panel", scope="global")._buffer

    def fill(self, first_vector: Any, first_chunk: Any) -> None:
        """Move the weights of a tile that begins with `first_vector`, from an input chunk on."""
        lanes = self.vectors.lanes
        extents = self.chunks, *self.kernel
        with self.ib.for_range(0, math.prod(extents), "moved") as moved:
            chunk, row, column = coordinates(moved, extents)
            for vector in range(self.number):
                for channel in range(self.inner):
                    place = (first_chunk + chunk, row, column, channel)
                    value = self.vectors.load(self.weights, first_vector + vector, place)
                    at = self._at(vector, moved, channel)
                    self.ib.emit(store(self.buffer, at, value, lanes))

    def load(self, vector: int, term: tuple[Any, Any, Any, Any]) -> Any:
        """Return the weights of a vector of the tile.

        Parameters
        ----------
        term
            Input chunk counted from the block's first, row and column of the window, channel.
        """
        chunk, row, column, channel = term
        tap = (chunk * self.kernel[0] + row) * self.kernel[1] + column
        return load(self.buffer, self._at(vector, tap, channel), self.vectors.lanes)

    def _at(self, vector: int, tap: Any, channel: Any) -> Any:
        return ((tap * self.inner + channel) * self.number + vector) * self.vectors.lanes
