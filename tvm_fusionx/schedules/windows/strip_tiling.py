"""How many rows and columns of a window that keeps channels apart are summed at once.

Counted in instructions (:mod:`tvm_fusionx.schedules.windows.strip_kernel`): each product is one,
and so is a pair of loads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.windows.structure import Window

# Registers beside sums and weights: the data that is multiplied, and what LLVM loads early, more of
# it where a window moves by more columns. With fewer it spills: of the 32 of NEON, windows of 3 x 3
# leave 15 for sums at stride 1 (4 x 4 has 5 accesses of the stack), 9 at stride 2.
SPARE_REGISTERS = 2
SPARE_FOR_A_STEP = 6

# A load instruction fetches a pair of vectors.
LOADED_TOGETHER = 2

# Instructions of a tile for each row of the data and of the result: where it lies.
ADDRESS_INSTRUCTIONS = 1

# Of each sum beside its products: what follows, and half a store. It matters for what is computed
# twice alone.
SUM_INSTRUCTIONS = 3.5

# Taps of the largest window that is written out; tiles of larger ones would be long code, and gain
# little: their products are most of what they do.
MOST_TAPS = 49


@dataclass(frozen=True)
class StripTile:
    """Output rows and columns of a register tile."""

    rows: int
    columns: int


def strip_tiles(window: Window, cpu: Cpu) -> list[StripTile]:
    """Return the tiles that fit the registers of `cpu`, the best first; none where rows are apart.

    Parameters
    ----------
    window
        Of weights, that keeps channels apart.
    """
    if cpu.strip_rows < 1 or window.weights is None or math.prod(window.kernel) > MOST_TAPS:
        return []
    tiles = [
        StripTile(rows, columns)
        for rows in range(1, min(cpu.strip_rows, window.rows) + 1)
        for columns in range(1, window.columns + 1)
        if _registers(window, rows, columns) <= window.registers(cpu)
    ]
    return sorted(tiles, key=lambda tile: _instructions(window, tile))


def _registers(window: Window, rows: int, columns: int) -> int:
    """Return the registers of a tile; weights of a row serve until the last sums have them."""
    weight_rows = min(window.kernel[0], (rows - 1) * window.stride[0] + 1)
    spare = SPARE_REGISTERS + SPARE_FOR_A_STEP * window.stride[1]
    return rows * columns + weight_rows * window.kernel[1] + spare


def _instructions(window: Window, tile: StripTile) -> float:
    """Return what the whole picture takes in such tiles, for one chunk of channels."""
    whole, rest = divmod(window.rows, tile.rows)
    strips = whole * _tile(window, tile.rows, tile.columns)
    if rest:
        strips += _tile(window, rest, tile.columns)
    return strips * math.ceil(window.columns / tile.columns)


def _tile(window: Window, rows: int, columns: int) -> float:
    taps, rows_read = math.prod(window.kernel), window.rows_read(rows)
    vectors = rows_read * window.columns_read(columns) + taps
    addresses = ADDRESS_INSTRUCTIONS * (rows_read + rows)
    return rows * columns * (taps + SUM_INSTRUCTIONS) + vectors / LOADED_TOGETHER + addresses
