"""The register tile of a window whose instruction multiplies two pixels by two channels at once.

A sum's register has two channels of two pixels, so a chunk of channels is two registers of weights
for a group of terms, and two pixels are one register of data, which neighbours fill by one load.
"""

from __future__ import annotations

import math

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.matrix_tiles import (
    COLUMN_REGISTERS,
    FREE_REGISTERS,
    LOADS_OF_ROWS,
    PAIR,
    ROWS,
    TURN_INSTRUCTIONS,
)
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.schedules.windows.tiling import MAX_TILE_CHUNKS, ChunkTile
from tvm_fusionx.tir.numbers import divisors

# Groups of terms of a pixel between two jumps, where a window is one pixel.
GROUPS_OF_A_TURN = 2

# Instructions of a vector of sums beside its products: it is zero, exchanges halves, is finished
# and rounded.
SUM_INSTRUCTIONS = 6


def matrix_tiles(window: Window, cpu: Cpu) -> list[ChunkTile]:
    """Return the tiles that fit the registers of `cpu`, the best first."""
    tiles = [
        ChunkTile(chunks, columns)
        for chunks in divisors(window.out_blocks)
        if chunks <= MAX_TILE_CHUNKS
        for columns in range(1, min(window.columns, cpu.registers) + 1)
        if registers_of(ChunkTile(chunks, columns), window, cpu) <= cpu.registers
    ]
    return sorted(tiles, key=lambda tile: row_cost(tile, window, cpu)) or [ChunkTile(1, 1)]


def registers_of(tile: ChunkTile, window: Window, cpu: Cpu) -> int:
    """Return the registers of a tile: sums, pixels, weights, and some that LLVM loads early."""
    vectors = tile.chunks * _vectors_of_chunk(window, cpu)
    pairs = math.ceil(tile.columns / ROWS)
    return tile.columns * vectors + pairs + COLUMN_REGISTERS * vectors + FREE_REGISTERS


def turn_groups(window: Window) -> int:
    """Return how many groups of terms of a pixel follow one another without a jump."""
    is_long = window.kernel == (1, 1) and window.in_channels % GROUPS_OF_A_TURN == 0
    return GROUPS_OF_A_TURN if is_long and window.block_in == 1 else 1


def row_cost(tile: ChunkTile, window: Window, cpu: Cpu) -> float:
    """Return the instructions of a row of the result, all of its channels."""
    vectors = tile.chunks * _vectors_of_chunk(window, cpu)
    pairs = math.ceil(tile.columns / ROWS)
    loads = pairs / PAIR if window.stride[1] == 1 else pairs * LOADS_OF_ROWS
    jumps = TURN_INSTRUCTIONS / (turn_groups(window) * window.kernel[1])
    # Two registers of weights are one load; a pixel alone takes as much as two.
    group = pairs * COLUMN_REGISTERS * vectors + loads + vectors + jumps
    waiting = max(1.0, cpu.sums_to_hide_latency / (pairs * COLUMN_REGISTERS * vectors))
    groups = window.in_channels * math.prod(window.kernel)
    tiles = math.ceil(window.columns / tile.columns) * (window.out_blocks // tile.chunks)
    return tiles * (groups * waiting * group + tile.columns * vectors * SUM_INSTRUCTIONS)


def _vectors_of_chunk(window: Window, cpu: Cpu) -> int:
    return math.ceil(window.block_out / cpu.lanes)
