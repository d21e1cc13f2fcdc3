"""How a depthwise convolution and the pointwise one after it are cut, counted in cycles."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts.parallelism import TASK_CYCLES
from tvm_fusionx.schedules.parts.register_tile import COUNTED_LANES
from tvm_fusionx.schedules.windows.depthwise_pointwise_structure import Pair
from tvm_fusionx.schedules.windows.output_vectors import with_joined_chunks
from tvm_fusionx.schedules.windows.strip_tiling import StripTile, strip_tiles
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.schedules.windows.tiling import (
    ChunkTile,
    cost_with_rest,
    depthwise_columns,
    register_tiles,
    streaming_cost,
)

# Costs that differ by less are not told apart; fewer rows then leave more of the cache.
ABOUT_LOWEST = 1.012


@dataclass(frozen=True)
class PairTiling:
    """How a pair is divided."""

    rows: int
    """Output rows of a task, of which the last task may share some."""
    pixels: int
    """Output pixels of a task."""
    columns: int
    """Columns of the depthwise result whose sums are held in registers."""
    tile: ChunkTile
    """Output channel chunks and pixels of the pointwise result held in registers."""
    strip: int = 0
    """Rows of the depthwise result whose sums are held at once; 0 for a row at a time."""


def buffer_bytes(cpu: Cpu) -> int:
    """Return the bytes of the depthwise result that a core of `cpu` keeps near.

    All that a kernel may fill of its second-level cache: data and weights pass through the rest.
    """
    return cpu.l2_for_kernel_bytes


def pair_row_choices(pair: Pair, cpu: Cpu) -> list[int]:
    """Return the rows a task may have; those whose depthwise result stays in cache, if any do."""
    window = pair.depthwise
    most = max(1, min(window.rows, buffer_bytes(cpu) // _row_bytes(window)))
    parts = range(math.ceil(window.rows / most), window.rows + 1)
    return sorted({math.ceil(window.rows / part) for part in parts})


def task_pixels(pair: Pair, rows: int, cpu: Cpu) -> tuple[int, int]:
    """Return the pixels of a task and the depthwise rows that it keeps for them.

    Rows that `rows` do not divide are shared pixel by pixel, where the buffer holds the rows that
    are touched and fewer products of pixels are worth those of more rows: of 19 rows of 19 pixels,
    two tasks compute 181 pixels each and not 190.
    """
    first, window = pair.depthwise, pair.pointwise
    width, total = window.columns, window.rows * window.columns
    tasks = math.ceil(window.rows / rows)
    even = math.ceil(total / tasks)
    firsts = (min(number * even, total - even) for number in range(tasks))
    touched = max((first + even - 1) // width - first // width + 1 for first in firsts)
    saved = window.macs * (rows * width - even) / total
    added = first.macs * (touched - rows) / first.rows
    is_held = touched <= rows or touched * _row_bytes(first) <= buffer_bytes(cpu)
    is_shared = window.rows % rows != 0 and is_held and saved > added
    return (even, touched) if is_shared else (rows * width, rows)


def _row_bytes(window: Window) -> int:
    return window.out_blocks * window.columns * window.block_out * FLOAT_BYTES


def pair_pixel_tiles(pair: Pair, rows: int, cpu: Cpu) -> list[ChunkTile]:
    """Return the register tiles of the pointwise result of a task, the best first."""
    flat = _flat(pair, rows, cpu)
    return sorted(register_tiles(flat, cpu), key=lambda tile: _pixel_tile_cost(tile, flat, cpu))


def _flat(pair: Pair, rows: int, cpu: Cpu) -> Window:
    """Return the pointwise window of a task, its pixels in one row."""
    window = with_joined_chunks(pair.pointwise, cpu)
    batch, chunks, _, _, lanes = window.out_shape
    pixels, _ = task_pixels(pair, rows, cpu)
    return dataclasses.replace(window, out_shape=(batch, chunks, 1, pixels, lanes))


def _pixel_tile_cost(tile: ChunkTile, window: Window, cpu: Cpu) -> float:
    """Return the cost of a tile, its weights' way from the second-level cache included."""
    return cost_with_rest(tile, window, cpu) * streaming_cost(tile, window, cpu)


def pair_strips(pair: Pair, rows: int, cpu: Cpu) -> list[StripTile]:
    """Return the tiles of several rows of the depthwise result of a task, the best first."""
    _, rows = task_pixels(pair, rows, cpu)
    batch, chunks, _, columns, lanes = pair.depthwise.out_shape
    of_task = dataclasses.replace(pair.depthwise, out_shape=(batch, chunks, rows, columns, lanes))
    return strip_tiles(of_task, cpu)


def pair_cycles(pair: Pair, rows: int, cpu: Cpu) -> float:
    """Return the estimated cycles of a pair in tasks of `rows` rows, on all cores of `cpu`."""
    first, second = pair.depthwise, pair.pointwise
    tasks = first.batch * math.ceil(first.rows / rows)
    rounds = math.ceil(tasks / cpu.cores)
    pixels, kept_rows = task_pixels(pair, rows, cpu)
    flat = _flat(pair, rows, cpu)
    tile = pair_pixel_tiles(pair, rows, cpu)[0]
    products = second.macs * pixels / (second.batch * second.rows * second.columns)
    macs = first.macs * kept_rows / (first.batch * first.rows)
    macs += products * _pixel_tile_cost(tile, flat, cpu)
    weights = second.in_channels * second.out_blocks * second.block_out * FLOAT_BYTES
    buffer = kept_rows * _row_bytes(first)
    is_near = weights + buffer < cpu.l2_for_kernel_bytes
    stream = weights / (cpu.l2_bytes_a_cycle if is_near else cpu.llc_bytes_a_cycle)
    return rounds * (macs / (cpu.multiply_add_units * COUNTED_LANES) + stream + TASK_CYCLES)


def best_pair_rows(pair: Pair, cpu: Cpu) -> int:
    """Return the rows of a task: the fewest of those whose estimated cost is about the lowest."""
    cycles = {rows: pair_cycles(pair, rows, cpu) for rows in pair_row_choices(pair, cpu)}
    most = ABOUT_LOWEST * min(cycles.values())
    return min(rows for rows, cost in cycles.items() if cost <= most)


def best_pair_tiling(pair: Pair, cpu: Cpu) -> PairTiling:
    """Return the division with the lowest estimated cost."""
    rows = best_pair_rows(pair, cpu)
    pixels, _ = task_pixels(pair, rows, cpu)
    strips = pair_strips(pair, rows, cpu)
    return PairTiling(
        rows,
        pixels,
        strips[0].columns if strips else depthwise_columns(pair.depthwise, cpu)[0],
        pair_pixel_tiles(pair, rows, cpu)[0],
        strips[0].rows if strips else 0,
    )
