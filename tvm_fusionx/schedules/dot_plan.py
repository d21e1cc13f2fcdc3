"""The sizes of a dot product, and of the tiles it is computed in."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.access import DotAxes, dot_axes
from tvm_fusionx.schedules.analysis import Stage
from tvm_fusionx.schedules.cpu import Cpu
from tvm_fusionx.schedules.register_tile import FEW_ROWS, panel_vectors, tile_rows
from tvm_fusionx.schedules.template import KnobValues, UnschedulableError

# Multiply-adds below which a dot product stays on one thread: about 5 us of work, what it costs to
# start the others.
MIN_PARALLEL_MACS = 131072


# Share of the cores' time that the chosen split of the work keeps busy, where possible.
MIN_BALANCE = 0.9


ROWS_KNOB = "tile_rows"


VECTORS_KNOB = "tile_vectors"


ROW_BLOCK_KNOB = "row_block"


MAX_VECTORS = 6


FLOAT_BYTES = 4


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
    packed_width: int | None
    cores: int

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

    n = size(axes.n)
    lanes = min(cpu.lanes, 1 << (n.bit_length() - 1))
    packed = _packed_width(axes.right)
    if packed is not None and packed % lanes == 0 and packed // lanes <= MAX_VECTORS:
        vectors = packed // lanes
    else:
        vectors = min(panel_vectors(n, cpu, max(FEW_ROWS, size(axes.m))), max(1, n // lanes))
    rows = tile_rows(size(axes.m), vectors, cpu)
    if values is not None:
        rows, vectors = values[ROWS_KNOB], values[VECTORS_KNOB]
    return DotPlan(
        axes,
        size(axes.batch),
        size(axes.m),
        n,
        size(axes.k),
        lanes,
        rows,
        vectors,
        packed,
        cpu.cores,
    )


def row_block_of(plan: DotPlan, cpu: Cpu) -> int:
    """Return the rows that are computed before what reduces them runs."""
    most = max(plan.rows, cpu.l2_bytes // 2 // (plan.n * FLOAT_BYTES))
    tiles = plan.m // plan.rows
    fitting = [
        count * plan.rows
        for count in range(1, tiles + 1)
        if plan.m % (count * plan.rows) == 0 and count * plan.rows <= most
    ]
    if not fitting:
        # No whole number of tiles: all rows together, if they fit, need no partial block.
        return plan.m if plan.m <= most else min(plan.rows, plan.m)
    if plan.n * plan.k * FLOAT_BYTES * 2 <= cpu.l2_bytes:
        # The right operand stays in the cache: rows may leave it early.
        return fitting[0]
    # It streams past: as many rows as possible for each pass over it, one block for each core.
    share = -(-plan.m * plan.batch // cpu.cores)
    return max((rows for rows in fitting if rows <= share), default=fitting[0])


def chunks_of(plan: DotPlan) -> int:
    """Return into how many parts the rows are cut so that every core has work."""
    tiles = -(-plan.m // plan.rows)
    panels = -(-plan.n // plan.width)
    best, best_balance = 1, 0.0
    for chunks in range(1, tiles + 1):
        if tiles % chunks:
            continue
        units = plan.batch * chunks * panels
        balance = units / (-(-units // plan.cores) * plan.cores)
        if balance > best_balance:
            best, best_balance = chunks, balance
        if best_balance >= MIN_BALANCE:
            break
    return best
