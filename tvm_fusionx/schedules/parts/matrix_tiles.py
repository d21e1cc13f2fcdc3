"""Register tiles of products whose instruction multiplies two rows by two columns at once.

A sum's register has two columns of two rows, so a vector of columns is two registers of weights,
and two rows are one register of data. While a tile is multiplied it holds its sums, its rows, and
the weights of one vector of columns.
"""

from __future__ import annotations

from tvm_fusionx.processors.cpu import Cpu

# Rows that one instruction multiplies.
ROWS = 2
# Registers of a vector of columns.
COLUMN_REGISTERS = 2
# Registers that a tile leaves free, for what LLVM loads early.
FREE_REGISTERS = 2
# Vectors of columns of a tile, at most.
MOST_VECTORS = 6
# Instructions of a turn of the loop over terms beside products and loads.
TURN_INSTRUCTIONS = 4
# Groups of terms that follow one another without a jump.
GROUPS_OF_A_TURN = 2
# Instructions that load two rows which lie apart, for one group of terms.
LOADS_OF_ROWS = 3
# Registers that one instruction loads.
PAIR = 2


def most_rows(vectors: int, cpu: Cpu) -> int:
    """Return the most rows of a tile of so many vectors of columns; a pair at least."""
    left = cpu.registers - FREE_REGISTERS - COLUMN_REGISTERS * vectors
    pairs = left // (ROWS * vectors + 1)
    return ROWS * max(1, pairs)


def rows_of(rows: int, vectors: int, cpu: Cpu) -> int:
    """Return the height of a tile for a matrix of `rows`: pairs, or the one row that there is."""
    if rows == 1:
        return 1
    heights = range(ROWS, min(most_rows(vectors, cpu), rows) + 1, ROWS)
    return min(heights, key=lambda height: (_cost(rows, height, vectors), -height))


def vectors_of(rows: int, columns: int, cpu: Cpu) -> int:
    """Return the vectors of a panel of weights, of which whole panels make up the columns.

    Parameters
    ----------
    rows, columns
        Of the product's result; a vector's lanes divide the columns.
    cpu
        What runs it.
    """
    vectors = columns // cpu.lanes
    choices = [each for each in range(1, MOST_VECTORS + 1) if vectors % each == 0]
    return min(choices, key=lambda each: (_cost(rows, rows_of(rows, each, cpu), each), each))


def _cost(rows: int, height: int, vectors: int) -> float:
    """Return what a product of two rows and two columns takes, in instructions.

    Rows that a last tile computes twice are work, too; a row alone takes as much as two.
    """
    pairs = -(-height // ROWS)
    products = pairs * COLUMN_REGISTERS * vectors
    # Two registers are one load; rows that lie apart are two.
    loads = (pairs / PAIR if rows % height == 0 else pairs * LOADS_OF_ROWS) + vectors
    each = 1 + (loads + TURN_INSTRUCTIONS / GROUPS_OF_A_TURN) / products
    return each * -(-rows // height) * pairs / rows
