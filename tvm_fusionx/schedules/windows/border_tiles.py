"""Tiles of a window's columns, and the part of the window that lies in the image, without padding.

Which taps of a tile's columns lie in the border is known when the kernel is written: those tiles
leave them out. Tiles that touch no border share one loop. Rows are cut when the kernel runs, by the
bounds of the loop over the window's rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.windows.structure import PaddedWindow, Window


@dataclass(frozen=True)
class WindowTiles:
    """The columns of a window's result, cut into tiles."""

    window: Window
    padding: tuple[int, int]
    """Rows of zeros above the data, columns of zeros to its left."""
    height: int
    """Rows of the data."""
    width: int
    """Columns of the data."""
    columns: int
    """Columns of a tile; the last one moves left where they do not divide the result's."""

    @classmethod
    def of(cls, padded: PaddedWindow, columns: int) -> WindowTiles:
        """Return the tiles of so many `columns`."""
        _, _, height, width, _ = (int(extent) for extent in padded.data.shape)
        return cls(padded.window, padded.padding, height, width, columns)

    def emit(self, ib: Any, emit_tile: Callable[[Any], None]) -> None:
        """Call `emit_tile` with the first column of each tile, once for those in one loop."""
        count, width = self.columns, self.window.columns
        starts = [min(number * count, width - count) for number in range(math.ceil(width / count))]
        # Tiles lie `count` columns apart, but for the last where it overlaps the one before.
        looped = [start for start in starts if self._is_inside(start) and start % count == 0]
        for start in starts:
            if start not in looped:
                emit_tile(start)
        if looped:
            with ib.for_range(0, len(looped), "column_tile") as number:
                emit_tile(looped[0] + number * count)

    def column(self, start: Any, step: int, tap: int) -> Any:
        """Return the data's column under tap `tap` of a tile's column `step`."""
        offset = step * self.window.stride[1] + tap * self.window.dilation[1] - self.padding[1]
        return start * self.window.stride[1] + offset

    def is_border(self, column: Any) -> bool:
        """Tell whether a column is known to lie outside the data."""
        return isinstance(column, int) and not 0 <= column < self.width

    def row(self, out_row: Any, tap: Any) -> Any:
        """Return the data's row under tap `tap` of an output row."""
        source = out_row * self.window.stride[0] + tap * self.window.dilation[0]
        return source - self.padding[0]

    def row_taps(self, out_row: Any) -> tuple[Any, Any]:
        """Return the first tap of the window's rows that lies in the data, and their number."""
        window, above = self.window, self.padding[0]
        taps, step, dilation = window.kernel[0], window.stride[0], window.dilation[0]
        last_row = (window.rows - 1) * step + (taps - 1) * dilation - above
        first: Any = 0
        if above:
            first = tir.floordiv(tir.max(above - out_row * step + dilation - 1, 0), dilation)
        if last_row < self.height:
            return first, taps - first
        reach = self.height + above - out_row * step + dilation - 1
        end = tir.floordiv(tir.max(reach, 0), dilation)
        return first, tir.max(tir.min(end, taps) - first, 0)

    def _is_inside(self, start: int) -> bool:
        """Tell whether a tile reads no column of the border."""
        last = self.column(start, self.columns - 1, self.window.kernel[1] - 1)
        return bool(self.column(start, 0, 0) >= 0 and last < self.width)
