"""How a convolution over whole planes is cut: channels and vectors of columns, tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts.parallelism import TASK_CYCLES
from tvm_fusionx.schedules.parts.register_tile import waiting_cost
from tvm_fusionx.schedules.windows.pointwise_tiling import MOST_TASKS_A_CORE
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.tir.numbers import divisors

# Registers beside sums and columns: the weight that all columns of a channel are multiplied by.
WEIGHT_REGISTERS = 1

# More columns at once leave sums for too few channels.
MOST_TILE_VECTORS = 6
MOST_TILE_CHANNELS = 16

# Columns come from the second-level cache for each tile of channels: the part of the multiply-adds'
# time that this costs besides, where it takes all that a core streams from there in a cycle. On Zen
# 5, tiles of 8 channels by 3 vectors take 0.92 to 1.05 of the time of ones of 4 by 6.
L2_COST_OF_COLUMNS = 0.1


@dataclass(frozen=True)
class FrameTile:
    """Output channels and vectors of columns whose sums are held in registers."""

    channels: int
    vectors: int

    @property
    def sums(self) -> int:
        """Vector registers that hold sums."""
        return self.channels * self.vectors


@dataclass(frozen=True)
class FrameTasks:
    """How the output is divided among parallel tasks."""

    rows: int
    """Output rows of a task; divides the rows."""
    channel_tasks: int
    """Parts that the tiles of channels are divided into."""


def panels_of(columns: int, vectors: int, lanes: int) -> list[int]:
    """Return the vectors of each panel of a row: as many as told, the last one fewer or as many.

    A panel that would reach beyond the row lies over the one before.
    """
    whole, rest = divmod(columns, vectors * lanes)
    return [vectors] * whole + ([math.ceil(rest / lanes)] if rest else [])


def waste(window: Window, cpu: Cpu) -> float:
    """Return the columns that are computed for each of the result's."""
    return math.ceil(window.columns / cpu.lanes) * cpu.lanes / window.columns


def frame_tiles(window: Window, cpu: Cpu) -> list[FrameTile]:
    """Return the register tiles, the best first."""
    outputs = window.out_blocks * window.block_out
    tiles = [
        FrameTile(channels, vectors)
        for channels in divisors(outputs)
        if channels <= MOST_TILE_CHANNELS
        and (window.block_out % channels == 0 or channels % window.block_out == 0)
        for vectors in range(1, min(MOST_TILE_VECTORS, window.columns // cpu.lanes) + 1)
        if channels * vectors + vectors + WEIGHT_REGISTERS <= cpu.registers
    ]
    return sorted(tiles, key=lambda tile: frame_tile_cost(tile, window, cpu))


def frame_tile_cost(tile: FrameTile, window: Window, cpu: Cpu) -> float:
    """Return the estimated cycles of a tile for each useful multiply-add, in units of the ideal."""
    panels = panels_of(window.columns, tile.vectors, cpu.lanes)
    cost = 0.0
    for vectors in panels:
        sums = tile.channels * vectors
        latency = max(1.0, cpu.sums_to_hide_latency / sums) * waiting_cost(sums)
        loads = (tile.channels + vectors) / sums
        cost += vectors * latency * (max(1.0, loads) + loads / cpu.sums_to_hide_latency)
    near = cpu.lanes * FLOAT_BYTES * cpu.multiply_adds / tile.channels / cpu.l2_bytes_a_cycle
    return cost * cpu.lanes / window.columns * (1 + L2_COST_OF_COLUMNS * near)


def slab_bytes(window: Window, rows: int, tile: FrameTile, cpu: Cpu) -> int:
    """Return the bytes of the input of a panel of `rows` output rows."""
    columns = tile.vectors * cpu.lanes
    return window.rows_read(rows) * window.in_channels * columns * FLOAT_BYTES


def frame_row_choices(window: Window, tile: FrameTile, cpu: Cpu) -> list[int]:
    """Return the rows a task may have: those whose input stays in the second-level cache."""
    rows = divisors(window.rows)
    return [
        each for each in rows if slab_bytes(window, each, tile, cpu) <= cpu.l2_for_kernel_bytes
    ] or [1]


def best_frame_tasks(window: Window, tile: FrameTile, cpu: Cpu) -> FrameTasks:
    """Return the division that gives the cores equal shares and gathers least."""
    groups = window.out_blocks * window.block_out // tile.channels
    panels = len(panels_of(window.columns, tile.vectors, cpu.lanes))
    vectors = math.ceil(window.columns / cpu.lanes) / panels

    def cost(tasks: FrameTasks) -> float:
        number = window.batch * panels * (window.rows // tasks.rows) * tasks.channel_tasks
        terms = window.in_channels * window.kernel[0]
        channels = window.out_blocks * window.block_out / tasks.channel_tasks
        products = tasks.rows * channels * terms * vectors / cpu.multiply_adds
        gathered = window.rows_read(tasks.rows) * window.in_channels * vectors
        arriving = gathered * cpu.lanes * FLOAT_BYTES / cpu.llc_bytes_a_cycle
        return math.ceil(number / cpu.cores) * (products + arriving + TASK_CYCLES)

    choices = [
        FrameTasks(rows, parts)
        for rows in frame_row_choices(window, tile, cpu)
        for parts in divisors(groups)
        if parts <= MOST_TASKS_A_CORE * cpu.cores
    ]
    return min(choices, key=cost)
