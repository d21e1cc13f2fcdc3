"""Windows whose filters leave zeros out one by one: the cheapest way, and its operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.expressions.sparse_filters import FILTERS, FilterPlanes, register_sparse_filters
from tvm_fusionx.expressions.sparse_products import Geometry
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.sparse.filter_tiling import (
    FilterProduct,
    best_filter_tiling,
    filter_cycles,
    filter_product,
)
from tvm_fusionx.sparse.filters import Filters, find_filters, most_word, store_filters
from tvm_fusionx.sparse.storage import Storage
from tvm_fusionx.sparse.tiling import row_pieces

# Words and their distances have 32 bits.
MOST_WORD = 2**31 - 1

# Of ways that the estimate takes for equal, the one with the fewest bytes is the best.
NEAR = 1.05

# They read vectors that begin anywhere, so they must win over lists, too.
LEAST_GAIN_OVER_LISTS = 1.1

# And by as many times more over a dense product, minimal filtering included, whose estimate is too
# high beside theirs: counted on Neoverse N1, an estimated gain of 1.56 was 0.97 (64 channels at
# 28 x 28, 8x), one of 1.98 was 1.08 (128 at 14 x 14).
CAUTION = 1.6


@dataclass(frozen=True)
class FilterChoice:
    """The cheapest way of a layer to leave zeros out one by one."""

    filters: Filters
    planes: FilterPlanes
    product: FilterProduct
    cycles: float
    """Estimate, on all cores."""

    def is_cheaper(self, cycles: float) -> bool:
        """Tell whether it beats lists that take so many cycles."""
        return self.cycles * LEAST_GAIN_OVER_LISTS <= cycles

    def least_gain(self, least: float) -> float:
        """Return how many times faster than a dense product it must be: of lists, `least`."""
        return least * CAUTION

    def cycles_of(self, share: float, cpu: Cpu) -> float:
        """Return the estimate for as many kernels as a share of the weight's numbers makes."""
        count = np.prod(self.filters.shape) * share
        kernels = max(1, round(count / self.product.taps))
        touched = self.filters.touched / self.filters.kernels * kernels
        product = replace(self.product, kernels=kernels, touched=round(touched))
        return filter_cycles(product, best_filter_tiling(product, cpu), cpu)

    def stored(self, cpu: Cpu) -> Storage:
        """Return the weight as the kernel reads it."""
        parts = best_filter_tiling(self.product, cpu).parts
        return store_filters(self.filters, self.planes, self.product.chunks, parts)


def by_kernel(matrix: np.ndarray, geometry: Geometry) -> np.ndarray:
    """Return a weight ``[O, C / c, h, w, c]`` as ``[O, C, h * w]``."""
    shape = (len(matrix), geometry.chunks, *geometry.kernel, geometry.lanes)
    apart = matrix.reshape(shape).transpose(0, 1, 4, 2, 3)
    return np.ascontiguousarray(apart.reshape(len(matrix), geometry.channels, -1))


def best_filters(
    node: Node, matrix: np.ndarray, geometry: Geometry, cpu: Cpu
) -> FilterChoice | None:
    """Return the cheapest way to leave the zeros of a weight out one by one, or None.

    Parameters
    ----------
    node
        A convolution in chunks.
    matrix, geometry
        Its weight, and its windows.
    """
    images, *_, block = node.outputs[0].shape
    ways = [
        FilterChoice(filters, planes, product, cycles)
        for filters in find_filters(by_kernel(matrix, geometry))
        for planes, product, cycles in _pieces(images, filters, geometry, block, cpu)
    ]
    least = min((way.cycles for way in ways), default=0.0)
    near = [way for way in ways if way.cycles <= NEAR * least]
    return min(near, key=lambda way: (way.filters.numbers, way.cycles), default=None)


def _pieces(
    images: int, filters: Filters, geometry: Geometry, block: int, cpu: Cpu
) -> Iterator[tuple[FilterPlanes, FilterProduct, float]]:
    """Give what filters cost for pieces of so many rows."""
    for rows in row_pieces(geometry.result[0], cpu):
        planes = FilterPlanes(geometry, rows, filters.patterns)
        if most_word(filters, planes) > MOST_WORD:
            continue
        product = filter_product(images, filters, planes, block, cpu)
        yield planes, product, filter_cycles(product, best_filter_tiling(product, cpu), cpu)


def packed_filters(graph: Graph, node: Node, choice: FilterChoice, cpu: Cpu) -> Value:
    """Return the product of a choice, in the place of its node's result."""
    register_sparse_filters()
    stored = choice.stored(cpu)
    attrs = node.attrs.replace(
        channels=choice.filters.shape[0],
        kernel_size=choice.planes.geometry.kernel,
        kernel_layout=choice.planes.text,
    )
    weight = [graph.constant(stored.values), graph.constant(stored.index)]
    return graph.call(FILTERS, [node.operands[0], *weight], attrs, name=node.name)
