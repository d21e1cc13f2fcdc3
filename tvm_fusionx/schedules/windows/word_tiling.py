"""Register tiles of windows that sum dot products of bytes, a word of a pixel from a lane.

Four neighbouring pixels lie in one register (:mod:`tvm_fusionx.late_passes.index_words`), so a tile
holds a few registers of data, not one for each pixel, and has more sums. What follows the sums is
most of a tile of few terms: bytes of four pixels are narrowed together, of fewer at the same cost.

Where products are added in 16 bits, a word is two pairs of bytes: each is copied from its lane to a
register, once for all channels of the tile, and products have registers of their own before they
join the sums.
"""

from __future__ import annotations

import math

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.lane_tiles import FREE_REGISTERS, TURN_INSTRUCTIONS
from tvm_fusionx.schedules.parts.pair_tiles import (
    PAIR_REGISTERS,
    pairs_of_word,
    word_instructions,
)
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.schedules.windows.tiling import MAX_TILE_CHUNKS, ChunkTile
from tvm_fusionx.tir.numbers import divisors

# Steps of a window along its rows: a vector holds the words of four pixels, or of two.
STEPS = (1, 2)

# Steps of a sum that LLVM writes out, with what follows it: it loads the operands of the next step
# before a sum is done. 3 x 8 sums of four steps have 38 of 296 instructions on the stack then.
WRITTEN_OUT = 9

# Input chunks of a pixel between two jumps, where a window is one pixel.
STEPS_OF_A_TURN = 2

# Instructions of a vector of sums beside its dot products: it is copied from a register, becomes
# floats, is scaled and rounded.
SUM_INSTRUCTIONS = 4
# Of the vectors that are narrowed to bytes together: two and two to words, words to bytes, a store.
NARROWING_INSTRUCTIONS = 7
# Of a chunk of a tile, what its sums begin with and are scaled by; and of a tile, its addresses.
CHUNK_INSTRUCTIONS = 2
TILE_INSTRUCTIONS = 8


def takes_words(window: Window, cpu: Cpu) -> bool:
    """Tell whether the words of neighbouring pixels of a window's data lie side by side."""
    return (
        cpu.takes_words_by_lane
        and window.stage.sums_integers
        and window.block_in == pairs_of_word(cpu)
        and window.block_out == cpu.lanes
        and window.stride[1] in STEPS
        and _words_of(window, window.columns) >= cpu.lanes
    )


def word_tiles(window: Window, cpu: Cpu) -> list[ChunkTile]:
    """Return the tiles that fit the registers of `cpu`, the best first."""
    tiles = [
        ChunkTile(chunks, columns)
        for chunks in divisors(window.out_blocks)
        if chunks <= MAX_TILE_CHUNKS
        for columns in range(1, min(window.columns, cpu.registers) + 1)
        if _words_of(window, columns) >= cpu.lanes
        if registers_of(ChunkTile(chunks, columns), window, cpu) <= cpu.registers
    ]
    return sorted(tiles, key=lambda tile: row_cost(tile, window, cpu))


def registers_of(tile: ChunkTile, window: Window, cpu: Cpu) -> int:
    """Return the registers of a tile: sums, pixels, weights, and some that LLVM loads early."""
    weights = tile.chunks * pairs_of_word(cpu)
    operands = _data_vectors(tile, window, cpu) + weights
    early = operands if steps_of(window, cpu) <= WRITTEN_OUT else 0
    products = PAIR_REGISTERS if cpu.adds_in_words else FREE_REGISTERS
    return tile.sums + operands + early + products


def steps_of(window: Window, cpu: Cpu) -> int:
    """Return the words of a sum."""
    return window.in_channels // pairs_of_word(cpu) * math.prod(window.kernel)


def turn_steps(tile: ChunkTile, window: Window, cpu: Cpu) -> int:
    """Return how many input chunks of a pixel follow one another without a jump, in such a tile.

    Their weights lie side by side and load in pairs, where registers hold them.
    """
    operands = _data_vectors(tile, window, cpu) + tile.chunks
    is_room = tile.sums + STEPS_OF_A_TURN * operands < cpu.registers
    is_long = window.kernel == (1, 1) and window.in_channels % STEPS_OF_A_TURN == 0
    if cpu.adds_in_words:
        return 1
    return STEPS_OF_A_TURN if is_room and is_long else 1


def _words_of(window: Window, columns: int) -> int:
    """Return the words from the first that a tap of `columns` pixels reads to the last."""
    return (columns - 1) * window.stride[1] + 1


def _data_vectors(tile: ChunkTile, window: Window, cpu: Cpu) -> int:
    return math.ceil(_words_of(window, tile.columns) / cpu.lanes)


def row_cost(tile: ChunkTile, window: Window, cpu: Cpu) -> float:
    """Return the instructions of a row of the result, all of its channels; a core may wait."""
    steps = steps_of(window, cpu)
    turn = turn_steps(tile, window, cpu)
    loads = _data_vectors(tile, window, cpu) + tile.chunks / turn
    waiting = max(1.0, cpu.sums_to_hide_latency / tile.sums)
    jumps = turn * math.prod(window.kernel)
    products = (
        waiting * (word_instructions(tile.sums, tile.columns, cpu) + loads)
        + TURN_INSTRUCTIONS / jumps
    )
    after = tile.sums * SUM_INSTRUCTIONS + tile.chunks * (
        CHUNK_INSTRUCTIONS + math.ceil(tile.columns / cpu.lanes) * NARROWING_INSTRUCTIONS
    )
    tiles = math.ceil(window.columns / tile.columns) * (window.out_blocks // tile.chunks)
    return tiles * (steps * products + after + TILE_INSTRUCTIONS)
