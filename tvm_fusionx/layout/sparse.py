"""Products with constant weights whose zeros are left out, where that is faster than the dense one.

Three questions, each with a reason for no: *can* a product be computed so, *which* groups are the
cheapest by the cost that the schedules count, and *should* it be, does it gain enough over the
dense product, minimal filtering included. What is found is read off the constants; nothing else
says that a weight was pruned.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.expressions.sparse_products import (
    CONV2D,
    DENSE,
    FLOAT,
    PLANES,
    Geometry,
    depth_of,
    register_sparse_products,
)
from tvm_fusionx.layout.blocked_convolution import CONV2D as CONVOLUTION
from tvm_fusionx.layout.blocked_convolution import DENSE_BLOCKED
from tvm_fusionx.layout.blocked_tensor import reshape
from tvm_fusionx.layout.dense import BATCH_MATMUL, MATMUL, by_column, why_not_constant
from tvm_fusionx.layout.dense import DENSE as MATRIX_PRODUCT
from tvm_fusionx.layout.gpu_products import dense_issued, least_issued, plane_product
from tvm_fusionx.layout.sparse_filters import FilterChoice, best_filters, packed_filters
from tvm_fusionx.layout.winograd import filtered_cycles
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.processors.integers import SUM
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.windows.output_vectors import joined_chunks
from tvm_fusionx.sparse import Lists, as_words, find_lists, store_lists
from tvm_fusionx.sparse.product_of import dense_product, window_product
from tvm_fusionx.sparse.tiling import Product, best_tiling, cycles

logger = logging.getLogger(__name__)

# Weights with fewer zeros than this are not looked at: no structure in them gains anything.
LEAST_ZEROS = 0.25

# It must win clearly: the estimate knows no cache misses of data that is read here and there.
LEAST_GAIN = 1.15

# Share of the multiply-adds that dense templates reach at best (85 to 95 % of the peak): a layer
# that one of them serves well shall not lose.
DENSE_EFFICIENCY = 0.95

# Vectors of a group of channels.
MOST_VECTORS = 4

# Fewer channels than this fill no vector of any processor.
FEWEST_CHANNELS = 4

# To which a break-even density is told.
BREAK_EVEN_STEP = 0.01

# What is looked at: products of matrices, and windows in either layout.
PRODUCTS = frozenset([MATRIX_PRODUCT, MATMUL, BATCH_MATMUL, CONVOLUTION, DENSE_BLOCKED])


@dataclass(frozen=True)
class Layer:
    """A product with a constant weight, as a matrix, and all that its sparse kernel depends on."""

    node: Node
    matrix: np.ndarray
    """``[O, K]``, floats or short integers."""
    geometry: Geometry | None
    """None where it is a product of matrices."""
    lanes: int
    """Channels of a vector."""
    block: int
    """Channels of a chunk of the result; 1 for a matrix."""

    @property
    def density(self) -> float:
        """Share of the weight that is not zero."""
        return float(np.count_nonzero(self.matrix) / max(1, self.matrix.size))

    @property
    def depth(self) -> int:
        """Numbers of a word: what takes the place of a float."""
        return depth_of(self.matrix.dtype)

    @property
    def words(self) -> np.ndarray:
        """Whether a word of the weight has a number that is not zero, ``[O, K / depth]``."""
        return as_words(self.matrix, self.depth)

    @property
    def places(self) -> int:
        """Places of the result, each with all channels."""
        return self.node.outputs[0].elements // self.matrix.shape[0]

    def product(self, lists: Lists) -> Product:
        """Return the product with lists of the weight, as CPUs compute it."""
        told = (lists.groups, lists.entries, lists.width // self.lanes, self.lanes)
        if self.geometry is None:
            return dense_product(self.places, self.matrix.shape[1] // self.depth, *told)
        words = self.geometry.in_words(self.depth)
        return window_product(self.node.outputs[0].shape[0], words, *told)


@dataclass(frozen=True)
class Choice:
    """What was found of a layer, and what was chosen."""

    layer: Layer
    lists: Lists
    """Those with the lowest estimate."""
    sparse_cycles: float
    """Estimate, on all cores; of a GPU, multiply-adds or loads, whichever fall less."""
    dense_cycles: float
    """Estimate of the fastest dense way; of a GPU, the same of the dense product."""
    reason: str | None
    """Why it stays dense; None where it does not."""
    filters: FilterChoice | None = None
    """Where leaving zeros out one by one is the cheapest; lists are not used then."""

    @property
    def gain(self) -> float:
        """How many times faster than the dense product it should be."""
        return self.dense_cycles / max(1.0, self.sparse_cycles)


def why_not_sparse(node: Node, cpu: Cpu | Gpu) -> str | None:
    """Return why a product cannot leave zeros out, or None; numbers are not looked at."""
    if isinstance(cpu, Gpu) and node.outputs[0].dtype == SUM:
        return "on a GPU only floats leave zeros out, and it multiplies integers"
    if node.op == DENSE_BLOCKED:
        return _why_not_window(node, cpu)
    reason = why_not_constant(node, cpu.dot)
    if reason is not None:
        return reason
    channels = node.outputs[0].shape[-1]
    if node.outputs[0].dtype != SUM and node.operands[0].dtype != FLOAT:
        return f"its data is {node.operands[0].dtype}"
    if channels < FEWEST_CHANNELS:
        return f"{channels} columns fill no vector"
    if node.outputs[0].dtype == SUM:
        return _why_not_words(node.operands[0].shape[-1], _lanes(channels, cpu), cpu)
    return None


def _why_not_words(length: int, lanes: int, cpu: Cpu | Gpu) -> str | None:
    """Return why no instruction multiplies words of so many neighbouring integers, or None."""
    if cpu.dot is None or cpu.dot.rows > 1 or cpu.dot.adds_in_words:
        return "no instruction multiplies integers of single rows"
    if cpu.dot.name_for(lanes) is None:
        return f"no instruction sums {lanes} channels of integers"
    if length % cpu.dot.depth:
        return f"its {length} neighbouring integers are no words of {cpu.dot.depth}"
    return None


def _lanes(channels: int, cpu: Cpu | Gpu) -> int:
    return min(cpu.lanes, 1 << (channels.bit_length() - 1))


def _why_not_window(node: Node, cpu: Cpu | Gpu) -> str | None:
    data, weights = node.operands[:2]
    if not weights.is_constant:
        return "its weights are not constant"
    is_of_integers = node.outputs[0].dtype == SUM
    types = (data.dtype, weights.dtype)
    wanted = (FLOAT, FLOAT)
    if is_of_integers and cpu.dot is not None:
        wanted = (cpu.dot.data, cpu.dot.weights)
    if types != wanted:
        return f"it multiplies {data.dtype} by {weights.dtype}"
    if int(node.attrs["groups"]) != 1:
        return f"its channels are in {node.attrs['groups']} groups"
    block = node.outputs[0].shape[-1]
    if not FEWEST_CHANNELS <= block <= cpu.lanes:
        return f"chunks of {block} channels are no vector of {cpu.lanes} lanes, nor part of one"
    if is_of_integers:
        _, chunks, *_ = node.outputs[0].shape
        lanes = block * joined_chunks(chunks, block, cpu)
        return _why_not_words(data.shape[-1], lanes, cpu)
    return None


def layer_of(node: Node, cpu: Cpu | Gpu) -> Layer:
    """Return a product that can leave zeros out as its kernel sees it."""
    if node.op != DENSE_BLOCKED:
        matrix = by_column(node)
        return Layer(node, matrix, None, _lanes(matrix.shape[0], cpu), 1)
    shape, attrs = node.operands[0].shape, node.attrs
    weights = node.operands[1].array
    told = (*weights.shape[2:4], *attrs["strides"], *attrs["dilation"], *attrs["padding"])
    geometry = replace(Geometry.of(shape, told), planar=isinstance(cpu, Gpu))
    _, chunks, _, _, block = node.outputs[0].shape
    if node.outputs[0].dtype == SUM:
        # [O / o, I / i, h, w, i / d, o, d]
        matrix = weights.transpose(0, 5, 1, 2, 3, 4, 6)
    else:
        matrix = weights.transpose(0, 5, 1, 2, 3, 4)
    matrix = matrix.reshape(chunks * block, -1)
    return Layer(node, matrix, geometry, block * joined_chunks(chunks, block, cpu), block)


def choose(node: Node, cpu: Cpu | Gpu, least_gain: float = LEAST_GAIN) -> Choice | str:
    """Return what was found of a product, or why nothing was looked for."""
    reason = why_not_sparse(node, cpu)
    if reason is not None:
        return reason
    weights = node.operands[1].array
    zeros = 1 - np.count_nonzero(weights) / max(1, weights.size)
    if zeros < LEAST_ZEROS:
        return f"{zeros:.0%} of its weights are zero, fewer than {LEAST_ZEROS:.0%}"
    return judge(layer_of(node, cpu), cpu, least_gain)


# Of lists, or of as many entries as are given: what the sparse product takes, and the dense one.
Estimate = Callable[[Lists, "int | None"], "tuple[float, float]"]


def _estimates(layer: Layer, processor: Cpu | Gpu) -> Estimate:
    if isinstance(processor, Gpu):
        return _estimates_of_gpu(layer, processor)
    dense = dense_cycles(layer, processor)

    def estimate(lists: Lists, entries: int | None) -> tuple[float, float]:
        product = layer.product(lists)
        if entries is not None:
            product = replace(product, entries=entries)
        return cycles(product, best_tiling(product, processor), processor), dense

    return estimate


def _estimates_of_gpu(layer: Layer, gpu: Gpu) -> Estimate:
    channels, length = layer.matrix.shape
    images = 1 if layer.geometry is None else layer.node.outputs[0].shape[0]
    dense = dense_issued(layer.places, channels, length, layer.geometry, gpu)

    def estimate(lists: Lists, entries: int | None) -> tuple[float, float]:
        pixels = layer.places // images
        product = plane_product(images, pixels, length, layer.geometry, lists, layer.lanes)
        if entries is not None:
            product = replace(product, entries=entries)
        return least_issued(product, gpu).beside(dense)

    return estimate


def judge(layer: Layer, processor: Cpu | Gpu, least_gain: float = LEAST_GAIN) -> Choice:
    """Return the cheapest lists of a layer, and whether they beat the dense product."""
    estimate = _estimates(layer, processor)

    def cost(lists: Lists) -> float:
        sparse, dense = estimate(lists, None)
        return sparse / max(1.0, dense)

    channels, words = layer.matrix.shape[0], layer.words
    widths = [each * layer.lanes for each in range(1, MOST_VECTORS + 1)]
    found = [find_lists(words, width) for width in widths if width <= channels]
    lists = min(found, key=cost)
    if isinstance(processor, Cpu):
        parts = best_tiling(layer.product(lists), processor).group_parts
        if parts > 1:
            lists = find_lists(words, lists.width, tasks=parts)
    choice = _or_filters(Choice(layer, lists, *estimate(lists, None), None), processor)
    if choice.filters is not None:
        least_gain = choice.filters.least_gain(least_gain)
    if choice.gain >= least_gain:
        return choice
    needed = f"groups of {lists.width} channels need {lists.density:.0%} of the columns"
    if choice.filters is not None:
        needed = f"its filters need {choice.filters.filters.density:.0%} of their numbers each"
    why = f"it would gain {choice.gain:.2f} times, less than {least_gain:.2f}: {needed}"
    return replace(choice, reason=why)


def _or_filters(choice: Choice, processor: Cpu | Gpu) -> Choice:
    """Return a choice that leaves zeros out one by one, where that is cheaper than lists."""
    layer = choice.layer
    if isinstance(processor, Gpu) or layer.geometry is None or layer.depth > 1:
        return choice
    found = best_filters(layer.node, layer.matrix, layer.geometry, processor)
    if found is None or not found.is_cheaper(choice.sparse_cycles):
        return choice
    return replace(choice, filters=found, sparse_cycles=found.cycles)


def break_even_density(choice: Choice, processor: Cpu | Gpu) -> float:
    """Return the share of columns in each list at which the sparse product takes as long.

    Of the numbers of the weight, where zeros are left out one by one. 1 where even whole lists are
    faster, 0 where empty ones are not.
    """
    lists, columns = choice.lists, choice.lists.shape[1]
    estimate = _estimates(choice.layer, processor)

    def is_faster(share: float) -> bool:
        if choice.filters is not None and isinstance(processor, Cpu):
            return choice.filters.cycles_of(share, processor) < choice.dense_cycles
        sparse, dense = estimate(lists, round(share * lists.groups * columns))
        return sparse < dense

    low, high = 0.0, 1.0
    if not is_faster(low):
        return low
    if is_faster(high):
        return high
    while high - low > BREAK_EVEN_STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if is_faster(middle) else (low, middle)
    return low


def dense_cycles(layer: Layer, cpu: Cpu) -> float:
    """Return the estimated cycles of the fastest dense way, on all cores."""
    channels, length = layer.matrix.shape[0], layer.matrix.shape[1] // layer.depth
    vectors = math.ceil(channels / layer.lanes)
    sums = layer.places * vectors * length / cpu.multiply_adds / DENSE_EFFICIENCY
    read = channels * length * FLOAT_BYTES / cpu.llc_bytes_a_cycle
    # With few places for each weight, reading it takes longer than multiplying it.
    direct = max(sums, read) / cpu.cores
    is_filterable = layer.geometry is not None and layer.depth == 1
    filtered = filtered_cycles(layer.node, cpu) if is_filterable else None
    return direct if filtered is None else min(direct, filtered)


def has_zeros(graph: Graph) -> bool:
    """Tell whether any constant that a product might read has enough zeros to look for more."""
    found = (
        value.array
        for node in graph.calls()
        if node.op in PRODUCTS
        for value in node.operands[1:2]
        if value.is_constant
    )
    return any(np.count_nonzero(array) <= (1 - LEAST_ZEROS) * array.size for array in found)


def pack_sparse(graph: Graph, cpu: Cpu | Gpu, least_gain: float = LEAST_GAIN) -> int:
    """Leave out the zeros of constant weights where that pays, in place.

    Parameters
    ----------
    graph
        The graph, after :func:`tvm_fusionx.layout.pack_convolutions`.
    cpu
        What the costs are counted for.
    least_gain
        How many times faster than the dense product one should be.

    Returns
    -------
    int
        Number of products changed.
    """
    changed = 0
    for node in list(graph.calls()):
        choice = choose(node, cpu, least_gain)
        reason = choice if isinstance(choice, str) else choice.reason
        if reason is None and isinstance(choice, Choice):
            graph.replace(node[0], packed(graph, choice, cpu))
            changed += 1
        else:
            logger.debug("%s stays dense: %s", node.name or node.op, reason)
    graph.prune()
    return changed


def packed(graph: Graph, choice: Choice, cpu: Cpu | Gpu) -> Value:
    """Return the sparse product of a choice, in the place of its node's result."""
    if choice.filters is not None and isinstance(cpu, Cpu):
        return packed_filters(graph, choice.layer.node, choice.filters, cpu)
    register_sparse_products()
    layer, node, geometry = choice.layer, choice.layer.node, choice.layer.geometry
    offsets = None if geometry is None else geometry.in_words(layer.depth).offsets()
    stored = store_lists(layer.matrix, choice.lists, layer.lanes, offsets, layer.depth)
    weight = [graph.constant(stored.values), graph.constant(stored.index)]
    data = node.operands[0]
    if geometry is not None:
        attrs = node.attrs.replace(
            channels=layer.matrix.shape[0],
            kernel_size=geometry.kernel,
            **({"kernel_layout": PLANES} if geometry.planar else {}),
        )
        return graph.call(CONV2D, [data, *weight], attrs, name=node.name)
    result_type = node.outputs[0].dtype
    attrs = default_attributes(DENSE, units=layer.matrix.shape[0], out_dtype=result_type)
    matrix = reshape(graph, data, (layer.places, layer.matrix.shape[1]))
    result = graph.call(DENSE, [matrix, *weight], attrs, name=node.name)
    return reshape(graph, result, node.outputs[0].shape)
