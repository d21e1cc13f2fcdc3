"""The tiles of sums that a kernel holds at the same time, and what one such block takes."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.integers import WORD_BYTES, ByteTiles
from tvm_fusionx.schedules.byte_tiles.shape import ProductShape

# Registers of tiles.
REGISTERS = 8

# Tiles side by side at most: more would leave room for one below the other.
MOST_ACROSS = 2

# Part of the first-level cache for the weights of a block; the data passes through the rest.
L1_PART_OF_WEIGHTS = 2

# Bytes of tiles of weights that come from the second-level cache in a cycle. On Emerald Rapids a
# window of 3 x 3 over 14 x 14 x 256 that reads 2 KiB for four products of 14 rows takes 94 us of a
# core, 17 bytes a cycle, where its products alone would take 37.
L2_BYTES_A_CYCLE = 16


@dataclass(frozen=True)
class BlockOfTiles:
    """The tiles that are summed at the same time."""

    rows: int
    """Places of a tile."""
    apart: int
    """Places from one tile of a row to the next: fewer than it has where two of them overlap."""
    pieces: int
    """Tiles of a row of places."""
    lines: int
    """Rows of places."""
    across: int
    """Tiles of sums side by side: as many of weights."""
    pitch: int = 0
    """Where tiles cover all rows of a task as one, with what lies between them and is not stored,
    places from a row to the next; else 0."""

    @property
    def down(self) -> int:
        """Tiles of sums one below the other: as many of data."""
        return self.pieces if self.pitch else self.pieces * self.lines

    @property
    def columns(self) -> int:
        """Columns of places of a block, where tiles are of one row."""
        return self.apart * (self.pieces - 1) + self.rows

    @property
    def data_registers(self) -> int:
        """Registers that tiles of data take turns in."""
        return min(self.down, REGISTERS - (self.down + 1) * self.across)

    def number(self, rows: int, columns: int) -> int:
        """Return how many blocks cover so many rows and columns of places."""
        if self.pitch:
            return math.ceil(rows / self.lines)
        return math.ceil(rows / self.lines) * math.ceil(columns / self.columns)


def _fits(block: BlockOfTiles) -> bool:
    return (block.down + 1) * block.across < REGISTERS


def blocks(
    rows: int, columns: int, shape: ProductShape, tiles: ByteTiles
) -> Iterator[BlockOfTiles]:
    """Yield the blocks of so many rows and columns of places that the registers hold."""
    for across in range(1, min(MOST_ACROSS, shape.outputs // tiles.columns) + 1):
        most = REGISTERS // across
        for pieces in range(1, min(most, math.ceil(columns / tiles.rows)) + 1):
            groups = math.ceil(columns / (pieces * tiles.rows))
            places = math.ceil(columns / groups / pieces)
            # An odd number that one block holds: its tiles overlap by a place.
            room = columns - places
            apart = min(places, room // (pieces - 1)) if pieces > 1 else places
            if apart * (pieces - 1) + places < math.ceil(columns / groups):
                continue
            for lines in range(1, min(most, rows) + 1):
                block = BlockOfTiles(places, apart, pieces, lines, across)
                if _fits(block):
                    yield block
    if rows > 1 and shape.gathers and shape.stride[0] == shape.stride[1]:
        # The rows that were gathered lie one behind the other.
        pitch = shape.columns_read(columns)
        number = math.ceil(((rows - 1) * pitch + columns) / tiles.rows)
        block = BlockOfTiles(tiles.rows, tiles.rows, number, rows, 1, pitch)
        if _fits(block):
            yield block


def block_cycles(
    block: BlockOfTiles, rows: int, columns: int, shape: ProductShape, cpu: Cpu
) -> float:
    """Return the estimated cycles of the sums of so many places and all channels of the result.

    A product of tiles takes a row of data a cycle, or waits for the last one of its sums, for the
    rows of its operands, or for weights that the first-level cache does not hold.
    """
    tiles = cpu.tiles
    assert tiles is not None
    step, steps = shape.step_bytes(tiles), shape.products(tiles)
    loaded = block.down * block.rows + block.across * step // WORD_BYTES
    weights = block.across * step * tiles.columns
    summed = max(block.down * block.across * block.rows, tiles.latency)
    each = max(summed, loaded / tiles.lines_a_cycle)
    if steps * weights > cpu.l1_bytes // L1_PART_OF_WEIGHTS:
        each = max(each, weights / L2_BYTES_A_CYCLE)
    stored = block.down * block.across * (tiles.store_cycles + block.rows / cpu.multiply_adds)
    across = math.ceil(shape.outputs / tiles.columns / block.across)
    return across * block.number(rows, columns) * (steps * each + stored)


@functools.lru_cache(maxsize=4096)
def best_block(rows: int, columns: int, shape: ProductShape, cpu: Cpu) -> BlockOfTiles:
    """Return the block for so many rows and columns of places of a task that takes least."""
    assert cpu.tiles is not None
    return min(
        blocks(rows, columns, shape, cpu.tiles),
        key=lambda block: (block_cycles(block, rows, columns, shape, cpu), -block.across),
    )
