"""How a product of bytes is cut into tiles, and what it costs beside the same on vectors."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.integers import WORD_BYTES
from tvm_fusionx.schedules.byte_tiles.blocks import best_block, block_cycles
from tvm_fusionx.schedules.byte_tiles.shape import ProductShape
from tvm_fusionx.schedules.parts.parallelism import TASK_CYCLES
from tvm_fusionx.schedules.parts.tasks import TASKS_A_CORE

# Share of the instructions on vectors that templates reach at best (`layout/integer_costs.py`).
EFFICIENCY = 0.95

# A load and a store for each vector that is gathered or taken out of a tile.
COPY = 2

# Part of what a kernel may fill of the second-level cache for the data of a task; weights and the
# result pass through the rest.
L2_PART_OF_DATA = 2

# Share of a task that a core, begun late, leaves the others to wait for.
LATE_SHARE = 1 / 4


@dataclass(frozen=True)
class TileTasks:
    """What one task computes of an image."""

    rows: int
    columns: int
    parts: int
    """Into how many the channels of the result are divided."""


@functools.lru_cache(maxsize=1024)
def tasks_of(shape: ProductShape, cpu: Cpu) -> TileTasks:
    """Return the tasks that take least: each a slab of places, and a part of the channels."""
    assert cpu.tiles is not None
    return min(
        _candidates(shape, cpu),
        key=lambda work: (_work_cycles(work, shape, cpu), work.parts, -work.rows),
    )


def _candidates(shape: ProductShape, cpu: Cpu) -> Iterator[TileTasks]:
    assert cpu.tiles is not None
    most = cpu.cores * TASKS_A_CORE if cpu.cores > 1 else 1
    across = math.ceil(shape.outputs / cpu.tiles.columns)
    parts = sorted({math.ceil(across / each) for each in range(1, across + 1)})
    if shape.rows > 1:
        slabs = {(math.ceil(shape.rows / each), shape.columns) for each in range(1, shape.rows + 1)}
    else:
        # Whole tiles but the last.
        tile = cpu.tiles.rows
        pieces = range(1, math.ceil(shape.columns / tile) + 1)
        widths = {math.ceil(math.ceil(shape.columns / each) / tile) * tile for each in pieces}
        slabs = {(1, min(width, shape.columns)) for width in widths}
    fitting = [slab for slab in slabs if _fits_l2(*slab, shape, cpu)] or [min(slabs)]
    for rows, columns in fitting:
        yield from (TileTasks(rows, columns, part) for part in parts if part <= most)


def _fits_l2(rows: int, columns: int, shape: ProductShape, cpu: Cpu) -> bool:
    read = shape.rows_read(rows) * shape.columns_read(columns) * shape.row_stride()
    return read <= cpu.l2_for_kernel_bytes // L2_PART_OF_DATA


def _slabs(work: TileTasks, shape: ProductShape) -> int:
    return math.ceil(shape.rows / work.rows) * math.ceil(shape.columns / work.columns)


def _sum_cycles(work: TileTasks, shape: ProductShape, cpu: Cpu) -> float:
    """Return the cycles of the sums of a slab, of all channels."""
    block = best_block(work.rows, work.columns, shape, cpu)
    return block_cycles(block, work.rows, work.columns, shape, cpu)


def _around_cycles(work: TileTasks, shape: ProductShape, cpu: Cpu) -> float:
    """Return the cycles of a task around its sums: what it gathers, and what it says of tiles."""
    assert cpu.tiles is not None
    around = float(cpu.tiles.configure_cycles)
    if shape.gathers:
        read = shape.rows_read(work.rows) * shape.columns_read(work.columns) * shape.terms
        around += COPY * read / cpu.tiles.columns / cpu.multiply_adds
    return around


def _work_cycles(work: TileTasks, shape: ProductShape, cpu: Cpu) -> float:
    """Return the estimated cycles until all cores are done.

    Each core reads the weights of its tasks from the last-level cache, every task anew where they
    fill more than its own cache.
    """
    assert cpu.tiles is not None
    number = shape.batch * _slabs(work, shape) * work.parts
    weights = math.prod(shape.kernel) * shape.terms * shape.outputs / work.parts
    streamed = weights / cpu.llc_bytes_a_cycle
    if weights <= cpu.l2_for_kernel_bytes:
        streamed *= min(1.0, cpu.cores / number)
    task = max(_sum_cycles(work, shape, cpu) / work.parts, streamed)
    task += _around_cycles(work, shape, cpu) + TASK_CYCLES
    return (math.ceil(number / cpu.cores) + LATE_SHARE) * task


def tile_cycles(shape: ProductShape, cpu: Cpu) -> float:
    """Return the estimated cycles of a core for the sums of a product on tiles, taken from them."""
    assert cpu.tiles is not None
    line = shape.on_tiles(cpu.tiles)
    if not line.step_bytes(cpu.tiles) or line.outputs < cpu.tiles.columns:
        return math.inf
    work = tasks_of(line, cpu)
    slabs = _slabs(work, line)
    each = slabs * _sum_cycles(work, line, cpu)
    around = slabs * work.parts * _around_cycles(work, line, cpu)
    return line.batch * (each + around) / EFFICIENCY


def vector_cycles(shape: ProductShape, cpu: Cpu) -> float:
    """Return the same on vectors, one instruction for four terms of each lane."""
    vectors = math.ceil(shape.outputs / cpu.lanes)
    terms = shape.kernel[0] * shape.kernel[1] * math.ceil(shape.terms / WORD_BYTES)
    places = shape.batch * shape.rows * shape.columns
    sums = float(places * vectors * terms)
    if shape.gathers:
        # As the windows of integers do.
        read = shape.batch * shape.rows_read(shape.rows) * shape.columns_read(shape.columns)
        sums += COPY * read * shape.terms / cpu.lanes
    return sums / cpu.multiply_adds / EFFICIENCY


def why_not_tiles(shape: ProductShape, cpu: Cpu) -> str | None:
    """Return why a product of bytes stays on vectors, or None."""
    if cpu.tiles is None:
        return "the processor has no registers for tiles of bytes"
    if shape.outputs % cpu.tiles.columns:
        return f"its {shape.outputs} columns are no whole tiles of {cpu.tiles.columns}"
    if not shape.on_tiles(cpu.tiles).step_bytes(cpu.tiles):
        return f"its {shape.terms} terms are no words of {WORD_BYTES} bytes"
    on_tiles, on_vectors = tile_cycles(shape, cpu), vector_cycles(shape, cpu)
    if on_tiles >= on_vectors:
        return (
            f"{on_tiles:.0f} cycles of a core by the estimate on tiles, and {on_vectors:.0f} on"
            " vectors"
        )
    return None
