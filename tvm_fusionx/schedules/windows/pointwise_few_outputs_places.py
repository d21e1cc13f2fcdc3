"""Where the few channels of a convolution's result lie: as whole vectors, or not.

A vector of the result holds some pixels, and of each some neighbouring channels: one where channels
are planes, two where they become pixels of a picture twice as wide, all where they are a chunk.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.hand_written_kernel import Store, storing
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.tir.flat_access import accesses_of, conditions_of, step_of, with_flat_access
from tvm_fusionx.tir.index_maps import variables_of
from tvm_fusionx.tir.numbers import divisors


@dataclass(frozen=True)
class Places:
    """What a vector of the result holds: pixels of a line, and of each some channels, innermost."""

    lanes: int
    """Of a vector."""
    run: int
    """Neighbouring channels of a pixel."""
    rows: int
    """Lines of an image: its rows, or one of all its pixels."""
    length: int
    """Pixels of a line."""
    columns: int
    """Pixels of a row."""

    @property
    def pixels(self) -> int:
        """Pixels of a vector."""
        return self.lanes // self.run

    def store(
        self, write: Store, image: Any, row: Any, pixel: Any, group: int, lane: Any, value: Any
    ) -> Any:
        """Return the statement that stores lane `lane` of a vector.

        Parameters
        ----------
        write
            Called with image, chunk, row, column, channel and the value.
        image, row, pixel
            Image, its line, and the first of the vector's pixels there.
        group
            Which of the runs of channels.
        """
        at, channel = pixel + lane, tir.const(group, "int32")
        if self.run > 1:
            at = pixel + tir.floordiv(lane, self.run)
            channel = group * self.run + tir.floormod(lane, self.run)
        if self.rows == 1:
            row, at = tir.floordiv(at, self.columns), tir.floormod(at, self.columns)
        return with_flat_access(write(image, tir.const(0, "int32"), row, at, channel, value), lane)


def find_places(
    block: Any, window: Window, lanes: int, most: int, sums: Collection[Any]
) -> Places | None:
    """Return how the result lies in whole vectors, or None where it does not.

    Parameters
    ----------
    block
        What follows the window, in the window's axes; its idle tests are gone.
    lanes
        Of a vector.
    most
        Neighbouring channels of a pixel that a vector may hold.
    sums
        Variables of the buffers that hold the window's result.
    """
    if not isinstance(block.body, tir.BufferStore):
        return None
    runs = [each for each in divisors(window.block_out) if lanes % each == 0 and each <= most]
    # One line of all pixels leaves fewer over.
    for rows, length in ((1, window.rows * window.columns), (window.rows, window.columns)):
        for run in runs:
            places = Places(lanes, run, rows, length, window.columns)
            if places.pixels <= length and _are_whole(places, block, window, sums):
                return places
    return None


def _are_whole(places: Places, block: Any, window: Window, sums: Collection[Any]) -> bool:
    """Tell whether vectors that are stored, and those read with them, lie in one piece each."""
    # Of the type of the block's axes: steps are not seen through casts.
    dtype = block.iter_vars[0].var.dtype
    image, row, pixel, lane = (tir.Var(name, dtype) for name in ("image", "row", "pixel", "lane"))
    value = tir.Var("value", window.dtype)
    write = storing(block, sums)
    moving = {row, pixel, lane}
    for group in range(window.block_out // places.run):
        stmt = places.store(write, image, row, pixel, group, lane, value)
        if any(moving & variables_of(test) for test in conditions_of(stmt)):
            return False
        for access in accesses_of(stmt):
            is_store = isinstance(access, tir.BufferStore)
            step = step_of(access, lane)
            # What a channel has for all pixels is a vector that stays.
            stays = not is_store and not {row, pixel} & _variables(access)
            if step != 1 and not stays and (is_store or step != 0):
                return False
    return True


def _variables(access: Any) -> set[Any]:
    return {each for index in access.indices for each in variables_of(index)}
