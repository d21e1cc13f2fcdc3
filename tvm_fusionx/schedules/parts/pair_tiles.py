"""Register tiles of dot products whose products are added in 16 bits before they join their sums.

Eight products of bytes are one instruction (NEON's ``smull`` and ``smlal``), a pair of bytes for
each of four sums. Of the side that is shared a pair is copied from its lane to a register, which
serves all vectors of the tile; the products of two pairs wait in a register of their own until
their neighbours are added to the sums.
"""

from __future__ import annotations

import math

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.integers import WORD_BYTES

# Pairs copied from lanes, products that wait, and what LLVM adds. With 5, a tile of a first
# layer, 3 channels to 64 by 7 x 7, had 14 copies of registers and 5 accesses of the stack among 90
# instructions (ordered for a Cortex-A72); with 7 it has 1 and none of 59.
PAIR_REGISTERS = 7

# Pairs of a row of matrices that follow one another without a jump: a register of them.
PAIRS_OF_A_TURN = 8


def pairs_of_word(cpu: Cpu) -> int:
    """Return the dot products that a word of four bytes is; one, where it is not cut."""
    return WORD_BYTES // cpu.dot.depth if cpu.dot is not None and cpu.adds_in_words else 1


def word_instructions(sums: int, shared: int, cpu: Cpu) -> float:
    """Return the instructions that multiply a word of each shared element of a tile.

    Parameters
    ----------
    sums
        Vectors of sums of the tile.
    shared
        Elements whose bytes are shared by vectors: rows or pixels.
    """
    dot = cpu.dot
    if dot is None or not cpu.adds_in_words:
        return sums
    return pairs_of_word(cpu) * (sums * (1 + 1 / dot.together) + shared)


def fits(rows: int, vectors: int, cpu: Cpu) -> bool:
    """Tell whether a tile of matrices stays in registers, a register of pairs for each row."""
    held = rows * vectors + rows + pairs_of_word(cpu) * vectors
    return held + PAIR_REGISTERS <= cpu.registers


def rows_of_pairs(rows: int, vectors: int, cpu: Cpu) -> int:
    """Return the height of the tiles of a matrix of `rows` that takes fewest instructions."""
    fitting = [each for each in range(1, rows + 1) if fits(each, vectors, cpu)] or [1]

    def instructions(height: int) -> float:
        tile = word_instructions(height * vectors, height, cpu) + pairs_of_word(cpu) * vectors
        return math.ceil(rows / height) * tile

    return min(fitting, key=lambda height: (instructions(height), -height))
