"""Register tiles whose multiply-adds take the shared operand from lanes of a vector.

While as many terms are added as a vector has lanes, a tile holds a vector of shared elements for
each of its rows, and weights of one term. Where sums and these fit, LLVM spills none. Of the 32
registers of NEON, tiles of 7 x 3, 10 x 2, 5 x 4 and 14 x 1 fit, 6 x 4 and 8 x 3 do not.
"""

from __future__ import annotations

import math

from tvm_fusionx.processors.cpu import Cpu

# Instructions of a turn of the loop over terms beside multiply-adds and loads: two addresses, a
# comparison and a jump.
TURN_INSTRUCTIONS = 4

# Vectors of shared elements that follow one another without a jump, where a register is free to
# load the next one early. 16 terms of a tile of 10 x 2 have 39 instructions on the stack.
VECTORS_OF_A_TURN = 2


def registers_held(rows: int, vectors: int) -> int:
    """Return the registers of a tile: sums, shared elements, weights."""
    return rows * vectors + rows + vectors


def most_rows(vectors: int, cpu: Cpu) -> int:
    """Return the most rows of a tile of so many vectors that stays in the registers."""
    return max(1, (cpu.registers - vectors) // (vectors + 1))


def turn_terms(rows: int, vectors: int, cpu: Cpu) -> int:
    """Return the terms that a tile adds without a jump, where a loop has enough of them."""
    is_room = registers_held(rows, vectors) < cpu.registers
    return cpu.lanes * (VECTORS_OF_A_TURN if is_room else 1)


def cost(rows: int, vectors: int, cpu: Cpu, terms: int) -> float:
    """Return what a multiply-add of a tile takes, in units of the ideal: one instruction.

    Parameters
    ----------
    rows, vectors
        Of the tile.
    terms
        Those between two jumps.
    """
    sums = rows * vectors
    loads = rows * math.ceil(terms / cpu.lanes) + vectors * terms
    waiting = max(1.0, cpu.sums_to_hide_latency / sums)
    return waiting * (1 + (loads + TURN_INSTRUCTIONS) / (sums * terms))
