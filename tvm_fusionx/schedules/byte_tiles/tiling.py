"""How a product of bytes is cut into tiles, and what it costs beside the same on vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.integers import WORD_BYTES, ByteTiles
from tvm_fusionx.processors.rates import LINE_BYTES
from tvm_fusionx.schedules.parts.tasks import TASKS_A_CORE
from tvm_fusionx.tir.numbers import divisors

# Tiles of sums along each side of the largest block: four of sums, two of data and two of weights
# are all eight registers.
MOST_TILES = 2

# Share of the instructions on vectors that templates reach at best (`layout/integer_costs.py`).
EFFICIENCY = 0.95

# A load and a store for each vector that is gathered or taken out of a tile.
COPY = 2

# Part of what a kernel may fill of the second-level cache for the data of a task; weights and the
# result pass through the rest.
L2_PART_OF_DATA = 2

# A row of data whose length is such a multiple shares sets of the first-level cache with the others
# of its tile: it gets a line more.
CROWDED_BYTES = 512


@dataclass(frozen=True)
class ProductShape:
    """A product of bytes: a convolution, or a matrix product, which is one of one row of places."""

    batch: int
    rows: int
    columns: int
    """Places of the result, of an image."""
    terms: int
    """Bytes that are multiplied for each place of the window: channels, or the length of a row."""
    outputs: int
    """Channels of the result."""
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    gathers: bool = False
    """Whether the data is put side by side first."""

    @property
    def in_line(self) -> ProductShape:
        """The same with all places in one row, where each reads one place of the data."""
        if self.kernel != (1, 1):
            return self
        return replace(self, rows=1, columns=self.rows * self.columns, stride=(1, 1))

    def rows_read(self, rows: int) -> int:
        """Return the rows of data under so many rows of the result."""
        return (rows - 1) * self.stride[0] + (self.kernel[0] - 1) * self.dilation[0] + 1

    def columns_read(self, columns: int) -> int:
        """Return the columns of data under so many columns of the result."""
        return (columns - 1) * self.stride[1] + (self.kernel[1] - 1) * self.dilation[1] + 1

    def step_bytes(self, tiles: ByteTiles) -> int:
        """Return the terms that one product of tiles adds up."""
        fitting = [each for each in divisors(self.terms) if each <= tiles.row_bytes]
        return max((each for each in fitting if each % WORD_BYTES == 0), default=0)

    def row_stride(self) -> int:
        """Return the bytes from one gathered place to the next."""
        is_crowded = self.terms % CROWDED_BYTES == 0
        return self.terms + (LINE_BYTES if is_crowded else 0)


@dataclass(frozen=True)
class BlockOfTiles:
    """The tiles that are summed at the same time."""

    rows: int
    """Places of a tile."""
    apart: int
    """Places from one tile of a row to the next: fewer than it has where two of them overlap."""
    down: int
    """Tiles of sums one below the other: as many of data."""
    across: int
    """Tiles of sums side by side: as many of weights."""
    in_rows: bool
    """Whether tiles below one another are of one row of places each; else of one row together."""

    @property
    def columns(self) -> int:
        """Columns of places of a block."""
        return self.rows if self.in_rows else self.apart * (self.down - 1) + self.rows

    @property
    def places_down(self) -> int:
        """Rows of places of a block."""
        return self.down if self.in_rows else 1


def block_of(rows: int, columns: int, outputs: int, tiles: ByteTiles) -> BlockOfTiles:
    """Return the block for so many rows and columns of places, and channels of the result."""
    across = min(MOST_TILES, outputs // tiles.columns)
    if columns > tiles.rows:
        pairs = math.ceil(columns / (MOST_TILES * tiles.rows))
        places = math.ceil(columns / pairs / MOST_TILES)
        # An odd number that one pair holds: the second tile begins at the last place of the first.
        apart = min(places, columns - places)
        return BlockOfTiles(places, apart, MOST_TILES, across, False)
    return BlockOfTiles(columns, columns, min(MOST_TILES, rows), across, True)


@dataclass(frozen=True)
class TileTasks:
    """What one task computes of an image."""

    rows: int
    columns: int
    parts: int
    """Into how many the channels of the result are divided."""


def tasks_of(shape: ProductShape, cpu: Cpu) -> TileTasks:
    """Return the tasks: each a slab of places, or, of few places, a part of the channels.

    Parts of the channels gather the same data once each: where data is gathered there are no more
    of them than give each core a task.
    """
    assert cpu.tiles is not None
    wanted = math.ceil(cpu.cores * TASKS_A_CORE / shape.batch) if cpu.cores > 1 else 1
    most_bytes = cpu.l2_for_kernel_bytes // L2_PART_OF_DATA
    across = math.ceil(shape.outputs / cpu.tiles.columns / MOST_TILES)
    if shape.rows > 1:
        rows = max(math.ceil(shape.rows / wanted), min(shape.rows, MOST_TILES))
        row_bytes = shape.columns_read(shape.columns) * shape.row_stride()
        while rows > 1 and shape.rows_read(rows) * row_bytes > most_bytes:
            rows -= 1
        slabs, columns = math.ceil(shape.rows / rows), shape.columns
    else:
        # Whole blocks but the last. Each core reads weights of its own where nothing is gathered.
        whole = MOST_TILES * cpu.tiles.rows
        slabs = min(wanted, shape.columns // whole)
        if slabs < wanted and across >= wanted and not shape.gathers:
            slabs = 1
        slabs = max(slabs, math.ceil(shape.columns * shape.row_stride() / most_bytes), 1)
        rows, columns = 1, math.ceil(math.ceil(shape.columns / slabs) / whole) * whole
        columns = min(columns, shape.columns)
        slabs = math.ceil(shape.columns / columns)
    tasks = math.ceil(cpu.cores / shape.batch) if shape.gathers else wanted
    return TileTasks(rows, columns, max(1, min(across, math.ceil(tasks / slabs))))


def tile_cycles(shape: ProductShape, cpu: Cpu) -> float:
    """Return the estimated cycles of a core for the sums of a product on tiles, taken out of them.

    A product of tiles takes a row of data a cycle, or waits for the rows of its operands.
    """
    tiles = cpu.tiles
    assert tiles is not None
    line = shape.in_line
    step = line.step_bytes(tiles)
    if not step or line.outputs < tiles.columns:
        return math.inf
    tasks = tasks_of(line, cpu)
    block = block_of(tasks.rows, tasks.columns, line.outputs, tiles)
    steps = line.kernel[0] * line.kernel[1] * (line.terms // step)
    loaded = block.down * block.rows + block.across * step // WORD_BYTES
    products = max(block.down * block.across * block.rows, loaded / tiles.lines_a_cycle)
    stored = block.down * block.across * (tiles.store_cycles + block.rows / cpu.multiply_adds)
    slabs = math.ceil(line.rows / tasks.rows) * math.ceil(line.columns / tasks.columns)
    blocks = math.ceil(tasks.rows / block.places_down) * math.ceil(tasks.columns / block.columns)
    across = math.ceil(line.outputs / tiles.columns / block.across)
    each = slabs * blocks * across * (steps * products + stored)
    number = slabs * tasks.parts
    around = float(number * tiles.configure_cycles)
    if line.gathers:
        read = line.rows_read(tasks.rows) * line.columns_read(tasks.columns) * line.terms
        around += number * COPY * read / tiles.columns / cpu.multiply_adds
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
    if not shape.step_bytes(cpu.tiles):
        return f"its {shape.terms} terms are no words of {WORD_BYTES} bytes"
    on_tiles, on_vectors = tile_cycles(shape, cpu), vector_cycles(shape, cpu)
    if on_tiles >= on_vectors:
        return (
            f"{on_tiles:.0f} cycles of a core by the estimate on tiles, and {on_vectors:.0f} on"
            " vectors"
        )
    return None
