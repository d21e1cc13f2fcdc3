"""Register tiles whose multiply-adds take the shared operand from lanes of a vector.

While as many terms are added as a vector has lanes, a tile holds a vector of shared elements for
each of its rows, and weights of one term. A few registers stay free, for loads that LLVM puts
early: it spills sums else. Of the 32 registers of NEON, tiles of 9 x 2, 6 x 3, 5 x 4 and 14 x 1
leave them free; 7 x 3 and 10 x 2 do not where LLVM orders for a core that waits for its loads.

Where the shared elements of all rows lie side by side, term after term, a vector holds those of as
many rows as it has lanes, of one term. That takes a quarter of the registers, and leaves room for
more sums: 8 x 3 and 12 x 2.
"""

from __future__ import annotations

import math

from tvm_fusionx.processors.cpu import Cpu

# Instructions of a turn of the loop over terms beside multiply-adds and loads: two addresses, a
# comparison and a jump.
TURN_INSTRUCTIONS = 4

# Registers that a tile leaves free. With one, 7 x 3 has 3 to 27 instructions of a turn on the stack
# (LLVM's order for no core, and for Cortex-A55); with two, none (Cortex-A76's order, A55's, no
# core's).
FREE_REGISTERS = 2

# Of sums of halves. A half is multiplied by a lane of the first sixteen registers alone (Arm ARM,
# C7.2, FMLA (by element)), and eight terms follow one another: with 3 x 6 and 2 x 9 an instruction
# in nine or eight is on the stack, where the sums of float32 are, with 3 x 5 and 2 x 8 one in
# fourteen; 96 channels to 576, 14 x 14 pixels, take 2.19, 2.20, 2.15 and 2.05 million instructions.
FREE_REGISTERS_OF_HALVES = 6
LANES_OF_HALVES = 8

# Vectors of shared elements that follow one another without a jump, where registers are free to
# load the second one early. With three free, 9 x 2 and 5 x 4 have 2 instructions on the stack; with
# five, 6 x 3 has none.
VECTORS_OF_A_TURN = 2
FREE_REGISTERS_OF_A_LONG_TURN = 5


# Terms that a tile of rows side by side adds without a jump.
TERMS_OF_ROWS = 8

# Of vectors that lie side by side three or four are loaded by one instruction, and two turns of
# four terms are one (`late_passes/load_together.py`); in it the second shared vectors have an
# address of their own, which is copied.
MOST_TOGETHER, FEWEST_TOGETHER = 4, 3
TURNS_TOGETHER = 2

# Columns below which it does not pay to lay rows side by side: an element takes 1.2 instructions to
# 2.5, and saves a twelfth of one for each multiply-add, which has a vector of columns. At 1.2 the
# balance is at 58.
LEAST_COLUMNS_OF_ROWS = 96


def pays_to_lay_rows(rows: int, columns: int, cpu: Cpu) -> bool:
    """Tell whether a product of so many rows and columns gains by rows that lie side by side."""
    is_wide = rows >= cpu.lanes and columns >= LEAST_COLUMNS_OF_ROWS
    return cpu.multiplies_by_lane and is_wide


def lays_rows(rows: int, vectors: int, cpu: Cpu) -> bool:
    """Tell whether a tile is better with its rows side by side, where they can be laid so."""
    if rows % cpu.lanes or not _fits_by_rows(rows, vectors, cpu):
        return False
    if not fits(rows, vectors, cpu):
        return True
    terms = turn_terms(rows, vectors, cpu)
    return cost_by_rows(rows, vectors, cpu) < cost(rows, vectors, cpu, terms)


def tallest_by_rows(vectors: int, cpu: Cpu) -> int:
    """Return the most rows of a tile whose rows lie side by side; 0 where none fits."""
    heights = range(cpu.lanes, cpu.registers, cpu.lanes)
    return max((rows for rows in heights if _fits_by_rows(rows, vectors, cpu)), default=0)


def _fits_by_rows(rows: int, vectors: int, cpu: Cpu) -> bool:
    held = rows * vectors + rows // cpu.lanes + vectors
    return cpu.registers - held >= FREE_REGISTERS


def cost_by_rows(rows: int, vectors: int, cpu: Cpu) -> float:
    """Return what a multiply-add takes, as `cost`, in a tile whose rows lie side by side."""
    sums = rows * vectors
    loads = (rows // cpu.lanes + vectors) * TERMS_OF_ROWS
    waiting = max(1.0, cpu.sums_to_hide_latency / sums)
    return waiting * (1 + (loads + TURN_INSTRUCTIONS) / (sums * TERMS_OF_ROWS))


def loads_together(cpu: Cpu) -> bool:
    """Tell whether several vectors of float32 are loaded by one instruction."""
    return cpu.loads_several and cpu.lanes != LANES_OF_HALVES


def fits_together(rows: int, vectors: int, cpu: Cpu) -> bool:
    """Tell whether a tile whose operands are loaded several at once has room for the next weights.

    A core that runs in order would wait for them.
    """
    weights = vectors if vectors >= FEWEST_TOGETHER else MOST_TOGETHER
    return rows * vectors + rows + 2 * weights <= cpu.registers


def cost_together(rows: int, vectors: int, cpu: Cpu) -> float:
    """Return what a multiply-add takes, as `cost`, of a tile that loads several vectors at once."""
    sums, terms = rows * vectors, TURNS_TOGETHER * cpu.lanes
    is_round = vectors >= FEWEST_TOGETHER
    weights = math.ceil((vectors if is_round else vectors * terms) / MOST_TOGETHER)
    loads = weights * (terms if is_round else 1) + TURNS_TOGETHER * math.ceil(rows / MOST_TOGETHER)
    waiting = max(1.0, cpu.sums_to_hide_latency / sums)
    return waiting * (1 + (loads + TURN_INSTRUCTIONS + TURNS_TOGETHER) / (sums * terms))


def free_registers(rows: int, vectors: int, cpu: Cpu) -> int:
    """Return the registers that a tile leaves: it holds sums, shared elements and weights."""
    return cpu.registers - rows * vectors - rows - vectors


def fits(rows: int, vectors: int, cpu: Cpu) -> bool:
    """Tell whether LLVM spills nothing of a tile."""
    return free_registers(rows, vectors, cpu) >= _left_free(cpu)


def _left_free(cpu: Cpu) -> int:
    """Return the registers that a tile leaves free; of a core of halves alone lanes are so many."""
    return FREE_REGISTERS_OF_HALVES if cpu.lanes == LANES_OF_HALVES else FREE_REGISTERS


def most_rows(vectors: int, cpu: Cpu) -> int:
    """Return the most rows of a tile of so many vectors that stays in the registers."""
    return max(1, (cpu.registers - _left_free(cpu) - vectors) // (vectors + 1))


def turn_terms(rows: int, vectors: int, cpu: Cpu) -> int:
    """Return the terms that a tile adds without a jump, where a loop has enough of them."""
    is_room = free_registers(rows, vectors, cpu) >= FREE_REGISTERS_OF_A_LONG_TURN
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
