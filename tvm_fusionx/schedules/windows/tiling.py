"""How a window is cut: the register tile, and the tasks that run in parallel.

Numbers come from the machine's description and from counting, not from measurements of one model;
`tests/schedules/windows/test_tiling.py` holds what is expected of typical layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts import lane_tiles
from tvm_fusionx.schedules.parts.parallelism import TASK_CYCLES
from tvm_fusionx.schedules.parts.register_tile import (
    COUNTED_LANES,
    SPARE_REGISTERS,
    waiting_cost,
)
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.tir.numbers import divisors

# Of a tile of one chunk, where LLVM takes two input channels at a time: sums spill with fewer. Of
# 16 registers (Zen 3, 3x3, stride 2), 13 columns have 35 of 182 multiply-adds on the stack and 12
# have 28 of 168, 10 have 1 of 160; a column of 11 to 13 takes 1.3 to 1.6 times that of 10.
SPARE_OF_ONE_CHUNK = 6


# Part of the first-level cache for the weights of a register tile; inputs pass through the rest.
L1_PART_OF_WEIGHTS = 2


# More output channel chunks than this in a tile leave too few columns in 32 registers.
MAX_TILE_CHUNKS = 6


# Columns that weights from the second-level cache are multiplied by, to come in time: a vector of
# 32 bytes for each at 28 a cycle. On Zen 3, tiles of 4 chunks by 2 columns take 1.11 to 1.17 times
# as long a product as ones of 2 by 4; where the weights stay in the first level, 0.98.
COLUMNS_TO_STREAM = 2.25


# Measured on Zen 4: cycles of moving one vector into a gather buffer, with the test for the border.
GATHER_CYCLES = 2.5


# Part of the first-level cache that what is gathered may fill, where channels are apart.
L1_SHARE_OF_GATHERED = 1 / 2


# Times as long takes the gathering of more than that: a task may gather few channels. C3D's last
# pool, 512 channels of 7 x 7, takes 4.5 us with all of them in a task, 3.7, 3.0 and 2.7 in two,
# four and eight parts (Zen 4).
FAR_GATHER_PENALTY = 2


# Part of what a kernel may fill of the second-level cache, for a slab of input: the weights and the
# result take the rest. A larger one slows the loads down, so many times as long takes the task.
L2_PART_OF_SLAB = 2
SPILL_PENALTY = 1.3


# Times as long takes a task where tasks are no whole number of slabs a core: then it reads rows
# that another core wrote.
FOREIGN_ROWS_PENALTY = 1.1


# Cycles that each tile of the depthwise result costs besides its products: bounds, bias, stores.
DEPTHWISE_TILE_CYCLES = 20


# Tasks of an image at least: many enough to be shared evenly, few enough to cost little.
TASKS_AN_IMAGE = 4


@dataclass(frozen=True)
class ChunkTile:
    """A register tile: output channel chunks and output columns whose sums are held there."""

    chunks: int
    columns: int

    @property
    def sums(self) -> int:
        """Vector registers that hold sums."""
        return self.chunks * self.columns

    @property
    def loads_a_sum(self) -> float:
        """Vector loads for each multiply-add: weights once a chunk, input once a column."""
        return (self.chunks + self.columns) / self.sums


def register_tiles(window: Window, cpu: Cpu) -> list[ChunkTile]:
    """Return the register tiles that fit `cpu`, the best first.

    A tile of several chunks of one vector each may fill the registers: its input serves several
    multiply-adds, so that the next comes in time in the same register. Others spill then.
    """
    registers = window.registers(cpu)
    tiles = [
        ChunkTile(chunks, columns)
        for chunks in divisors(window.out_blocks)
        if chunks <= MAX_TILE_CHUNKS
        for columns in range(1, min(window.columns, registers) + 1)
        if _fits(ChunkTile(chunks, columns), window, cpu)
    ]
    return sorted(
        tiles, key=lambda tile: tile_cost(tile, window, cpu) * streaming_cost(tile, window, cpu)
    ) or [ChunkTile(1, 1)]


def _fits(tile: ChunkTile, window: Window, cpu: Cpu) -> bool:
    if cpu.multiplies_by_lane:
        vectors = tile.chunks * _vectors_of_chunk(window, cpu)
        if _loads_together(window, cpu):
            return lane_tiles.fits_together(tile.columns, vectors, cpu)
        if not lane_tiles.fits(tile.columns, vectors, cpu):
            return False
        if window.block_in >= cpu.lanes:
            return True
    registers = window.registers(cpu)
    spare = 0 if registers == cpu.registers and tile.chunks > 1 else 1
    held = tile.sums + tile.chunks + inputs_held(window, tile.columns)
    return held + spare <= registers


def _loads_together(window: Window, cpu: Cpu) -> bool:
    """Tell whether pixels of a tile lie side by side, and its operands are loaded together."""
    is_pointwise = math.prod(window.kernel) == math.prod(window.stride) == 1
    return is_pointwise and window.block_in >= cpu.lanes and lane_tiles.loads_together(cpu)


def _lane_cost(columns: int, vectors: int, window: Window, cpu: Cpu) -> float:
    """Return what a multiply-add of a tile takes whose operand is a lane."""
    if _loads_together(window, cpu):
        return lane_tiles.cost_together(columns, vectors, cpu)
    return lane_tiles.cost(columns, vectors, cpu, window.block_in)


def _vectors_of_chunk(window: Window, cpu: Cpu) -> int:
    return math.ceil(window.block_out / cpu.lanes)


def default_tile(tiles: Sequence[ChunkTile], window: Window, cpu: Cpu) -> ChunkTile:
    """Return the first of `tiles` whose sums stay in registers, the best tile first."""
    is_one_vector = window.registers(cpu) == cpu.registers
    most = cpu.registers - SPARE_OF_ONE_CHUNK if is_one_vector and window.block_in > 1 else math.inf
    return next(tile for tile in tiles if tile.chunks > 1 or tile.columns <= most)


def inputs_held(window: Window, columns: int) -> int:
    """Return the registers that hold inputs of a tile: usually one, for the broadcast input.

    Where chunks are of one channel, LLVM writes out the window's columns, the innermost loop, and
    holds all that they read as soon as two of them read the same.
    """
    if window.block_in > 1:
        return SPARE_REGISTERS - 1
    places = {
        column * window.stride[1] + tap * window.dilation[1]
        for column in range(columns)
        for tap in range(window.kernel[1])
    }
    is_shared = len(places) < columns * window.kernel[1]
    return len(places) if is_shared else SPARE_REGISTERS - 1


def tile_cost(tile: ChunkTile, window: Window, cpu: Cpu) -> float:
    """Return the estimated cycles of `tile` for each useful multiply-add, in units of the ideal."""
    covered = math.ceil(window.columns / tile.columns) * tile.columns
    waste = covered / window.columns
    if cpu.multiplies_by_lane:
        vectors = tile.chunks * _vectors_of_chunk(window, cpu)
        return waste * _lane_cost(tile.columns, vectors, window, cpu)
    latency = max(1.0, cpu.sums_to_hide_latency / tile.sums)
    # Of chunks narrower than a vector the lanes are stored one by one: more columns cost more.
    if window.block_out >= COUNTED_LANES:
        latency *= waiting_cost(tile.sums)
    # Two loads go with two multiply-adds in a cycle, so loads below one a sum cost only a little.
    loads = max(1.0, tile.loads_a_sum) + tile.loads_a_sum / cpu.sums_to_hide_latency
    return waste * latency * loads


def cost_with_rest(tile: ChunkTile, window: Window, cpu: Cpu) -> float:
    """Return the cost of `tile` as `tile_cost`, where the columns left over are a narrower tile."""
    rest = window.columns % tile.columns
    if not cpu.multiplies_by_lane or not rest or window.columns < tile.columns:
        return tile_cost(tile, window, cpu)
    vectors = tile.chunks * _vectors_of_chunk(window, cpu)
    each, last = (_lane_cost(columns, vectors, window, cpu) for columns in (tile.columns, rest))
    return (each * (window.columns - rest) + last * rest) / window.columns


def streaming_cost(tile: ChunkTile, window: Window, cpu: Cpu) -> float:
    """Return what a multiply-add takes whose weights are read anew for every tile of columns.

    In units of what it takes where they stay in the first-level cache.
    """
    outputs = tile.chunks * window.block_out
    slice_bytes = outputs * window.in_channels * math.prod(window.kernel) * FLOAT_BYTES
    is_near = slice_bytes <= cpu.l1_bytes // L1_PART_OF_WEIGHTS
    return 1.0 if is_near else max(1.0, COLUMNS_TO_STREAM / tile.columns)


@dataclass(frozen=True)
class Tasks:
    """How the output is divided among parallel tasks."""

    rows: int
    """Output rows of a task; divides the rows."""
    channel_tasks: int
    """Parts the channel chunks are divided into."""
    column_tasks: int = 1
    """Parts the tiles of a row are divided into."""


def shared_tiles(window: Window, tile: ChunkTile, cpu: Cpu) -> int:
    """Return the tiles of columns that tasks may share out, or 1 where each takes all.

    A row of its own is shared out, and rows of which even one reads more than the second-level
    cache holds, where no window reads its neighbour's columns: each task then gathers a part.
    """
    tiles = math.ceil(window.columns / tile.columns)
    row = window.in_channels * window.rows_read(1) * window.columns * FLOAT_BYTES
    is_apart = window.kernel[1] == 1 and window.stride[1] == 1
    return tiles if window.rows == 1 or (is_apart and row > cpu.l2_for_kernel_bytes) else 1


def column_pieces(tiles: int) -> list[int]:
    """Return the parts that so many tiles of columns may be divided into, none of them empty."""
    return sorted({math.ceil(tiles / length) for length in range(1, tiles + 1)})


def candidate_tasks(window: Window, chunk_groups: int, column_tiles: int = 1) -> list[Tasks]:
    """Return every division of the output.

    Parameters
    ----------
    window
        The window.
    chunk_groups
        Its output chunks, counted in register tiles.
    column_tiles
        Register tiles of its output columns that are shared out; see :func:`shared_tiles`.
    """
    return [
        Tasks(rows, parts, pieces)
        for rows in divisors(window.rows)
        for parts in divisors(chunk_groups)
        for pieces in column_pieces(column_tiles)
    ]


def task_cost(
    tasks: Tasks, window: Window, cpu: Cpu, column_tiles: int = 1, *, gathers: bool
) -> float:
    """Return the estimated cycles of the whole window when divided into `tasks`."""
    places = window.batch * (window.rows // tasks.rows) * tasks.column_tasks
    number = places * tasks.channel_tasks
    rounds = math.ceil(number / cpu.cores)
    # The last piece is as long as the others: what it shares with its neighbour is computed twice.
    length = math.ceil(column_tiles / tasks.column_tasks)
    twice = length * tasks.column_tasks / column_tiles
    compute = twice * window.macs / number / (window.block_out * cpu.multiply_add_units)
    columns = math.ceil(window.columns / tasks.column_tasks)
    channels = _channels_read(tasks, window)
    slab = channels * window.rows_read(tasks.rows) * window.columns_read(columns)
    gather = slab / window.block_in / max(1, COUNTED_LANES // window.block_in) * GATHER_CYCLES
    if window.in_channels == 1 and slab * FLOAT_BYTES > cpu.l1_bytes * L1_SHARE_OF_GATHERED:
        gather *= FAR_GATHER_PENALTY
    weights = _weight_bytes(window) / tasks.channel_tasks / cpu.llc_bytes_a_cycle
    cycles = compute + (gather if gathers else 0) + weights + TASK_CYCLES
    if slab * FLOAT_BYTES > cpu.l2_for_kernel_bytes // L2_PART_OF_SLAB:
        cycles *= SPILL_PENALTY
    if places % cpu.cores:
        cycles *= FOREIGN_ROWS_PENALTY
    return rounds * cycles


def _channels_read(tasks: Tasks, window: Window) -> int:
    """Return the input channels that one task reads."""
    if window.in_channels > 1:
        return window.in_channels
    return max(1, window.out_blocks // tasks.channel_tasks) * window.block_out


def _weight_bytes(window: Window) -> int:
    outputs = window.out_blocks * window.block_out
    return outputs * window.in_channels * window.kernel[0] * window.kernel[1] * FLOAT_BYTES


def best_tasks(
    window: Window, cpu: Cpu, chunk_groups: int, column_tiles: int = 1, *, gathers: bool
) -> Tasks:
    """Return the division of the output with the lowest estimated cost."""
    return min(
        candidate_tasks(window, chunk_groups, column_tiles),
        key=lambda tasks: task_cost(tasks, window, cpu, column_tiles, gathers=gathers),
    )


def depthwise_columns(window: Window, cpu: Cpu) -> list[int]:
    """Return the columns that registers hold beside weights and input, the best first."""
    most = max(1, (window.registers(cpu) - window.kernel[1] - SPARE_REGISTERS) // 2)
    choices = range(1, min(most, window.columns) + 1)

    def cost(columns: int) -> float:
        tiles = math.ceil(window.columns / columns)
        products = window.kernel[0] * window.kernel[1] * max(columns, cpu.sums_to_hide_latency // 2)
        return tiles * (products / cpu.multiply_add_units + DEPTHWISE_TILE_CYCLES)

    return sorted(choices, key=lambda columns: (cost(columns), -columns))


def even_rows(window: Window, cpu: Cpu) -> int:
    """Return the rows of a task that reads in place, so that cores get equal shares."""

    def cost(rows: int) -> float:
        tasks = window.batch * math.ceil(window.rows / rows)
        macs = window.macs / (window.batch * window.rows) * rows
        return math.ceil(tasks / cpu.cores) * (macs / cpu.lanes + TASK_CYCLES)

    most = math.ceil(window.rows / TASKS_AN_IMAGE)
    return min(range(1, most + 1), key=lambda rows: (cost(rows), rows))
