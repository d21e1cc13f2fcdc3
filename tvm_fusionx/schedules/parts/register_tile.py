"""The register tile of a dot product: how many rows and columns one thread accumulates at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts import lane_tiles

# Registers that a tile leaves free: one for the broadcast input, one for what LLVM adds.
SPARE_REGISTERS = 2

# Lanes of the multiply-adds that the models of windows count, whatever the vectors: a chunk of 16
# channels counts as two. So wide are the units of Zen 4, on which the models' costs were measured.
COUNTED_LANES = 8

# Column vectors of a tile, best first, of those that leave room for the weights and the broadcast
# element. Three measured fastest on 16 registers (4 x 24 floats), and on 32 where two multiply-adds
# begin in a cycle (8 x 48): they load less for each than two do, 6 % of the time on Sapphire
# Rapids. Zen 4 begins one beside two loads, which are loads to spare, and two vectors (8 x 32) were
# fastest.
VECTORS_WITH_FEW_REGISTERS = (3, 2, 1)
VECTORS_WITH_MANY_REGISTERS = (3, 2, 4, 1)
VECTORS_WITH_LOADS_TO_SPARE = (2, 4, 3, 1)
LOADS_TO_SPARE = 2
# Tiles of 32 registers whose shared operand is taken from lanes (`lane_tiles.py`).
VECTORS_BY_LANE = (2, 3, 4, 5, 1)
FEW_REGISTERS = 16

# Terms of a sum that are added without a jump between them. Where registers are few nothing is
# gained; eight terms were not tried.
STEPS_WITH_MANY_REGISTERS = 4

# With fewer rows than this, more columns at once hide the latency of the accumulation: four sums
# take weights as fast as the second-level cache gives them. Eight vectors a row were slower.
FEW_ROWS = 4
VECTORS_WITH_FEW_ROWS = (4, 5, 6, 3, 2, 1)
SUMS_TO_STREAM = 4

# Rows beyond which a taller tile no longer helps: each loaded weight is then used 8 times.
MAX_ROWS = 8

# Below so many sums, multiply-adds still wait for each other now and then: what each one that is
# lacking costs. Pointwise layers of 14x14 pixels took 122 us in tiles of 12 sums, 130 in ones of 8.
SUMS_TO_WAIT_NEVER = 12
LACKING_SUM_COST = 0.02

# Costs that differ by less are not told apart: the better of the measured ones is taken. At 197
# rows, three vectors waste 1 % more than two, and take 0.98 of the time before a GELU.
ABOUT_LEAST = 1.015

# Two panels, the one that is multiplied and the one that is fetched meanwhile, as a share of the
# second-level cache; and what a multiply-add takes there whose next cache is a mesh away. Sums of
# 3,072 terms on Sapphire Rapids: 317 GFLOP/s in panels of three vectors, 334 in ones of two; of
# 5,632 terms: 221, 279, and 294 in ones of one.
ALL_OF_L2 = 1.0
FAR_COSTS = ((0.5, 1.0), (ALL_OF_L2, 1.08), (math.inf, 1.4))

# Beyond, sums are cut into parts whose panels take less of that cache, for rows and sums stay there
# as well. Times as fast as whole sums, in turns: 5,632 terms in parts of 1,408 1.17, of 704 1.25;
# 8,192 in parts of 2,048 1.44, of 1,024 1.53; 12,544 in parts of 1,792 2.57, of 896 2.67.
# Parts of fewer terms than these were not tried as defaults: each reads and writes all sums once.
SHARE_OF_A_PART = 0.2
LEAST_TERMS_OF_A_PART = 256

# A row count that divides the matrix is preferred while it keeps this share of the tallest tile.
MIN_ROWS_SHARE = 0.6


@dataclass(frozen=True)
class RegisterTile:
    """Rows and column vectors accumulated in registers."""

    rows: int
    vectors: int


def waiting_cost(sums: int) -> float:
    """Return what a multiply-add into one of so many sums takes, in units of the ideal."""
    return 1 + LACKING_SUM_COST * max(0, SUMS_TO_WAIT_NEVER - sums)


def panel_vectors(
    columns: int, cpu: Cpu, rows: int = MAX_ROWS, terms: int = 1, *, can_lay_rows: bool = False
) -> int:
    """Return the vectors of a panel for a matrix of `columns` that takes the least time.

    Each is a sum of `terms`; rows may lie side by side where they `can_lay_rows`.

    Padding is work, and so is waiting: GPT-2's 50,257 columns pad to 50,264 in panels of one vector
    and to 50,280 in panels of three, and take 73.7 ms in the one and 58.4 in the other.
    """
    if rows < FEW_ROWS:
        choices: tuple[int, ...] = VECTORS_WITH_FEW_ROWS
    elif cpu.multiplies_by_lane:
        choices = VECTORS_BY_LANE
    elif cpu.registers <= FEW_REGISTERS:
        choices = VECTORS_WITH_FEW_REGISTERS
    elif cpu.loads_a_cycle >= LOADS_TO_SPARE * cpu.multiply_adds:
        choices = VECTORS_WITH_LOADS_TO_SPARE
    else:
        choices = VECTORS_WITH_MANY_REGISTERS

    terms //= sum_parts(rows, terms, cpu)

    def cost(vectors: int) -> float:
        padded = columns + -columns % (vectors * cpu.lanes)
        if rows >= FEW_ROWS:
            height = tile_rows(rows, vectors, cpu, can_lay_rows=can_lay_rows)
            each = _tile_cost(rows, height, vectors, cpu, can_lay_rows=can_lay_rows)
            return padded * each * _far_cost(vectors, terms, cpu)
        passes = math.ceil(rows / max_rows(vectors, cpu))
        return padded * passes * max(1.0, SUMS_TO_STREAM / (rows * vectors))

    costs = {vectors: cost(vectors) for vectors in choices}
    about = 1.0 if cpu.multiplies_by_lane and rows >= FEW_ROWS else ABOUT_LEAST
    return next(each for each in choices if costs[each] <= about * min(costs.values()))


def _tile_cost(
    rows: int, height: int, vectors: int, cpu: Cpu, *, can_lay_rows: bool = False
) -> float:
    """Return what a multiply-add of `rows` rows takes in such tiles, in units of the ideal."""
    sums = height * vectors
    waste = math.ceil(rows / height) * height / rows
    if can_lay_rows and lane_tiles.lays_rows(height, vectors, cpu):
        return waste * lane_tiles.cost_by_rows(height, vectors, cpu)
    if cpu.multiplies_by_lane:
        terms = lane_tiles.turn_terms(height, vectors, cpu)
        return waste * lane_tiles.cost(height, vectors, cpu, terms)
    return waste * max(1.0, (height + vectors) / sums) * waiting_cost(sums)


def _far_cost(vectors: int, terms: int, cpu: Cpu) -> float:
    """Return what a multiply-add takes whose weights leave the second-level cache too early."""
    if not cpu.exchanges_slowly:
        return 1.0
    share = _share_of_panels(vectors, terms, cpu)
    return next(cost for most, cost in FAR_COSTS if share <= most)


def _share_of_panels(vectors: int, terms: int, cpu: Cpu) -> float:
    """Return the share of the second-level cache that two panels of weights take."""
    return 2 * vectors * cpu.lanes * terms * FLOAT_BYTES / cpu.l2_bytes


def sum_parts(rows: int, terms: int, cpu: Cpu) -> int:
    """Return into how many parts the sums of a product are cut, whose panels fit the cache.

    Parameters
    ----------
    rows
        Of the product's result.
    terms
        Of each sum.
    """
    widest = VECTORS_WITH_MANY_REGISTERS[0]
    fit_whole = _share_of_panels(widest, terms, cpu) <= ALL_OF_L2
    if rows < FEW_ROWS or fit_whole or not cpu.exchanges_slowly:
        return 1
    fitting = (
        parts
        for parts in choices_of_parts(terms)
        if _share_of_panels(widest, terms // parts, cpu) <= SHARE_OF_A_PART
    )
    return next(fitting, 1)


def choices_of_parts(terms: int) -> list[int]:
    """Return into how many equal parts a sum of `terms` can be cut."""
    return [
        parts for parts in range(1, terms // LEAST_TERMS_OF_A_PART + 1) if terms % parts == 0
    ] or [1]


def tile_steps(rows: int, vectors: int, cpu: Cpu, *, lays_rows: bool = False) -> int:
    """Return how many terms of a sum follow one another without a jump, in such a tile."""
    if lays_rows:
        return lane_tiles.TERMS_OF_ROWS
    if cpu.multiplies_by_lane:
        return lane_tiles.turn_terms(rows, vectors, cpu)
    return 1 if cpu.registers <= FEW_REGISTERS else STEPS_WITH_MANY_REGISTERS


def panel_width(
    columns: int, rows: int, cpu: Cpu, terms: int = 1, *, can_lay_rows: bool = False
) -> int:
    """Return the columns of a panel of packed weights.

    Parameters
    ----------
    columns, rows
        Shape of the product's result.
    terms
        Of the sum that each of its elements is, as many as take the bytes of so many floats.
    can_lay_rows
        Whether the rows of a tile can lie side by side, term after term.
    """
    vectors = panel_vectors(columns, cpu, rows, terms, can_lay_rows=can_lay_rows)
    return vectors * cpu.lanes


def max_rows(vectors: int, cpu: Cpu, *, can_lay_rows: bool = False) -> int:
    """Return the most rows whose accumulators leave room for a row of weights and the shared."""
    if cpu.multiplies_by_lane:
        tallest = lane_tiles.tallest_by_rows(vectors, cpu) if can_lay_rows else 0
        return max(tallest, lane_tiles.most_rows(vectors, cpu))
    return max(1, min(MAX_ROWS, (cpu.registers - vectors - 1) // vectors))


def tile_rows(rows: int, vectors: int, cpu: Cpu, *, can_lay_rows: bool = False) -> int:
    """Return the tile height for a matrix of `rows`: a divisor if a good one exists."""
    most = max_rows(vectors, cpu)
    if cpu.multiplies_by_lane:
        return _height_by_lane(rows, vectors, cpu, can_lay_rows)
    if rows <= most:
        return max(1, rows)
    divisors = [height for height in range(most, 0, -1) if rows % height == 0]
    if divisors[0] >= MIN_ROWS_SHARE * most:
        return divisors[0]
    # No divisor: part of the last tile is wasted.
    heights = range(most, math.ceil(MIN_ROWS_SHARE * most) - 1, -1)
    return min(heights, key=lambda height: _tile_cost(rows, height, vectors, cpu))


def _height_by_lane(rows: int, vectors: int, cpu: Cpu, can_lay_rows: bool) -> int:
    """Return the tile height where multiply-adds take lanes."""
    most = lane_tiles.most_rows(vectors, cpu)
    heights = [*range(most, 0, -1)] if rows > most else [max(1, rows)]
    if can_lay_rows:
        tallest = min(rows, lane_tiles.tallest_by_rows(vectors, cpu))
        laid = range(cpu.lanes, tallest + 1, cpu.lanes)
        heights += [each for each in laid if lane_tiles.lays_rows(each, vectors, cpu)]
    return min(
        heights,
        key=lambda height: _tile_cost(rows, height, vectors, cpu, can_lay_rows=can_lay_rows),
    )


def tile_for(rows: int, columns: int, cpu: Cpu) -> RegisterTile:
    """Return the register tile for a matrix of `rows` x `columns`."""
    vectors = panel_vectors(columns, cpu, max(rows, FEW_ROWS))
    return RegisterTile(tile_rows(rows, vectors, cpu), vectors)
