"""Products whose weights stay in 4 or 8 bits, where reading them is what takes the time.

A product of few rows reads each weight for few multiplications, so memory decides its time, and
packed weights take an eighth or a quarter of it. With many rows arithmetic decides, and unpacking
adds to it. Both times follow from the processor's rates.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.expressions.block_weights import (
    DENSE,
    DENSE_WITH_MINIMA,
    NIBBLE_BITS,
    NIBBLES,
    NIBBLES_ZERO,
    block_numbers,
    register_block_weights,
)
from tvm_fusionx.layout.block_weights import LEAST_WIDTH, panel_width
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.rewrite.dequantized_constants import (
    KnownIntegers,
    dequantization_of,
    known_integers,
)
from tvm_fusionx.schedules.packed.tiling import FLOATS, default_panels, default_rows

logger = logging.getLogger(__name__)

Array = np.ndarray[Any, Any]

FLOAT_DENSE = "nn.dense"

# Numbers that share a scale: ONNX Runtime's least (a kernel's steps divide it), and the most,
# beyond which scales take no room worth longer blocks.
SMALLEST_BLOCK = 16
LARGEST_BLOCK = 128

# To make a vector of weights: widen, mask or shift, convert, scale (`schedules/packed/kernel.py`).
UNPACKING_INSTRUCTIONS = 4


@dataclass(frozen=True)
class PackedWeight:
    """What `expressions.block_weights` reads."""

    levels: Array
    """``[N, blocks, bytes]``."""

    scales: Array
    """``[N, blocks]``, float32."""

    minima: Array | None
    """As scales."""

    @property
    def bytes_a_number(self) -> float:
        """What a number takes in memory, with its share of the scale."""
        numbers = self.scales.size * block_numbers(self.levels)
        return sum(part.nbytes for part in self.arrays) / numbers

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What there is of levels, scales and minima."""
        parts = (self.levels, self.scales, self.minima)
        return tuple(part for part in parts if part is not None)


def pack_products(graph: Graph, cpu: Cpu) -> int:
    """Let products read constants of integers as they lie, where that is the cheaper, in place.

    Parameters
    ----------
    graph
        Its weights are results of ``qnn.dequantize``.
    cpu
        What runs it.

    Returns
    -------
    int
        How many products changed. Why the others did not is logged.
    """
    register_block_weights()
    found = [node for node in graph.calls() if _reads_integers(node)]
    total = sum(node.operands[1].type.elements for node in found)
    packed: dict[Value, PackedWeight | str] = {}
    constants: dict[Value, list[Value]] = {}
    count = 0
    for node in found:
        data, weights = node.operands
        reason = why_not_packed(node, cpu, total)
        if reason is None:
            if weights not in packed:
                packed[weights] = in_blocks(known_integers(weights))
            made = packed[weights]
            if isinstance(made, str):
                reason = made
            else:
                reason = why_not_cheaper(node, made.bytes_a_number, total, cpu)
        if reason is not None:
            logger.debug("%s reads floats: %s", node.name, reason)
            continue
        assert isinstance(made, PackedWeight)
        if weights not in constants:
            constants[weights] = [graph.constant(part) for part in made.arrays]
        operator = DENSE if made.minima is None else DENSE_WITH_MINIMA
        result = graph.call(operator, [data, *constants[weights]], name=node.name)
        graph.replace(node[0], result)
        count += 1
    if count:
        graph.prune()
    return count


def _reads_integers(node: Node) -> bool:
    return node.op == FLOAT_DENSE and dequantization_of(node.operands[1]) is not None


def why_not_packed(node: Node, cpu: Cpu, total: int) -> str | None:
    """Return why a product is faster with weights of floats, or has no packed ones, or None.

    Parameters
    ----------
    node
        A ``nn.dense`` whose weights are dequantized constants.
    cpu
        What runs it.
    total
        How many such weights the model has: all of them pass the caches in each inference.
    """
    data, weights = node.operands
    if data.dtype != "float32" or node.outputs[0].dtype != "float32":
        return f"it multiplies {data.dtype} to {node.outputs[0].dtype}"
    outputs, length = weights.shape
    if panel_width(outputs, cpu) < LEAST_WIDTH:
        return f"its {outputs} outputs fill no panels"
    if length % SMALLEST_BLOCK:
        return f"its {length} inputs are no blocks of {SMALLEST_BLOCK}"
    source = dequantization_of(weights)
    assert source is not None
    has_nibbles = _span(source.operands[0].array) < 1 << NIBBLE_BITS
    return why_not_cheaper(node, 1 / (1 + has_nibbles), total, cpu)


def why_not_cheaper(node: Node, bytes_a_number: float, total: int, cpu: Cpu) -> str | None:
    """Return why a product is faster with weights of floats than with packed ones, or None."""
    rows, outputs = int(node.operands[0].shape[0]), int(node.operands[1].shape[0])
    packed = packed_cycles(rows, outputs, bytes_a_number, total, cpu)
    floats = float_cycles(rows, total, cpu)
    if packed <= floats:
        return None
    return (
        f"with {rows} rows a weight takes {packed:.2f} cycles of a core packed, and {floats:.2f} "
        "as a float"
    )


def float_cycles(rows: int, total: int, cpu: Cpu) -> float:
    """Return the cycles that a core spends on a float32 weight: reads it, or multiplies it."""
    reading = FLOAT_BYTES / _bytes_a_cycle(FLOAT_BYTES * total, cpu)
    return max(reading, rows / (cpu.multiply_adds * cpu.lanes))


def packed_cycles(rows: int, outputs: int, bytes_a_number: float, total: int, cpu: Cpu) -> float:
    """Return the cycles that a core spends on a packed weight: reads it, or unpacks and multiplies.

    Parameters
    ----------
    rows
        Of the data.
    outputs
        Of the weights.
    bytes_a_number
        What a weight takes in memory.
    total
        Weights of the model.
    cpu
        What runs it.
    """
    width = panel_width(outputs, cpu)
    panels = default_panels(outputs // width, rows, cpu, FLOATS)
    tiles = math.ceil(rows / default_rows(rows, panels, cpu, FLOATS))
    arithmetic = (UNPACKING_INSTRUCTIONS * tiles + rows) / (cpu.multiply_adds * width)
    return max(bytes_a_number / _bytes_a_cycle(bytes_a_number * total, cpu), arithmetic)


def _bytes_a_cycle(room: float, cpu: Cpu) -> float:
    """Return what a core streams of weights that take `room` bytes and are read again and again."""
    if room <= cpu.l2_for_kernel_bytes * cpu.cores:
        return cpu.l2_bytes_a_cycle
    if room <= cpu.llc_slice_bytes:
        return cpu.llc_bytes_a_cycle
    return cpu.memory_bytes_a_cycle * min(1.0, cpu.memory_readers / cpu.cores)


def _span(integers: Array) -> int:
    return int(integers.max()) - int(integers.min())


def in_blocks(known: KnownIntegers) -> PackedWeight | str:
    """Return a matrix ``[N, K]`` in blocks along its rows, or why it has none."""
    outputs, length = known.integers.shape
    size = _block_size(known)
    if size is None:
        return "its scales do not belong to blocks of inputs"
    blocks = length // size
    scales = np.ascontiguousarray(known.scales.reshape(outputs, blocks, size)[..., 0])
    zeros = known.zeros.reshape(outputs, blocks, size)[..., 0]
    from_zero = known.integers - known.zeros
    low, high = int(from_zero.min()), int(from_zero.max())
    if low >= -NIBBLES_ZERO and high < (1 << NIBBLE_BITS) - NIBBLES_ZERO:
        return PackedWeight(_nibbles(from_zero + NIBBLES_ZERO, blocks), scales, None)
    least = int(known.integers.min())
    if _span(known.integers) < 1 << NIBBLE_BITS:
        return PackedWeight(
            _nibbles(known.integers - least, blocks), scales, _minima(scales, least - zeros)
        )
    limits = np.iinfo("int8")
    if limits.min <= low and high <= limits.max:
        return PackedWeight(_bytes(from_zero, blocks), scales, None)
    shift = max(0, int(known.integers.max()) - int(limits.max))
    return PackedWeight(
        _bytes(known.integers - shift, blocks), scales, _minima(scales, shift - zeros)
    )


def _block_size(known: KnownIntegers) -> int | None:
    """Return how many numbers of a row share a scale and a zero point."""
    outputs, length = known.integers.shape
    size = LARGEST_BLOCK
    while size >= SMALLEST_BLOCK:
        if length % size == 0 and all(
            (part.reshape(outputs, -1, size) == part.reshape(outputs, -1, size)[..., :1]).all()
            for part in (known.scales, known.zeros)
        ):
            return size
        size //= 2
    return None


def _minima(scales: Array, least: Array) -> Array:
    return np.ascontiguousarray((scales * least).astype("float32"))


def _bytes(levels: Array, blocks: int) -> Array:
    return np.ascontiguousarray(levels.astype("int8").reshape(len(levels), blocks, -1))


def _nibbles(levels: Array, blocks: int) -> Array:
    low, high = np.split(levels.astype(NIBBLES).reshape(len(levels), blocks, -1), 2, axis=-1)
    return np.ascontiguousarray(low | high << NIBBLE_BITS)
