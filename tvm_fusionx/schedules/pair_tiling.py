"""How a depthwise convolution and the pointwise one after it are cut, counted in cycles."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from tvm_fusionx.schedules.conv_structure import FLOAT_BYTES, Window
from tvm_fusionx.schedules.conv_tiling import (
    FMAS_A_CYCLE,
    MAX_LANES,
    SPARE_REGISTERS,
    STREAM_BYTES_A_CYCLE,
    SUMS_TO_HIDE_LATENCY,
    TASK_CYCLES,
    RegisterTile,
    register_tiles,
)
from tvm_fusionx.schedules.cpu import Cpu
from tvm_fusionx.schedules.pair_structure import Pair

# Share of the second level cache for the depthwise result; data and weights pass through the rest.
BUFFER_SHARE = 2

# Bytes a cycle that a core streams from its second-level cache.
NEAR_BYTES_A_CYCLE = 32

# Cycles that each tile of the depthwise result costs besides its products: bounds, bias, stores.
DEPTHWISE_TILE_CYCLES = 20


@dataclass(frozen=True)
class PairTiling:
    """How a pair is divided."""

    rows: int
    """Output rows of a task."""
    columns: int
    """Columns of the depthwise result whose sums are held in registers."""
    tile: RegisterTile
    """Output channel chunks and pixels of the pointwise result held in registers."""


def buffer_bytes(cpu: Cpu) -> int:
    """Return the bytes of the depthwise result that a core of `cpu` keeps near."""
    return cpu.l2_bytes // BUFFER_SHARE


def row_choices(pair: Pair, cpu: Cpu) -> list[int]:
    """Return the rows a task may have; those whose depthwise result stays in cache, if any do."""
    window = pair.depthwise
    row_bytes = window.chunks * window.columns * window.lanes * FLOAT_BYTES
    most = max(1, min(window.rows, buffer_bytes(cpu) // row_bytes))
    parts = range(math.ceil(window.rows / most), window.rows + 1)
    return sorted({math.ceil(window.rows / part) for part in parts})


def depthwise_columns(window: Window, cpu: Cpu) -> list[int]:
    """Return the columns that registers hold beside weights and input, the best first."""
    most = max(1, (cpu.registers - window.kernel[1] - SPARE_REGISTERS) // 2)
    choices = range(1, min(most, window.columns) + 1)

    def cost(columns: int) -> float:
        tiles = math.ceil(window.columns / columns)
        products = window.kernel[0] * window.kernel[1] * max(columns, SUMS_TO_HIDE_LATENCY // 2)
        return tiles * (products / FMAS_A_CYCLE + DEPTHWISE_TILE_CYCLES)

    return sorted(choices, key=lambda columns: (cost(columns), -columns))


def pixel_tiles(window: Window, rows: int, cpu: Cpu) -> list[RegisterTile]:
    """Return the register tiles of the pointwise result over `rows` rows, the best first."""
    batch, chunks, _, columns, lanes = window.out_shape
    flat = dataclasses.replace(window, out_shape=(batch, chunks, 1, rows * columns, lanes))
    return register_tiles(flat, cpu)


def pair_cycles(pair: Pair, rows: int, cpu: Cpu) -> float:
    """Return the estimated cycles of a pair in tasks of `rows` rows, on all cores of `cpu`."""
    first, second = pair.depthwise, pair.pointwise
    tasks = first.batch * math.ceil(first.rows / rows)
    rounds = math.ceil(tasks / cpu.cores)
    macs = (first.macs + second.macs) / (first.batch * first.rows) * rows
    weights = second.in_channels * second.chunks * second.lanes * FLOAT_BYTES
    buffer = rows * first.columns * first.chunks * first.lanes * FLOAT_BYTES
    is_near = weights + buffer < cpu.l2_bytes
    stream = weights / (NEAR_BYTES_A_CYCLE if is_near else STREAM_BYTES_A_CYCLE)
    return rounds * (macs / (FMAS_A_CYCLE * MAX_LANES) + stream + TASK_CYCLES)


def best_rows(pair: Pair, cpu: Cpu) -> int:
    """Return the rows of a task with the lowest estimated cost."""
    return min(row_choices(pair, cpu), key=lambda rows: (pair_cycles(pair, rows, cpu), rows))


def best_tiling(pair: Pair, cpu: Cpu) -> PairTiling:
    """Return the division with the lowest estimated cost."""
    rows = best_rows(pair, cpu)
    return PairTiling(
        rows,
        depthwise_columns(pair.depthwise, cpu)[0],
        pixel_tiles(pair.pointwise, rows, cpu)[0],
    )
