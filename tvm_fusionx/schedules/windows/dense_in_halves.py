"""A dense window whose products are summed up in halves, read in place.

Chains are of the chunks of a tap, as many as they have terms for
(:mod:`tvm_fusionx.schedules.windows.in_place_kernel`). Nothing is copied to be padded, for what is
copied would have to be halves again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.schedules.windows.dense import CONV2D
from tvm_fusionx.schedules.windows.dilated import L2_PART_OF_WEIGHTS, MOST_COLUMNS
from tvm_fusionx.schedules.windows.in_place_kernel import read_in_place
from tvm_fusionx.schedules.windows.structure import (
    PaddedWindow,
    Window,
    find_padded_window,
    find_window,
)
from tvm_fusionx.schedules.windows.tiling import default_tile, even_rows, register_tiles
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.half_terms import NOT_IN_HALVES, half_terms

HALF_BYTES = 2


@dataclass(frozen=True)
class DenseInHalves(Match):
    """A block around a dense window of halves."""

    found: PaddedWindow
    half_terms: int
    """Most terms of a sum of halves."""

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
        weights = outputs * window.in_channels * math.prod(window.kernel) * HALF_BYTES
        return read_in_place(
            self.info,
            self.found,
            CONV2D.name,
            values["tile_chunks"],
            values["tile_columns"],
            values["task_rows"],
            rows_inside=weights > cpu.l2_for_kernel_bytes // L2_PART_OF_WEIGHTS,
            half_terms=self.half_terms,
        )


def _match(info: BlockInfo) -> DenseInHalves | str:
    pixel = _pixel(info)
    found = find_padded_window(info) if pixel is None else pixel
    if isinstance(found, str):
        return found
    window = found.window
    if window.kernel[1] > MOST_COLUMNS:
        return f"its window has more than {MOST_COLUMNS} columns"
    terms = half_terms(info.func, found.data, window.weights)
    if terms < window.block_in:
        return NOT_IN_HALVES
    if not window.block_in == window.block_out == info.cpu.lanes:
        return "its chunks are no vectors of halves"
    return DenseInHalves(info, found, terms)


def _pixel(info: BlockInfo) -> PaddedWindow | None:
    """Return a window of one pixel, of which some are left out; None where it is no such."""
    window = find_window(info)
    if not isinstance(window, Window) or info.producers[window.stage.name]:
        return None
    if window.kernel != (1, 1) or not window.stage.is_plain_dot or not _sums_all(window):
        return None
    return PaddedWindow(window, window.data, (0, 0), None)


def _sums_all(window: Window) -> bool:
    return window.sums_channels and window.in_channels == window.block_in * int(
        window.data.shape[1]
    )


CONV2D_IN_HALVES = Template(CONV2D.name, _match)
