"""When chunks are joined in one vector, and how such a window is cut."""

from __future__ import annotations

import math

from tvm_fusionx.processors.cpu import FLOAT32_BITS, Cpu
from tvm_fusionx.schedules.windows.output_vectors import OutputVectors
from tvm_fusionx.schedules.windows.structure import Window
from tvm_fusionx.schedules.windows.tiling import ChunkTile, Tasks

# Tiles of columns from which on the weights of a tile of channels are put together first. Times
# with whole vectors over those with halves, on Sapphire Rapids: 14x14 pixels of 72 channels, 21
# tiles, 1.09; 500 columns of 24 channels, 25 tiles, 0.96; 56x56 pixels with a stride of 2, 28
# tiles, 0.94; 2,048 columns of 72 channels, 205 tiles, 0.85.
FEWEST_TILES = 24


def should_join(window: Window, cpu: Cpu) -> bool:
    """Tell whether vectors of several chunks are fewer, counted by the units they keep busy.

    Three chunks of 8 are two vectors of 16 lanes, which units of 8 multiply in four steps.
    """
    vectors = OutputVectors.of(window, cpu)
    apart = vectors.chunks * _steps(vectors.chunk_lanes, cpu)
    return vectors.number * _steps(vectors.lanes, cpu) < apart


def _steps(lanes: int, cpu: Cpu) -> int:
    """Return how many times a unit begins for a vector of so many lanes."""
    return math.ceil(lanes * FLOAT32_BITS / cpu.multiply_add_bits)


def columns_of_task(window: Window, tile: ChunkTile, tasks: Tasks) -> int:
    """Return the output columns of a task: all, or those of as many tiles as its part has."""
    if tasks.column_tasks == 1:
        return window.columns
    tiles = math.ceil(window.columns / tile.columns)
    return math.ceil(tiles / tasks.column_tasks) * tile.columns


def should_put_together(window: Window, tile: ChunkTile, tasks: Tasks) -> bool:
    """Tell whether so many tiles of a task read the weights that whole vectors of them pay."""
    columns = columns_of_task(window, tile, tasks)
    return tasks.rows * math.ceil(columns / tile.columns) >= FEWEST_TILES
