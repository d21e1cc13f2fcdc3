"""A dense window whose rows lie apart (dilation), read in place.

A task of :mod:`tvm_fusionx.schedules.windows.dense` would copy all rows between the first and the
last of its window, most of which nobody reads: 25 for one row of a window of 3 rows that lie 12
apart. Nothing is copied here, and taps in the border, half of them where the window is as large as
the image, are left out (:mod:`tvm_fusionx.schedules.windows.in_place_kernel`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.schedules.windows.in_place_kernel import read_in_place
from tvm_fusionx.schedules.windows.structure import PaddedWindow, find_padded_window
from tvm_fusionx.schedules.windows.tiling import default_tile, even_rows, register_tiles
from tvm_fusionx.tir.block import BlockInfo

KERNEL = "dilated"

# Part of what a kernel may fill of the second-level cache, for the weights that are read once a
# row; the rows of the image and the result take the rest.
L2_PART_OF_WEIGHTS = 2

# Columns of a window that are written out for each tile that touches the border.
MOST_COLUMNS = 7


@dataclass(frozen=True)
class Dilated(Match):
    """A block around a dense window whose rows lie apart."""

    found: PaddedWindow

    def knobs(self) -> Knobs:
        """Return the rows of a task and the register tile."""
        window, cpu = self.found.window, self.info.cpu
        tiles = register_tiles(window, cpu)
        tile = default_tile(tiles, window, cpu)
        return {
            "task_rows": Knob(even_rows(window, cpu), tuple(range(1, window.rows + 1))),
            "tile_chunks": Knob(tile.chunks, tuple(sorted({each.chunks for each in tiles}))),
            "tile_columns": Knob(tile.columns, tuple(sorted({each.columns for each in tiles}))),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        window, cpu = self.found.window, self.info.cpu
        outputs = window.out_blocks * window.block_out
        weights = outputs * window.in_channels * math.prod(window.kernel) * FLOAT_BYTES
        return read_in_place(
            self.info,
            self.found,
            KERNEL,
            values["tile_chunks"],
            values["tile_columns"],
            values["task_rows"],
            rows_inside=weights > cpu.l2_for_kernel_bytes // L2_PART_OF_WEIGHTS,
        )


def _match(info: BlockInfo) -> Dilated | str:
    found = find_padded_window(info)
    if isinstance(found, str):
        return found
    window = found.window
    if window.kernel[0] == 1 or window.dilation[0] == 1:
        return "the rows of its window are neighbours"
    if window.kernel[1] > MOST_COLUMNS:
        return f"its window has more than {MOST_COLUMNS} columns"
    return Dilated(info, found)


DILATED = Template("dilated", _match)
