"""How a convolution by minimal filtering is divided, and what it costs.

Numbers come from the machine's description and from counting; the costs that were measured say so.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from tvm_fusionx.expressions.minimal_filtering import WINDOW, Filtering
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts.lanes import lanes_multiplied, rows_by_lanes
from tvm_fusionx.schedules.parts.parallelism import TASK_CYCLES
from tvm_fusionx.schedules.parts.register_tile import COUNTED_LANES, SPARE_REGISTERS
from tvm_fusionx.schedules.windows.output_vectors import OutputVectors, joined_chunks
from tvm_fusionx.schedules.windows.structure import chunks_held
from tvm_fusionx.tir.numbers import divisors

# Output chunks of a panel of weights, best first: as many as leave registers for the sums of a few
# tiles, or each vector of weights would be loaded for too few products. Four chunks with six tiles
# fill 32 registers, three with four tiles or two with six fill 16; measured on Zen 4 with 16, four
# with two tiles take 1.01 to 1.3 times as long.
PANEL_CHUNKS = (4, 3, 2, 1)
FEWEST_COLUMNS = 4

# Measured on Zen 4: cycles for each point of a vector of weights that the kernel transforms.
WEIGHT_TRANSFORM_CYCLES_A_POINT = 3.0
# Measured on Zen 4: cycles to read and write a vector of sums again for each further part of the
# input channels; they come in order from the last-level cache.
SUM_CYCLES = 3.0

# Layout and schedule ask for the same division, and layers repeat.
REMEMBERED_PROBLEMS = 1024

# Measured on Zen 4: cycles for each point of a tile and chunk, to transform input or output, the
# traffic between the second level cache and the registers included.
TRANSFORM_CYCLES_A_POINT = 6.0
# Measured on Zen 4: each vector of weights costs a cycle beside the multiply-adds, for it comes
# from the second level cache.
WEIGHT_CYCLES = 1.0

# What is read in order, weights above all, arrives while products are summed, but not all of it in
# time: measured on Zen 4 over 8 and 16 tiles a task.
EXPOSED_SHARE = 0.5

# Weights of one layer beyond this part of the last-level cache come from memory on each run: the
# other layers displace them. So do the buffers of all tasks that run at once.
LLC_PART_OF_A_LAYER = 2
# Of the traffic of buffers beyond that share, what is neither cached after all nor hidden: between
# what makes 512 channels of 14x14, whose weights weigh more, slower on Zen 4 and what leaves
# 256 channels of 28x28 as they were.
EVICTED_SHARE = 0.25
# Measured on Zen 4: share of the peak that the direct convolution reaches.
DIRECT_EFFICIENCY = 0.95


@dataclass(frozen=True)
class Problem:
    """One convolution by minimal filtering, in numbers."""

    filtering: Filtering
    in_shape: tuple[int, ...]
    """``[N, I / i, H, W, i]``."""
    out_shape: tuple[int, ...]
    """``[N, O / o, rows, columns, o]``."""
    padding: tuple[int, int]
    """Rows of zeros above, columns of zeros to the left."""
    panel: int
    """Output channels of a panel of weights; a multiple of o that divides O."""
    transforms_weights: bool = False
    """Whether the kernel transforms the weights, and not the compiler."""
    joined: int = 1
    """Output chunks that a vector of sums holds."""

    @property
    def in_channels(self) -> int:
        """Input channels."""
        return self.in_shape[1] * self.in_shape[4]

    @property
    def out_channels(self) -> int:
        """Output channels."""
        return self.out_shape[1] * self.out_shape[4]

    @property
    def panels(self) -> int:
        """Panels of weights."""
        return self.out_channels // self.panel

    @property
    def panel_chunks(self) -> int:
        """Output chunks of a panel."""
        return self.panel // self.out_shape[4]

    @property
    def panel_vectors(self) -> OutputVectors:
        """The output channels of a panel as vectors."""
        return OutputVectors(self.panel_chunks, self.out_shape[4], self.joined)

    @property
    def tile_rows(self) -> int:
        """Rows of tiles in an image."""
        return math.ceil(self.out_shape[2] / self.filtering.tile)

    @property
    def tile_columns(self) -> int:
        """Columns of tiles in an image."""
        return math.ceil(self.out_shape[3] / self.filtering.tile)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.out_shape[0] * self.tile_rows * self.tile_columns

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights as they lie in memory."""
        factors = WINDOW * WINDOW if self.transforms_weights else self.filtering.points
        return factors * self.in_channels * self.out_channels * FLOAT_BYTES


@dataclass(frozen=True)
class Cut:
    """How the work is divided."""

    tiles: int
    """Tiles of a task; the last task computes one several times where it does not divide them."""
    panel_tasks: int
    """Tasks that share the panels of weights; divides the panels."""
    columns: int
    """Tiles whose sums are held in registers, at most `tiles`."""
    depth: int | None = None
    """Input chunks that are transformed at once; divides them. All when None."""
    lanes_read: int = 1
    """Input channels of a tile that are loaded at once, and multiplied lane by lane."""

    @property
    def whole_tiles(self) -> int:
        """Tiles of a task where each belongs to one register tile."""
        return math.ceil(self.tiles / self.columns) * self.columns


def panel_channels(out_channels: int, block: int, cpu: Cpu) -> int:
    """Return the output channels of a panel of weights, for results in chunks of `block`."""
    chunks = out_channels // block
    choices = [each for each in PANEL_CHUNKS if chunks % each == 0]
    if lanes_multiplied(cpu) > 1:
        return block * min(choices, key=lambda each: _loads_a_product(each, block, cpu))
    return block * next(
        each
        for each in choices
        if each == 1 or _most_columns(each, block, cpu, 1) >= FEWEST_COLUMNS
    )


def lanes_read(problem: Problem, cpu: Cpu) -> int:
    """Return the input channels that are loaded at once, and multiplied lane by lane; 1 if none."""
    lanes = lanes_multiplied(cpu)
    return lanes if problem.in_shape[4] % lanes == 0 else 1


def _registers_of(chunks: int, block: int, cpu: Cpu) -> int:
    """Return the registers that one channel's weights for so many output chunks take."""
    vectors = OutputVectors(chunks, block, joined_chunks(chunks, block, cpu))
    return vectors.number * math.ceil(vectors.lanes / cpu.lanes)


def _most_columns(chunks: int, block: int, cpu: Cpu, reads: int) -> int:
    """Return the tiles whose sums fit the registers beside a row of weights of so many chunks.

    Where input channels are multiplied lane by lane, `reads` of a tile are held as a vector too.
    """
    if reads > 1:
        return rows_by_lanes(_registers_of(chunks, block, cpu), cpu)
    vectors = OutputVectors(chunks, block, joined_chunks(chunks, block, cpu))
    held = chunks_held(vectors.lanes, cpu)
    return max(1, (held - vectors.number - SPARE_REGISTERS + 1) // vectors.number)


def _loads_a_product(chunks: int, block: int, cpu: Cpu) -> float:
    """Return the loads for each multiply-add of a panel of so many chunks, lane by lane.

    An instruction loads a pair of neighbouring vectors of weights.
    """
    row, reads = _registers_of(chunks, block, cpu), lanes_multiplied(cpu)
    columns = _most_columns(chunks, block, cpu, reads)
    return (math.ceil(row / 2) + columns / reads) / (row * columns)


def tile_choices(problem: Problem) -> list[int]:
    """Return the tiles a task may have: those that cut all tiles into equal parts, or nearly."""
    tiles = problem.tiles
    return sorted({math.ceil(tiles / parts) for parts in range(1, tiles + 1)})


def ready_bytes(problem: Problem, depth: int) -> int:
    """Return the bytes of a panel of weights that the kernel has transformed at once."""
    channels = depth * problem.in_shape[4]
    return problem.filtering.points * channels * problem.panel * FLOAT_BYTES


def depth_choices(problem: Problem) -> list[int]:
    """Return how many input chunks may be transformed at once."""
    return divisors(problem.in_shape[1])


def column_choices(problem: Problem, cpu: Cpu) -> list[int]:
    """Return the tiles whose sums fit the registers beside a row of weights."""
    reads = lanes_read(problem, cpu)
    most = _most_columns(problem.panel_chunks, problem.out_shape[4], cpu, reads)
    return list(range(1, min(most, problem.tiles) + 1))


def best_columns(problem: Problem, tiles: int, cpu: Cpu) -> int:
    """Return the tiles in registers that make the products of `tiles` tiles cheapest."""
    choices = [each for each in column_choices(problem, cpu) if each <= tiles]
    return min(choices, key=lambda each: (product_cycles(problem, Cut(tiles, 1, each), cpu), -each))


def product_cycles(problem: Problem, cut: Cut, cpu: Cpu) -> float:
    """Return the cycles of the products of one panel of weights in one task."""
    vectors = problem.panel_vectors
    sums = vectors.number * cut.columns
    fmas = max(sums, cpu.sums_to_hide_latency) / cpu.multiply_add_units
    loads = (vectors.number + cut.columns) / cpu.loads_a_cycle
    step = max(fmas, loads) + vectors.number * WEIGHT_CYCLES
    steps = problem.filtering.points * math.ceil(cut.tiles / cut.columns)
    return steps * problem.in_channels * step * math.ceil(vectors.lanes / COUNTED_LANES)


def cut_cycles(problem: Problem, cut: Cut, cpu: Cpu) -> float:
    """Return the estimated cycles of `problem` divided by `cut`, on all cores of `cpu`."""
    points = problem.filtering.points
    groups = math.ceil(problem.tiles / cut.tiles)
    rounds = math.ceil(groups * cut.panel_tasks / cpu.cores)
    panels = problem.panels // cut.panel_tasks
    depth = cut.depth or problem.in_shape[1]
    parts = problem.in_shape[1] // depth
    tiles = cut.tiles if parts == 1 else cut.whole_tiles
    vectors = panels * problem.panel_vectors.number
    transforms = (
        tiles * points * problem.in_shape[1] + cut.tiles * points * vectors
    ) * TRANSFORM_CYCLES_A_POINT
    wide = points * tiles * depth * problem.in_shape[4] * FLOAT_BYTES
    narrow = points * tiles * problem.panel * FLOAT_BYTES * (1 if parts == 1 else panels)
    product = panels * product_cycles(problem, cut, cpu) + (
        (parts - 1) * vectors * tiles * points * SUM_CYCLES
    )
    streamed = problem.weight_bytes / cut.panel_tasks
    if problem.transforms_weights:
        transforms += vectors * problem.in_channels * points * WEIGHT_TRANSFORM_CYCLES_A_POINT
        ready = ready_bytes(problem, depth)
        if wide + ready > cpu.l2_for_kernel_bytes:
            # Both are read from the last-level cache, and what is ready is written there first.
            streamed += parts * panels * (wide + 2 * ready)
    elif wide > cpu.l2_for_kernel_bytes:
        streamed += panels * wide
    if cpu.cores * (wide + narrow) > cached_bytes(cpu):
        # Written to memory, and read for each panel: no cache holds the tasks' buffers.
        evicted = (1 + panels) * wide + 2 * panels * narrow
        transforms += EVICTED_SHARE * evicted / cpu.memory_bytes_a_cycle
    stream = streamed / cpu.llc_bytes_a_cycle
    memory = cpu.memory_bytes_a_cycle * cpu.memory_readers
    uncached = max(0, problem.weight_bytes - cached_bytes(cpu)) / memory
    both = max(product, stream) + min(product, stream) * EXPOSED_SHARE
    return rounds * (transforms + both + TASK_CYCLES) + uncached


def cached_bytes(cpu: Cpu) -> int:
    """Return what of a layer the last-level cache holds until the next run."""
    return cpu.llc_slice_bytes // LLC_PART_OF_A_LAYER


def direct_cycles(problem: Problem, cpu: Cpu) -> float:
    """Return the estimated cycles of the direct sum that `problem` replaces, on all cores."""
    batch, chunks, rows, columns, lanes = problem.out_shape
    vectors = batch * chunks * rows * columns * math.ceil(lanes / COUNTED_LANES)
    window = problem.in_channels * WINDOW * WINDOW
    weights = window * problem.out_channels * FLOAT_BYTES / cpu.llc_bytes_a_cycle
    return (vectors * window / cpu.multiply_add_units / DIRECT_EFFICIENCY + weights) / cpu.cores


@functools.lru_cache(maxsize=REMEMBERED_PROBLEMS)
def best_cut(problem: Problem, cpu: Cpu) -> Cut:
    """Return the division with the lowest estimated cost."""
    depths = [problem.in_shape[1]]
    if problem.transforms_weights:
        # What is transformed is read for every register tile: from no further than the L2.
        choices = depth_choices(problem)
        most = cpu.l2_for_kernel_bytes
        depths = [each for each in choices if ready_bytes(problem, each) <= most] or [1]
    columns = {tiles: best_columns(problem, tiles, cpu) for tiles in tile_choices(problem)}
    cuts = [
        Cut(tiles, parts, each, depth)
        for tiles, each in columns.items()
        for parts in divisors(problem.panels)
        for depth in depths
    ]
    return min(cuts, key=lambda cut: cut_cycles(problem, cut, cpu))
