"""What a layer that reuses products costs, counted from the processor's row."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.reuse.layer import ReuseLayer
from tvm_fusionx.reuse.tiling import MOST_ROWS, hash_vectors, result_lanes

# Of a segment besides its multiply-adds: bits put together, the table, a branch that may miss, the
# loop over its numbers.
CYCLES_A_SEGMENT = 24

# Of a row's segment in the sums: its cluster is read, and an address made of it.
CYCLES_A_SUM = 3

# Share of the multiply-adds that dense templates reach at best; small products reach no more.
EFFICIENCY = 0.95


@dataclass(frozen=True)
class Found:
    """What hashing found, of a layer's whole batch.

    Attributes
    ----------
    clusters
        Of all segments.
    singles
        Segments without a cluster.
    """

    clusters: float
    singles: float


@dataclass(frozen=True)
class ReuseCycles:
    """Estimates on all cores.

    Attributes
    ----------
    hashing
        Codes, tables, and what stands for each cluster.
    multiplying
        The products of clusters and single segments.
    adding
        Each row's products.
    """

    hashing: float
    multiplying: float
    adding: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.hashing + self.multiplying + self.adding


def reuse_cycles(layer: ReuseLayer, found: Found, cpu: Cpu) -> ReuseCycles:
    """Return what a layer takes where so many clusters were found."""
    rows = layer.images * layer.pixels
    vectors = hash_vectors(layer, cpu)
    tile = max(1, min(MOST_ROWS, (cpu.registers - vectors - 1) // vectors))
    # A tile's numbers are broadcast from memory, the projections loaded once for it.
    a_column = max(tile * vectors / cpu.multiply_adds, (tile + vectors) / cpu.loads_a_cycle) / tile
    hashing = rows * (layer.columns * a_column + layer.segment_count * CYCLES_A_SEGMENT)
    if layer.takes_mean and not layer.kept:
        # Two loads and a store for each vector of numbers.
        hashing += rows * layer.columns / cpu.lanes * 2 / cpu.loads_a_cycle
    wide = layer.channels / result_lanes(layer, cpu)
    a_segment = layer.columns / layer.segment_count * wide / cpu.multiply_adds / EFFICIENCY
    multiplying = (found.clusters + found.singles) * a_segment
    adding = rows * layer.segment_count * (wide / cpu.loads_a_cycle + CYCLES_A_SUM)
    shared = math.ceil(layer.segment_count / cpu.cores) / layer.segment_count
    if layer.kept:
        # Tasks share rows from the beginning.
        shared = 1 / cpu.cores
    return ReuseCycles(hashing * shared, multiplying * shared, adding / cpu.cores)
