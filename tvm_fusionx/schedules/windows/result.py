"""How the sums of a window are stored: along channels, or along pixels.

Where a result has one channel after the other, pixels are neighbours and channels are not. The sums
of a pixel are vectors of channels, each of which would be stored by itself. So the vectors of some
pixels are turned in registers, and what follows is applied to vectors of pixels, one for each
channel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.hand_written_kernel import Store, storing
from tvm_fusionx.schedules.parts.transpose_in_registers import turned
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.windows.first_addend import FirstAddend, take_first_addend
from tvm_fusionx.schedules.windows.output_vectors import OutputVectors
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.tir.flat_access import (
    accesses_of,
    conditions_of,
    decided,
    step_of,
    with_flat_access,
)
from tvm_fusionx.tir.index_maps import variables_of

# Places of rows, columns and channels of a chunk among the axes of a window.
ROW_AXIS, COLUMN_AXIS, LANE_AXIS = 2, 3, 4


def is_along_pixels(block: Any, columns: int, sums: Collection[Any]) -> bool:
    """Tell whether a block writes a window's result by planes, pixel beside pixel.

    Parameters
    ----------
    block
        What follows the window, in the window's axes.
    columns
        Of the window's result.
    sums
        Variables of the buffers that hold it.
    """
    body = decided(block).body
    # Channels that fill up a vector are tested for, and not stored.
    store = body.then_case if isinstance(body, tir.IfThenElse) else body
    if not isinstance(store, tir.BufferStore):
        return False
    row, column, lane = (block.iter_vars[axis].var for axis in (ROW_AXIS, COLUMN_AXIS, LANE_AXIS))
    if step_of(store, lane) in (0, 1):
        return False
    in_memory = [each for each in accesses_of(body) if each.buffer.data not in sums]
    pixel = {row, column}
    return all(
        (step_of(each, column), step_of(each, row)) in ((1, columns), (0, 0)) for each in in_memory
    ) and not any(pixel & variables_of(test) for test in conditions_of(body))


@dataclass(frozen=True)
class WindowResult:
    """Stores the sums of a window with what follows it applied."""

    write: Store
    """Called with image, chunk, row, column, lane and the value."""
    vectors: OutputVectors
    """The output channels as vectors."""
    along_pixels: bool
    """Whether a stored vector is one channel of neighbouring pixels."""
    addend: FirstAddend | None = None
    """What sums begin with; zero when None."""

    @classmethod
    def of(
        cls,
        block: Any,
        columns: int,
        vectors: OutputVectors,
        sums: Collection[Any],
        *,
        begins_with_bias: bool = False,
    ) -> WindowResult:
        """Return the result that a block makes of a window's sums.

        Parameters
        ----------
        block
            What follows the window, in the window's axes.
        columns
            Of the window's result.
        vectors
            Its channels as vectors.
        sums
            Variables of the buffers that hold the window's sums.
        begins_with_bias
            Whether sums may begin with what the block adds to them, one number a channel.
        """
        addend = None
        if begins_with_bias and vectors.joined == 1:
            block, addend = take_first_addend(block, sums)
        is_power_of_two = vectors.lanes & (vectors.lanes - 1) == 0
        along_pixels = is_power_of_two and is_along_pixels(block, columns, sums)
        return cls(
            storing(decided(block) if along_pixels else block, sums), vectors, along_pixels, addend
        )

    @classmethod
    def by_chunk(
        cls, write: Store, window: Window, addend: FirstAddend | None = None
    ) -> WindowResult:
        """Return the result that `write` makes, each vector one chunk of `window`."""
        vectors = OutputVectors(window.out_blocks, window.block_out, 1)
        return cls(write, vectors, False, addend)

    def begin(self, sums: VectorSums, vectors: Sequence[Any]) -> None:
        """Give sums their first values.

        Parameters
        ----------
        vectors
            For each sum, the number of its vector of output channels.
        """
        if self.addend is None:
            sums.fill()
            return
        for place, vector in enumerate(vectors):
            sums.put(place, self.addend.vector(vector, self.vectors.lanes))

    def store(
        self,
        sums: VectorSums,
        places: Sequence[int],
        image: Any,
        first_chunk: Any,
        pixel_at: Callable[[Any], tuple[Any, Any]],
    ) -> None:
        """Store the sums of one vector of channels for neighbouring pixels.

        Parameters
        ----------
        places
            Of the sums, pixel by pixel.
        first_chunk
            First of the chunks that the vector holds.
        pixel_at
            Returns row and column of a pixel, counted from the first.
        """
        most = self.vectors.lanes if self.along_pixels else 1
        for start, width in runs_of_pixels(len(places), most):
            if width == 1:
                at = (image, *pixel_at(start))
                self.vectors.store(sums, self.write, at, first_chunk, places[start])
                continue
            rows = [sums.value(place) for place in places[start : start + width]]
            columns = turned(sums.ib, rows, self.vectors.lanes, sums.buffer.dtype)
            for number in range(self.vectors.lanes):
                chunk, lane = divmod(number, self.vectors.chunk_lanes)
                pixel = tir.Var("pixel", "int32")
                value = tir.BufferLoad(columns, [number * width + pixel])
                place = (first_chunk + chunk, *pixel_at(start + pixel))
                stmt = self.write(image, *place, tir.const(lane, "int32"), value)
                stmt = with_flat_access(stmt, pixel)
                sums.ib.emit(tir.For(pixel, 0, width, tir.ForKind.VECTORIZED, stmt))


def runs_of_pixels(number: int, most: int) -> list[tuple[int, int]]:
    """Return start and width of runs of a power of two, at most `most`, the longest first.

    A run is stored by one instruction for each channel where channels are planes.

    A single one that is left over is stored with the one before.
    """
    pieces, start = [], 0
    while start < number:
        width = min(most, 1 << ((number - start).bit_length() - 1))
        if width == 1 < min(most, number):
            start, width = start - 1, 2
        pieces.append((start, width))
        start += width
    return pieces
