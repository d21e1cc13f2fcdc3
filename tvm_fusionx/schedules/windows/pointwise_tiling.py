"""How a pointwise convolution is cut: register tile, tasks, input channels at a time; by cycles."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts.parallelism import TASK_CYCLES
from tvm_fusionx.schedules.parts.register_tile import COUNTED_LANES
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.schedules.windows.tiling import (
    GATHER_CYCLES,
    ChunkTile,
    cost_with_rest,
    register_tiles,
)
from tvm_fusionx.tir.numbers import divisors

# Measured on Zen 4: bytes a cycle of weights, which begin anew with each tile of channels.
WEIGHT_BYTES_A_CYCLE = 8
# Part of the first-level cache for the weights of a block of input channels; pixels pass through
# the rest.
L1_SHARE_OF_BLOCK = 3 / 4
# Cycles of keeping one sum between two blocks of input channels: a store and a load.
KEEP_CYCLES = 1.5
# More tasks a core than this share nothing out more evenly.
MOST_TASKS_A_CORE = 4


@dataclass(frozen=True)
class PointwiseTiling:
    """How a pointwise convolution is divided."""

    tile: ChunkTile
    """Output channel chunks and pixels, counted across rows, whose sums are held in registers."""
    pixel_tasks: int
    """Parts the pixels of an image are divided into; the last may share some with its neighbour."""
    channel_tasks: int
    """Parts the tiles of output channels are divided into."""
    block_chunks: int
    """Input channel chunks whose products are summed before the next pixels'."""

    def pixels(self, window: Window) -> int:
        """Return the pixels of a task."""
        return math.ceil(window.rows * window.columns / self.pixel_tasks)

    def groups(self, chunks: int) -> int:
        """Return the tiles of output channels of a task, of so many `chunks` in all."""
        return chunks // self.tile.chunks // self.channel_tasks


def in_chunks(window: Window) -> int:
    """Return the chunks of input channels."""
    return window.in_channels // window.block_in


def pixel_tiles(window: Window, cpu: Cpu) -> list[ChunkTile]:
    """Return the register tiles of pixels in one row."""
    return register_tiles(_in_one_row(window, window.rows * window.columns), cpu)


def task_choices(window: Window, cpu: Cpu) -> list[int]:
    """Return the parts that the pixels may be divided into."""
    return list(range(1, min(window.rows * window.columns, MOST_TASKS_A_CORE * cpu.cores) + 1))


def block_of(tile: ChunkTile, window: Window, cpu: Cpu) -> int:
    """Return the most input chunks of which the weights of a tile stay in the first-level cache."""
    chunk_bytes = tile.chunks * window.block_out * window.block_in * FLOAT_BYTES
    most = cpu.l1_bytes * L1_SHARE_OF_BLOCK / chunk_bytes
    return max(each for each in divisors(in_chunks(window)) if each == 1 or each <= most)


def cycles(tiling: PointwiseTiling, window: Window, cpu: Cpu, *, gathers: bool) -> float:
    """Return the estimated cycles of the whole convolution, on all cores of `cpu`."""
    tile, pixels, groups = tiling.tile, tiling.pixels(window), tiling.groups(window.out_blocks)
    tasks = window.batch * tiling.pixel_tasks * tiling.channel_tasks
    vectors = window.block_out / min(COUNTED_LANES, cpu.lanes)
    products = window.in_channels * groups * tile.chunks * pixels * vectors / cpu.multiply_add_units
    computing = products * cost_with_rest(tile, _in_one_row(window, pixels), cpu)
    breaks = in_chunks(window) // tiling.block_chunks - 1
    tiles = math.ceil(pixels / tile.columns)
    keeping = breaks * groups * tiles * tile.sums * vectors * KEEP_CYCLES
    slab = window.in_channels * pixels * FLOAT_BYTES
    weights = window.in_channels * groups * tile.chunks * window.block_out * FLOAT_BYTES
    gathering = slab / FLOAT_BYTES / min(COUNTED_LANES, window.block_in) * GATHER_CYCLES
    # Where all tasks of a core lie side by side, it wrote itself what it reads.
    is_own = (window.batch * tiling.pixel_tasks) % cpu.cores == 0
    arriving = slab / _rate(slab, cpu) if is_own else slab / cpu.llc_bytes_a_cycle
    moving = arriving + (groups - 1) * slab / _rate(slab, cpu) + weights / WEIGHT_BYTES_A_CYCLE
    each = computing + keeping + moving + (gathering if gathers else 0) + TASK_CYCLES
    return math.ceil(tasks / cpu.cores) * each


def best_tiling(window: Window, cpu: Cpu, *, gathers: bool) -> PointwiseTiling:
    """Return the division with the lowest estimated cost."""
    tilings = [
        PointwiseTiling(tile, pixel_tasks, channel_tasks, block_of(tile, window, cpu))
        for tile in pixel_tiles(window, cpu)
        for pixel_tasks in task_choices(window, cpu)
        for channel_tasks in divisors(window.out_blocks // tile.chunks)
        if channel_tasks <= MOST_TASKS_A_CORE * cpu.cores
    ]
    return min(tilings, key=functools.partial(_cycles, window, cpu, gathers))


def _cycles(window: Window, cpu: Cpu, gathers: bool, tiling: PointwiseTiling) -> float:
    return cycles(tiling, window, cpu, gathers=gathers)


def _rate(size: int, cpu: Cpu) -> float:
    """Return the bytes a cycle at which so much is read again."""
    return cpu.l2_bytes_a_cycle if size <= cpu.l2_for_kernel_bytes else cpu.llc_bytes_a_cycle


def _in_one_row(window: Window, pixels: int) -> Window:
    batch, chunks, _, _, lanes = window.out_shape
    return dataclasses.replace(window, out_shape=(batch, chunks, 1, pixels, lanes))
