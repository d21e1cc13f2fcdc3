"""How a product of filters with zeros of their own is divided, and what it costs.

A tile is some vectors of neighbouring places of the result, for one filter after the other: their
sums stay in registers while the filter's kernels are read once. A tap costs a weight, broadcast,
and for each vector a load and a multiply-add. Most of these loads begin anywhere, and those that
cross a line take two. The sums of a chunk of filters are turned before they are stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as product_of

from tvm_fusionx.expressions.sparse_filters import FilterPlanes
from tvm_fusionx.processors.cpu import FLOAT32_BITS, Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES, LINE_BYTES
from tvm_fusionx.sparse.filters import Filters
from tvm_fusionx.sparse.tiling import (
    CYCLES_TO_MOVE_A_VECTOR,
    L1_SHARE,
    MOST_CHAINS,
    MOST_TASKS_A_CORE,
    PASSES_UNCACHED,
    TASK_CYCLES,
)
from tvm_fusionx.tir.numbers import prime_factors

# Registers that a tile leaves: a weight and what is loaded, which x86 multiplies from memory.
LEFT_FOR_LOADS, LEFT = 8, 3

# A loop over the kernels of a pattern begins and ends: its length is no other's, so that the
# processor guesses wrong where it ends.
CYCLES_A_RUN = 15

# Multiply-adds of a kernel's code: more do not stay in the caches of instructions.
MOST_CODE = 1536

# Where a multiply-add takes nothing from memory, of LLVM's model of Neoverse N1: operations that
# begin in a cycle, and those of a vector (half a load of two, its product), a tap and a kernel.
OPERATIONS_A_CYCLE = 3
VECTOR_OPERATIONS, TAP_OPERATIONS, KERNEL_OPERATIONS = 2.5, 4, 5

# To store a vector of sums, besides turning it: in the scratch, out of it, in the result.
CYCLES_TO_STORE = 4


@dataclass(frozen=True)
class FilterProduct:
    """A product as a tiling counts it."""

    images: int
    rows: int
    """Of the result."""
    at_once: int
    """Of a piece of it."""
    positions: int
    """Of a piece, places between its rows counted."""
    channels: int
    plane: int
    """Elements of a channel of a piece."""
    span: int
    """Elements that the taps of a channel read besides one for each place."""
    filters: int
    block: int
    """Filters of a chunk of the result."""
    patterns: int
    taps: int
    kernels: int
    touched: int
    """Channels that filters read, all together."""
    lanes: int
    """Places of a vector."""

    @property
    def pieces(self) -> int:
        """Of the result."""
        return math.ceil(self.rows / self.at_once)

    @property
    def vectors(self) -> int:
        """Of a piece."""
        return math.ceil(self.positions / self.lanes)

    @property
    def chunks(self) -> int:
        """Of filters."""
        return self.filters // self.block

    @property
    def gathered(self) -> int:
        """Elements that a piece reads."""
        return self.channels * self.plane


@dataclass(frozen=True)
class FilterTiling:
    """How a product is divided."""

    vectors: int
    """Of a tile."""
    chains: int
    """Sums of each place that take turns, so that none waits for itself."""
    parts: int
    """Tasks that share the chunks of filters."""
    tile_outermost: bool
    """Whether the data of a tile stays for all filters, or a chunk's weights for all tiles."""


def lanes_for(cpu: Cpu) -> int:
    """Return the places of a vector: of one as long as a line, what a unit multiplies at once.

    Nearly each of those crosses two lines; of halves, half as many do.
    """
    if cpu.lanes * FLOAT_BYTES < LINE_BYTES:
        return cpu.lanes
    return min(cpu.lanes, cpu.multiply_add_bits // FLOAT32_BITS)


def filter_product(
    images: int, filters: Filters, planes: FilterPlanes, block: int, cpu: Cpu
) -> FilterProduct:
    """Return the product of filters with windows over so many images."""
    count, channels, _ = filters.shape
    return product_of_shapes(
        images, planes, (count, channels, block), (filters.kernels, filters.touched), cpu
    )


def product_of_shapes(
    images: int,
    planes: FilterPlanes,
    shape: tuple[int, int, int],
    kernels: tuple[int, int],
    cpu: Cpu,
) -> FilterProduct:
    """Return the product of so many filters, channels and filters of a chunk.

    Parameters
    ----------
    kernels
        How many are stored, and how many channels they read.
    """
    window = math.prod(planes.geometry.kernel)
    inner = [planes.distance(tap) % planes.part for tap in range(window)]
    return FilterProduct(
        images=images,
        rows=planes.geometry.result[0],
        at_once=planes.rows,
        positions=planes.positions,
        channels=shape[1],
        plane=planes.plane,
        span=max(inner),
        filters=shape[0],
        block=shape[2],
        patterns=planes.pattern_count,
        taps=planes.taps,
        kernels=kernels[0],
        touched=kernels[1],
        lanes=lanes_for(cpu),
    )


def most_vectors(product: FilterProduct, cpu: Cpu) -> int:
    """Return the vectors of a tile that registers hold, and the caches of instructions."""
    left = LEFT_FOR_LOADS if cpu.multiplies_by_lane else LEFT
    code = MOST_CODE // (product.patterns * product.taps)
    return max(1, min(cpu.registers - left, code, product.vectors))


def vector_choices(product: FilterProduct, cpu: Cpu) -> list[int]:
    """Return how many vectors a tile may have."""
    return list(range(1, most_vectors(product, cpu) + 1))


def part_choices(product: FilterProduct, cpu: Cpu) -> list[int]:
    """Return how many tasks may share the chunks."""
    most = cpu.cores * MOST_TASKS_A_CORE
    return [each for each in range(1, most + 1) if product.chunks % each == 0]


def chains_for(vectors: int, cpu: Cpu) -> int:
    """Return how many sums of a place take turns."""
    chains = 1
    while chains < MOST_CHAINS and 2 * chains * vectors <= cpu.sums_to_hide_latency:
        chains *= 2
    return chains


def best_filter_tiling(product: FilterProduct, cpu: Cpu) -> FilterTiling:
    """Return the tiling that is estimated to be the fastest."""
    return min(_tilings(product, cpu), key=lambda tiling: filter_cycles(product, tiling, cpu))


def _tilings(product: FilterProduct, cpu: Cpu) -> Iterator[FilterTiling]:
    most = most_vectors(product, cpu)
    # Of tiles of so many pieces, the smallest: the last one moves back over little.
    few = math.ceil(product.vectors / most)
    vectors = {math.ceil(product.vectors / tiles) for tiles in range(few, 4 * few + 1)}
    for each, parts, outermost in product_of(
        sorted(vectors), part_choices(product, cpu), (False, True)
    ):
        yield FilterTiling(each, chains_for(each, cpu), parts, outermost)


def kernel_cycles(product: FilterProduct, tiling: FilterTiling, cpu: Cpu) -> float:
    """Return the cycles that a tile takes for one kernel."""
    taps, vectors, lanes = product.taps, tiling.vectors, product.lanes
    # Of what a unit multiplies at once, or half of a vector that is wider.
    halves = max(1, cpu.lanes // lanes)
    rate = min(cpu.multiply_add_units, cpu.multiply_adds * halves)
    crossing = (lanes - 1) * FLOAT_BYTES / LINE_BYTES
    loads = taps * (vectors * (1 + crossing) + 1) + 1
    latency = cpu.multiply_add_latency * taps / tiling.chains
    found = max(taps * vectors / rate, loads / cpu.loads_a_cycle, latency)
    if not cpu.multiplies_by_lane:
        return found
    operations = taps * (vectors * VECTOR_OPERATIONS + TAP_OPERATIONS) + KERNEL_OPERATIONS
    return max(found, operations / OPERATIONS_A_CYCLE)


def filter_cycles(product: FilterProduct, tiling: FilterTiling, cpu: Cpu) -> float:
    """Return the estimated cycles of a product until the last core has ended."""
    tiles = math.ceil(product.vectors / tiling.vectors)
    kernels, filters = product.kernels / tiling.parts, product.filters / tiling.parts
    computed = tiles * (
        kernels * kernel_cycles(product, tiling, cpu) + filters * product.patterns * CYCLES_A_RUN
    )
    stored = tiles * filters * tiling.vectors * (_steps(product.block) + CYCLES_TO_STORE)
    one = max(computed, _streaming_cycles(product, tiling, tiles, cpu)) + stored
    one += _gathering_cycles(product, cpu)
    tasks = product.images * product.pieces * tiling.parts
    return math.ceil(tasks / cpu.cores) * (one + TASK_CYCLES)


def _steps(rows: int) -> int:
    """Return the shuffles that turning takes for each vector."""
    return sum(prime - 1 for prime in prime_factors(rows)) if rows > 1 else 0


def _gathering_cycles(product: FilterProduct, cpu: Cpu) -> float:
    """Return the cycles in which a task puts what it reads in planes, from the last cache."""
    size = product.gathered * FLOAT_BYTES
    passes = 1 if size <= cpu.l2_for_kernel_bytes else PASSES_UNCACHED
    vectors = product.gathered / product.lanes
    turning = vectors * (_steps(product.lanes) + CYCLES_TO_MOVE_A_VECTOR)
    return turning + passes * size / cpu.llc_bytes_a_cycle


def _streaming_cycles(product: FilterProduct, tiling: FilterTiling, tiles: int, cpu: Cpu) -> float:
    """Return the cycles that a task waits for caches behind the first: planes, and weights."""
    room = cpu.l1_bytes / L1_SHARE
    places = tiling.vectors * product.lanes + product.span
    a_tile = product.channels * places * FLOAT_BYTES
    planes = product.gathered * FLOAT_BYTES
    read = product.touched / tiling.parts * tiles * places * FLOAT_BYTES
    stays = a_tile <= room if tiling.tile_outermost else planes <= room
    data = 0.0 if stays else read / _bytes_a_cycle(planes, cpu)
    weights = product.kernels / tiling.parts * (product.taps + 1) * FLOAT_BYTES
    chunks = max(1.0, product.chunks / tiling.parts)
    kept = weights if tiling.tile_outermost else weights / chunks
    again = weights if kept <= room else weights * tiles
    return data + again / _bytes_a_cycle(weights, cpu)


def _bytes_a_cycle(size: float, cpu: Cpu) -> float:
    """Return what a core streams from the cache that holds so much."""
    return cpu.l2_bytes_a_cycle if size <= cpu.l2_for_kernel_bytes else cpu.llc_bytes_a_cycle
