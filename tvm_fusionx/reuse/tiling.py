"""How a convolution that reuses products is divided: tiles of hashing, products, and sums."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.reuse.layer import PANEL, ReuseLayer

# Rows of a tile, of hashing and of products, at most.
MOST_ROWS = 8

# Vectors of channels at most: streams of weights side by side.
MOST_VECTORS = 4


@dataclass(frozen=True)
class ReuseTiling:
    """How a layer is divided."""

    hash_lanes: int
    """Projections of a vector."""
    hash_rows: int
    """Rows that are hashed at once."""
    lanes: int
    """Channels of a vector of the result."""
    product_rows: int
    """Clusters of a tile of products."""
    product_vectors: int
    """Vectors of channels of it."""
    sum_vectors: int
    """Vectors of channels of a row whose products are added at once."""


def hash_lanes(layer: ReuseLayer, cpu: Cpu) -> int:
    """Return the projections of a vector: no more than the bits need."""
    needed = 1 << (layer.bits - 1).bit_length()
    return max(1, min(cpu.lanes, PANEL, needed))


def result_lanes(layer: ReuseLayer, cpu: Cpu) -> int:
    """Return the channels of a vector: a power of two that divides a chunk of the result."""
    return math.gcd(cpu.lanes, layer.block)


def hash_vectors(layer: ReuseLayer, cpu: Cpu) -> int:
    """Return the vectors that the projections of a row fill."""
    return math.ceil(layer.bits / hash_lanes(layer, cpu))


def hash_row_choices(layer: ReuseLayer, cpu: Cpu) -> tuple[int, ...]:
    """Return how many rows may be hashed at once."""
    vectors = hash_vectors(layer, cpu)
    most = max(1, (cpu.registers - vectors - 1) // vectors)
    return tuple(range(1, min(most, MOST_ROWS, layer.rows) + 1))


def vector_choices(layer: ReuseLayer, cpu: Cpu) -> tuple[int, ...]:
    """Return how many vectors of channels a tile may have: those that divide all."""
    whole = layer.channels // result_lanes(layer, cpu)
    return tuple(each for each in range(1, MOST_VECTORS + 1) if whole % each == 0)


def product_row_choices(layer: ReuseLayer, vectors: int, cpu: Cpu) -> tuple[int, ...]:
    """Return how many clusters a tile of so many vectors may have."""
    most = max(1, (cpu.registers - vectors - 1) // vectors)
    return tuple(range(1, min(most, MOST_ROWS, layer.clusters) + 1))
