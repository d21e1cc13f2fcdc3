"""The loops of a pointwise convolution with few outputs, whose lanes are input channels.

One parallel loop over tasks, each some vectors of pixels. A task first turns the weights, so that
those of an output lie side by side. Then the products of a pixel's channels are summed vector by
vector, and trees of shuffles put the sums of neighbouring pixels and outputs together: whole
vectors of the result, to which what follows is applied.

    data    [N, C / c, H, W, c]       turned [O][C / c][pixel][c]: one weight for each lane
    weights [1, C / c, 1, 1, c, O]

Where a chunk is a part of a vector, neighbouring pixels fill it together; where it is longer, it is
several vectors, summed into one.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.hand_written_kernel import Store
from tvm_fusionx.schedules.parts.lane_trees import LaneTree
from tvm_fusionx.schedules.parts.tasks import start_of, tasks
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import load
from tvm_fusionx.schedules.windows.pointwise_few_outputs_places import Places
from tvm_fusionx.schedules.windows.structure import Window

# Part of the registers that hold the weights of all outputs while sums and inputs need the rest.
REGISTER_SHARE_OF_WEIGHTS = 1 / 2


@dataclass(frozen=True)
class InputVectors:
    """The input channels of a pixel as vectors."""

    lanes: int
    """Of a vector."""
    chunks: int
    """Of the input."""
    chunk_lanes: int
    """Channels of a chunk."""

    @property
    def pixels(self) -> int:
        """Neighbouring pixels that fill a vector."""
        return max(1, self.lanes // self.chunk_lanes)

    @property
    def summed(self) -> int:
        """Lanes of a vector that belong to one pixel."""
        return self.lanes // self.pixels

    @property
    def parts(self) -> int:
        """Vectors of a chunk."""
        return self.chunk_lanes // self.summed

    @property
    def number(self) -> int:
        """Vectors of a pixel, or of the pixels that fill them together."""
        return self.chunks * self.parts


@dataclass(frozen=True)
class FewOutputsTiling:
    """How such a convolution is divided."""

    tile_pixels: int
    """Pixels whose sums are held in registers together."""
    tasks: int
    """Parts that all vectors of pixels are divided into; the last may share some."""
    keeps_weights: bool
    """Whether the weights stay in registers: the chunks are then written out."""


class FewOutputsKernel:
    """A pointwise convolution with few outputs.

    It is no kernel of the shared skeleton: the first products are the first values of the sums, for
    a pixel has too few vectors of channels to begin with zeros, and the sums are added up lane by
    lane before they are stored.

    Parameters
    ----------
    window
        The convolution; its kernel is one pixel, its stride one, its output one chunk.
    weights
        Buffer of the weights.
    tiling
        How it is divided.
    vectors
        Its input channels as vectors.
    places
        Its result as vectors.
    write
        Stores a value of the result: called with image, chunk, row, column, channel and the value.
    """

    def __init__(
        self,
        window: Window,
        weights: Any,
        tiling: FewOutputsTiling,
        vectors: InputVectors,
        places: Places,
        write: Store,
    ) -> None:
        self.window, self.weights, self.tiling = window, weights, tiling
        self.vectors, self.places, self.write = vectors, places, write
        self.ib = tir.ir_builder.create()
        self.dtype, self.outputs = window.data.dtype, window.block_out
        size = math.prod(int(extent) for extent in window.data.shape)
        # Neighbouring pixels are one vector of its memory.
        self.data = tir.decl_buffer([size], self.dtype, window.data.name, data=window.data.data)
        self.tiles = math.ceil(places.length / places.pixels)

    def build(self, *, parallel: bool) -> Any:
        """Return the statement that computes the convolution, on several threads or on one."""
        ib, number = self.ib, self.tiling.tasks
        total = self.window.batch * self.places.rows * self.tiles
        each = math.ceil(total / number)
        with tasks(ib, [number], parallel=parallel) as (task,):
            turned = self._turned()
            first = start_of(task, each, total, number)
            with ib.for_range(0, each, "tile") as tile:
                self._tile(turned, first + tile)
        return ib.get()

    def _turned(self) -> Any:
        """Copy the weights of each output for each lane of its input, and return the buffer."""
        ib, vectors = self.ib, self.vectors
        channels = vectors.chunk_lanes
        size = self.outputs * vectors.number * vectors.lanes
        turned = ib.allocate(self.dtype, (size,), "turned", scope="global")._buffer
        repeated = vectors.pixels * channels
        with (
            ib.for_range(0, self.outputs, "output") as output,
            ib.for_range(0, vectors.chunks, "chunk") as chunk,
            ib.for_range(0, vectors.pixels, "pixel") as pixel,
            ib.for_range(0, channels, "channel") as channel,
        ):
            at = (output * vectors.chunks + chunk) * repeated + pixel * channels + channel
            value = tir.BufferLoad(self.weights, [0, chunk, 0, 0, channel, output])
            ib.emit(tir.BufferStore(turned, value, [at]))
        return turned

    def _tile(self, turned: Any, number: Any) -> None:
        """Compute one vector of pixels, for all outputs."""
        places, vectors = self.places, self.vectors
        line, tile = tir.floordiv(number, self.tiles), tir.floormod(number, self.tiles)
        image, row = tir.floordiv(line, places.rows), tir.floormod(line, places.rows)
        start = start_of(tile, places.pixels, places.length)
        trees = [
            LaneTree(self.ib, vectors.lanes, vectors.summed, self.dtype)
            for _ in range(self.outputs // places.run)
        ]
        groups, together = (
            pixels // vectors.pixels for pixels in (places.pixels, self.tiling.tile_pixels)
        )
        for group in range(0, groups, together):
            pixel = row * places.length + start + group * vectors.pixels
            sums = self._sums(turned, image, pixel, together)
            for place in range(together * self.outputs):
                trees[place % self.outputs // places.run].add(sums.value(place))
        for number, tree in enumerate(trees):
            result = tree.in_order([self._held(lane) for lane in range(places.lanes)])
            store = functools.partial(places.store, self.write, image, row, start, number)
            lane = tir.Var("lane", "int32")
            stmt = store(lane, tir.BufferLoad(result, [lane]))
            self.ib.emit(tir.For(lane, 0, places.lanes, tir.ForKind.VECTORIZED, stmt))

    def _held(self, lane: int) -> tuple[int, int]:
        """Return which vector of a tree, and which pixel of those there, a lane of a result is."""
        pixel, channel = divmod(lane, self.places.run)
        group, joined = divmod(pixel, self.vectors.pixels)
        return group * self.places.run + channel, joined

    def _sums(self, turned: Any, image: Any, pixel: Any, together: int) -> VectorSums:
        """Return the sums of neighbouring vectors of pixels, of all outputs of one after another.

        Parameters
        ----------
        pixel
            The first, counted across rows.
        """
        ib, vectors = self.ib, self.vectors
        sums = VectorSums(ib, together * self.outputs, vectors.lanes, self.dtype)
        # LLVM removes zeros that nothing reads.
        sums.fill()
        self._products(sums, turned, image, pixel, together, 0, 0, begins=True)
        for part in range(1, vectors.parts):
            self._products(sums, turned, image, pixel, together, 0, part)
        if vectors.chunks > 1:
            kind = "unroll" if self.tiling.keeps_weights else "serial"
            with ib.for_range(0, vectors.chunks - 1, "chunk", kind=kind) as chunk:
                for part in range(vectors.parts):
                    self._products(sums, turned, image, pixel, together, chunk + 1, part)
        return sums

    def _products(
        self,
        sums: VectorSums,
        turned: Any,
        image: Any,
        pixel: Any,
        together: int,
        chunk: Any,
        part: int,
        *,
        begins: bool = False,
    ) -> None:
        """Add the products of one vector of channels to the sums."""
        vectors, window = self.vectors, self.window
        plane = (image * vectors.chunks + chunk) * (window.rows * window.columns)
        for group in range(together):
            first = (plane + pixel + group * vectors.pixels) * vectors.chunk_lanes
            data = load(self.data, first + part * vectors.lanes, vectors.lanes)
            for output in range(self.outputs):
                number = output * vectors.number + chunk * vectors.parts + part
                weight = load(turned, number * vectors.lanes, vectors.lanes)
                place = group * self.outputs + output
                if begins:
                    sums.put(place, data * weight)
                else:
                    sums.add_product(place, data, weight)
