"""The sizes of a dot product, and of the tiles it is computed in."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tvm import tir

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts import matrix_tiles
from tvm_fusionx.schedules.parts.lane_tiles import lays_rows, pays_to_lay_rows
from tvm_fusionx.schedules.parts.pair_tiles import PAIRS_OF_A_TURN, rows_of_pairs
from tvm_fusionx.schedules.parts.register_tile import (
    FEW_ROWS,
    choices_of_parts,
    panel_vectors,
    sum_parts,
    tile_rows,
    tile_steps,
)
from tvm_fusionx.schedules.template import KnobValues, UnschedulableError
from tvm_fusionx.tir.block import Stage
from tvm_fusionx.tir.index_maps import DotAxes, dot_axes

# Multiply-adds below which a dot product stays on one thread: about 5 us of work, what it costs to
# start the others.
MIN_PARALLEL_MACS = 131072


# Share of the cores' time that the chosen split of the work keeps busy, where possible.
MIN_BALANCE = 0.9


TILE_ROWS_KNOB = "tile_rows"


TILE_VECTORS_KNOB = "tile_vectors"


TILE_STEPS_KNOB = "tile_steps"


PARTS_KNOB = "sum_parts"


ROW_BLOCK_KNOB = "row_block"


# Value of the knob: the cores share the columns, and what reduces rows has a loop of its own.
COLUMNS_APART = 0


# Memory gives a quarter of what the last-level cache does (machine_rates.py: 110 GB/s and 29).
MEMORY_COST = 4


# Weights that are fetched ahead from the last-level cache: part of what they take unfetched. An
# estimate between none and all.
FETCHED_COST = 0.25


# What the cores read from the last-level cache in a microsecond (machine_rates.py: 110 GB/s). So
# much a second parallel loop costs for each microsecond of waking the threads, of which 0.9 is
# measured; the rest is the wait for the slower core, an estimate.
LOOP_BYTES_A_MICROSECOND = 110_000


MAX_VECTORS = 6


# Part of what a kernel may fill of the second-level cache: for rows that what reduces them finds
# there, and for weights that stay while rows pass. The other half is each time for the other.
HALF_OF_L2 = 2


@dataclass(frozen=True)
class DotPlan:
    """The sizes of one dot product and of the tile chosen for it."""

    axes: DotAxes
    batch: int
    m: int
    n: int
    k: int
    lanes: int
    rows: int
    vectors: int
    steps: int
    parts: int
    """Into how many the sums are cut, between which they are kept in memory."""
    part_choices: tuple[int, ...]
    """Into how many they can be cut: those of packed weights that no batch has."""
    packed_width: int | None
    cores: int
    lays_rows: bool = False
    """Whether the rows of a tile are laid side by side first, term after term."""
    chain: int = 0
    """Terms that are summed up in halves before float32 has them; 0 where float32 has all."""

    @property
    def width(self) -> int:
        """Columns of the tile."""
        return self.vectors * self.lanes

    @property
    def is_parallel(self) -> bool:
        """Whether the work pays for starting other threads."""
        return self.cores > 1 and self.batch * self.m * self.n * self.k >= MIN_PARALLEL_MACS


def _packed_width(load: Any) -> int | None:
    last = load.indices[-1]
    if isinstance(last, tir.FloorMod) and isinstance(last.b, tir.IntImm):
        return int(last.b)
    return None


def _by_matrices(axes: DotAxes) -> DotAxes:
    """Return `axes` with one axis of rows and one of columns, along which tiles run.

    Batches that share an operand (the keys of several heads, broadcast) number the rows or columns
    of the other one besides. These axes may be shorter than a tile; they stay batches.
    """
    shared = axes.m[:-1] + axes.n[:-1]
    return replace(axes, batch=tuple(sorted(axes.batch + shared)), m=axes.m[-1:], n=axes.n[-1:])


def plan_dot(stage: Stage, cpu: Cpu, values: KnobValues | None = None) -> DotPlan:
    """Return the sizes of a dot stage, and its tile: by default, or from the knobs' values.

    Raises
    ------
    UnschedulableError
        When the operands are not plain tensors.
    """
    axes = dot_axes(stage)
    if axes is None:
        raise UnschedulableError("the operands of the dot product are not plain tensors")
    axes = _by_matrices(axes)
    sizes = [it.extent for it in stage.iters]

    def size(positions: tuple[int, ...]) -> int:
        return math.prod(sizes[position] for position in positions)

    n, m = size(axes.n), size(axes.m)
    lanes = min(cpu.lanes, 1 << (n.bit_length() - 1))
    packed = _packed_width(axes.right)
    can_lay = _can_lay_rows(stage, axes) and pays_to_lay_rows(m, n, cpu)
    if packed is not None and packed % lanes == 0 and packed // lanes <= MAX_VECTORS:
        vectors = packed // lanes
    else:
        chosen = panel_vectors(n, cpu, max(FEW_ROWS, m), size(axes.k), can_lay_rows=can_lay)
        vectors = min(chosen, max(1, n // lanes))
    rows = tile_rows(m, vectors, cpu, can_lay_rows=can_lay)
    steps = tile_steps(rows, vectors, cpu, lays_rows=can_lay and lays_rows(rows, vectors, cpu))
    if stage.sums_integers and cpu.adds_in_words:
        rows, steps = rows_of_pairs(m, vectors, cpu), PAIRS_OF_A_TURN
    if stage.sums_matrices:
        rows, steps = matrix_tiles.rows_of(m, vectors, cpu), matrix_tiles.GROUPS_OF_A_TURN
    has_rows = size(axes.batch) == 1 and m >= FEW_ROWS
    can_part = packed is not None and has_rows and not stage.sums_integers
    choices = choices_of_parts(size(axes.k)) if can_part else [1]
    parts = sum_parts(m, size(axes.k), cpu) if can_part else 1
    if values is not None:
        rows, vectors = values[TILE_ROWS_KNOB], values[TILE_VECTORS_KNOB]
        steps = values[TILE_STEPS_KNOB]
        parts = values[PARTS_KNOB]
    return DotPlan(
        axes,
        size(axes.batch),
        m,
        n,
        size(axes.k),
        lanes,
        rows,
        vectors,
        steps,
        parts,
        tuple(choices),
        packed,
        cpu.cores,
        _lays_groups(stage, m, rows)
        if stage.sums_matrices
        else can_lay and parts == 1 and lays_rows(rows, vectors, cpu),
    )


def _lays_groups(stage: Stage, m: int, rows: int) -> bool:
    """Tell whether rows whose groups of terms an instruction multiplies are laid side by side."""
    return rows > 1 and m % rows == 0


def _can_lay_rows(stage: Stage, axes: DotAxes) -> bool:
    """Tell whether the left operand is floats of the sums' type in rows that no batch shares."""
    is_float = stage.writes[0].dtype == axes.left.dtype == "float32"
    return is_float and bool(axes.m) and not stage.sums_integers


def row_block_of(plan: DotPlan, cpu: Cpu) -> int:
    """Return the rows that are computed before what reduces them runs.

    :data:`COLUMNS_APART` where it costs less that the cores share the columns of the product: each
    then reads weights of its own, and reads them once. So too where sums are cut into parts, which
    end all at once.
    """
    if plan.parts > 1:
        return COLUMNS_APART
    rows = rows_together(plan, cpu)
    together = _bytes_read(plan, rows, cpu)
    together += _bytes_missed(plan, _balance(plan, plan.batch * -(-plan.m // rows)), cpu)
    chunks = chunks_of(plan, cpu)
    product = 2 * plan.batch * plan.m * plan.n * FLOAT_BYTES
    apart = _bytes_read(plan, -(-plan.m // chunks), cpu) + product
    apart += _bytes_missed(plan, _balance(plan, _tasks(plan, chunks)), cpu)
    apart += cpu.wake_up_us * LOOP_BYTES_A_MICROSECOND
    return COLUMNS_APART if apart < together else rows


def _bytes_read(plan: DotPlan, rows: int, cpu: Cpu) -> float:
    """Return what a product reads from beyond the second-level cache, `rows` rows after the other.

    In bytes of the last-level cache: weights come from memory the first time, for each of the cores
    that begin with them. Rows meet one panel of columns after the other, so what does not fit the
    cache is read again for each.
    """
    blocks = -(-plan.m // rows)
    cores = plan.cores if plan.is_parallel else 1
    readers = 1 if plan.batch >= cores else min(cores, blocks)
    again = 0 if _keeps_weights(plan, cpu) else blocks - readers
    weights = (MEMORY_COST * readers + again) * plan.n * plan.k
    missing = max(0.0, 1 - cpu.l2_bytes / (rows * plan.k * FLOAT_BYTES))
    passes = max(1.0, missing * -(-plan.n // plan.width))
    return plan.batch * FLOAT_BYTES * (weights + passes * plan.m * plan.k)


def _bytes_missed(plan: DotPlan, balance: float, cpu: Cpu) -> float:
    """Return what all cores would read from the last-level cache while some have no work left."""
    if not plan.is_parallel:
        return 0.0
    products = plan.batch * plan.m * plan.n * plan.k / (cpu.multiply_adds * cpu.lanes)
    return products * (1 / balance - 1) * cpu.llc_bytes_a_cycle


def rows_together(plan: DotPlan, cpu: Cpu) -> int:
    """Return the rows of a block of whole rows, which what reduces them finds in the cache."""
    most = max(plan.rows, cpu.l2_for_kernel_bytes // HALF_OF_L2 // (plan.n * FLOAT_BYTES))
    tiles = plan.m // plan.rows
    fitting = [
        count * plan.rows
        for count in range(1, tiles + 1)
        if plan.m % (count * plan.rows) == 0 and count * plan.rows <= most
    ]
    if not fitting:
        # No whole number of tiles: all rows together, if they fit, need no partial block.
        return plan.m if plan.m <= most else min(plan.rows, plan.m)
    if _keeps_weights(plan, cpu):
        # Rows may leave the cache early.
        return fitting[0]
    # It streams past: as many rows as possible for each pass over it, one block for each core.
    share = -(-plan.m * plan.batch // cpu.cores)
    return max((rows for rows in fitting if rows <= share), default=fitting[0])


def _keeps_weights(plan: DotPlan, cpu: Cpu) -> bool:
    """Tell whether the right operand stays in the second-level cache."""
    return plan.n * plan.k * FLOAT_BYTES * HALF_OF_L2 <= cpu.l2_for_kernel_bytes


def chunks_of(plan: DotPlan, cpu: Cpu) -> int:
    """Return into how many parts the rows are cut so that every core has work.

    Into the fewest; where cores exchange slowly what they wrote, into those of the least cost.
    """
    tiles = -(-plan.m // plan.rows)
    balances = {
        chunks: _balance(plan, _tasks(plan, chunks))
        for chunks in range(1, tiles + 1)
        if tiles % chunks == 0
    }
    enough = min(MIN_BALANCE, max(balances.values()))
    balanced = [chunks for chunks, balance in balances.items() if balance >= enough]
    if not cpu.exchanges_slowly or plan.batch > 1:
        return balanced[0]
    return min(balanced, key=lambda chunks: _core_bytes(plan, chunks, cpu))


def chunks_of_parts(plan: DotPlan, cpu: Cpu) -> tuple[int, int]:
    """Return into how many parts the rows and the panels are cut where sums are cut too.

    A part of the rows meets all panels of its group, in one part of the sums and then in the next:
    rows and sums stay in the second-level cache meanwhile. All cores have as many tasks, unless
    there are too few panels.
    """
    tiles, panels = -(-plan.m // plan.rows), -(-plan.n // plan.width)
    most = cpu.l2_for_kernel_bytes // FLOAT_BYTES
    tile = plan.rows * plan.k // plan.parts
    whole = [count for count in range(1, tiles + 1) if tiles % count == 0]
    chunks = next((count for count in whole if tiles // count * tile <= most), tiles)
    panel = tiles // chunks * plan.rows * plan.width
    even = [count for count in range(1, panels + 1) if chunks * count % plan.cores == 0]
    groups = next((count for count in even if -(-panels // count) * panel <= most), panels)
    return chunks, groups


def _tasks(plan: DotPlan, chunks: int) -> int:
    """Return the tasks of a product: so many `chunks` of rows, each with every panel of columns."""
    return plan.batch * chunks * -(-plan.n // plan.width)


def _balance(plan: DotPlan, tasks: int) -> float:
    """Return the share of the cores' time in which they have work."""
    return tasks / (-(-tasks // plan.cores) * plan.cores)


def _core_bytes(plan: DotPlan, chunks: int, cpu: Cpu) -> float:
    """Return what a core reads from beyond its second-level cache, in bytes of the last level.

    Rows in as many parts as cores, or more, were written by the core that reads them, and weights
    are read by each core, which fetches them ahead; in fewer parts, cores read each their own
    weights, and rows that another wrote. What the cache does not hold is read for each panel.
    """
    sharers = max(1, plan.cores // chunks)
    parts = max(1.0, chunks / plan.cores)
    rows, panels = plan.m / chunks, -(-plan.n // plan.width) / sharers
    weights = plan.n * plan.k * FLOAT_BYTES / sharers
    first = MEMORY_COST * sharers / plan.cores + FETCHED_COST * (1 - sharers / plan.cores)
    again = 0.0 if _keeps_weights(plan, cpu) else FETCHED_COST * (parts - 1)
    part = rows * plan.k * FLOAT_BYTES
    passes = panels if part > cpu.l2_for_kernel_bytes else 1
    foreign = MEMORY_COST * (1 - 1 / sharers)
    return weights * (first + again) + parts * part * (passes + foreign)
