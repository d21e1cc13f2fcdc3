"""Whether a product of dequantized integers is faster on integers, or on floats.

Both have their arithmetic, counted in vector instructions, and what surrounds it. Around integers:
bytes that are widened or shifted for the instruction, sums that become floats again. Around floats:
bytes that become floats before, and four times the memory for what is read. The instruction
decides: one of four products of bytes leaves a quarter of the arithmetic, one of two 16-bit
integers with an addition behind it nothing at all, and minimal filtering of floats may leave a
quarter as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.layout.blocked_convolution import (
    CONV2D,
    convolution_shape,
    integer_chunk,
    is_depthwise,
)
from tvm_fusionx.layout.blocked_tensor import CHANNEL_AXIS, block_for, blocked_shape
from tvm_fusionx.layout.convolution import WIDEST_VECTOR
from tvm_fusionx.layout.merged_groups import MOVED, is_moved, merge_groups
from tvm_fusionx.layout.winograd import filtered_cycles_of
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.integers import DotInstruction
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.rewrite.quantized import WIDE, WORDS, QuantizedData
from tvm_fusionx.schedules.byte_tiles.shape import ProductShape
from tvm_fusionx.schedules.byte_tiles.tiling import tile_cycles, why_not_tiles
from tvm_fusionx.schedules.windows.output_vectors import joined_chunks

# Instructions for a vector, as the kernels are written: a byte becomes a float (widened, converted,
# less its zero point times its scale); a sum becomes one (less the constant of its channel,
# converted, times the scale); a byte changes its sign (one exclusive or, in a load and a store).
TO_FLOAT, FROM_SUM, SHIFT = 3, 3, 1
# A byte is widened by the load itself; taking the zero point away is an instruction.
WIDEN = 1

# A load and a store, of which one begins in a cycle beside the arithmetic.
COPY = 2

# Share of the multiply-adds that templates reach at best, floats and integers alike: 85 to 95 %.
EFFICIENCY = 0.95

# Bytes of a 16-bit integer.
WORD = 2

# What passes from one kernel to the next is written and read.
PASSES = 2


def why_slower_on_integers(node: Node, data: QuantizedData, cpu: Cpu) -> str | None:
    """Return why a product is faster on floats, or None; an estimate, from the processor's rates.

    Parameters
    ----------
    node
        ``nn.dense`` or ``nn.conv2d`` of floats, for which integers have a kernel.
    data
        What it reads, as it is stored.
    cpu
        What runs it; it has an instruction for dot products.
    """
    assert cpu.dot is not None
    integers, floats = integer_cycles(node, data, cpu), float_cycles(node, cpu)
    if integers <= floats:
        return None
    return (
        f"{thousands(integers)} cycles of a core by the estimate on integers, and"
        f" {thousands(floats)} on floats"
    )


def thousands(cycles: float) -> str:
    """Return a number of cycles for people: three digits, in thousands where there are more."""
    return f"{cycles:.0f}" if cycles < 10_000 else f"{cycles / 1000:.4g} thousand"


def integer_cycles(node: Node, data: QuantizedData, cpu: Cpu) -> float:
    """Return the estimated cycles of a core for a product of integers and what is around it."""
    words = data.dtype in WORDS
    dot = cpu.word_dot if words else cpu.dot
    assert dot is not None
    read, made = _elements(node)
    around = FROM_SUM * made / cpu.lanes
    on_tiles = None
    sums: float
    if node.op == CONV2D and is_depthwise(node):
        rows, columns = node.operands[1].shape[2:]
        step = min(columns, int(node.attrs["strides"][1]))
        # A column is read once for all taps that share it, and widened each time it is read.
        widened = rows * (WIDEN + (data.zero != 0)) * step
        taps = rows * columns * _pair_instructions(dot)
        sums = (taps + widened) * _places(node) * _vectors(node, cpu)
    else:
        depth = dot.depth
        groups, inputs, vectors = _integer_terms(node, dot, cpu)
        steps = _terms(node)[1] * math.ceil(inputs / depth)
        each = _dot_instructions(dot, cpu)
        sums = each * groups * steps * _places(node) * vectors
        on_tiles = None if words else _cycles_on_tiles(node, dot, cpu)
        around += _filled_up(node, dot, cpu)
        if data.dtype != dot.data:
            widens = dot.data == WIDE and not words
            changed = WIDEN + (data.zero != 0) if widens else SHIFT
            around += changed * read / cpu.lanes
        around += _pad_instructions(node, data, dot) * read / cpu.lanes
    width = 1 if dot.data != WIDE else 2
    if on_tiles is not None:
        sums = 0
    arithmetic = (on_tiles or 0.0) + (sums + around) / cpu.multiply_adds / EFFICIENCY
    return max(arithmetic, _weight_cycles(node, width, cpu)) + _traffic(
        read, WORD if words else 1, cpu
    )


def _cycles_on_tiles(node: Node, dot: DotInstruction, cpu: Cpu) -> float | None:
    """Return the cycles of the sums on tiles, where these are used."""
    if cpu.tiles is None or cpu.tiles.name_for(dot.data, dot.weights) is None:
        return None
    inputs, _ = _terms(node)
    if node.op == CONV2D:
        vector = _integer_vector(dot, cpu)
        merged = merge_groups(node, vector, dot)
        block, empty = integer_chunk(merged.outputs, vector, dot)
        if merged.number != 1 or block != cpu.tiles.columns:
            return None
        terms, outputs = merged.inputs + -merged.inputs % dot.depth, merged.outputs + empty
        shape = convolution_shape(node, terms, outputs)
    else:
        columns = node.outputs[0].shape[-1]
        terms, outputs = inputs + -inputs % dot.depth, columns + -columns % cpu.tiles.columns
        shape = ProductShape(1, 1, _places(node), terms, outputs)
    return tile_cycles(shape, cpu) if why_not_tiles(shape, cpu) is None else None


def float_cycles(node: Node, cpu: Cpu) -> float:
    """Return the estimated cycles of a core for a product of floats made of bytes."""
    read, _ = _elements(node)
    inputs, window = _terms(node)
    vectors = _vectors(node, cpu)
    sums = window * inputs * _places(node) * vectors / cpu.multiply_adds / EFFICIENCY
    filtered = _filtered(node, cpu)
    if filtered is not None:
        sums = min(sums, filtered * cpu.cores)
    made = TO_FLOAT * read / cpu.lanes / cpu.multiply_adds / EFFICIENCY
    weights = _weight_cycles(node, FLOAT_BYTES, cpu)
    return max(sums + made, weights) + _traffic(read, FLOAT_BYTES, cpu)


def _dot_instructions(dot: DotInstruction, cpu: Cpu) -> float:
    """Return the instructions of a dot product and its addition, or what takes as long."""
    if dot.adds_in_words:
        return cpu.byte_pair_cost
    return 1 if dot.takes_sum else 2


def _pair_instructions(dot: DotInstruction) -> int:
    """Return the instructions of a tap of a window that keeps channels apart, for a vector."""
    return 1 if dot.takes_sum or not dot.pairs else 2


def _pad_instructions(node: Node, data: QuantizedData, dot: DotInstruction) -> int:
    """Return what it takes to copy an element into an image with another border than zeros."""
    if node.op != CONV2D or not any(int(each) for each in node.attrs["padding"]):
        return 0
    takes_zero = dot.data == WIDE and data.dtype not in WORDS
    is_zero = takes_zero or (data.dtype == dot.data and data.zero == 0)
    return 0 if is_zero else 1


def _elements(node: Node) -> tuple[int, int]:
    """Return how many elements a product reads as data, and how many it makes."""
    return node.operands[0].type.elements, node.outputs[0].elements


def _terms(node: Node) -> tuple[int, int]:
    """Return the channels that a sum goes over, and the pixels of its window."""
    shape = node.operands[1].shape
    return shape[1], math.prod(shape[2:])


def _places(node: Node) -> int:
    """Return the rows or pixels of a product's result."""
    result = node.outputs[0]
    channels = result.shape[CHANNEL_AXIS if node.op == CONV2D else -1]
    return result.elements // channels


def _vectors(node: Node, cpu: Cpu) -> int:
    """Return the vectors that hold the channels of a place of the result."""
    if node.op != CONV2D:
        return math.ceil(node.outputs[0].shape[-1] / cpu.lanes)
    channels, groups = node.outputs[0].shape[CHANNEL_AXIS], int(node.attrs["groups"])
    groups = 1 if is_depthwise(node) else groups
    block = block_for(channels // groups, min(WIDEST_VECTOR, cpu.lanes))
    return groups * _vectors_of(channels // groups, block, cpu)


def _integer_terms(node: Node, dot: DotInstruction, cpu: Cpu) -> tuple[int, int, int]:
    """Return groups, the channels that a sum of one goes over, and its vectors of 32-bit sums."""
    if node.op != CONV2D:
        return 1, node.operands[1].shape[1], _vectors(node, cpu)
    vector = _integer_vector(dot, cpu)
    merged = merge_groups(node, vector, dot)
    block, empty = integer_chunk(merged.outputs, vector, dot)
    return merged.number, merged.inputs, _vectors_of(merged.outputs + empty, block, cpu)


def _integer_vector(dot: DotInstruction, cpu: Cpu) -> int:
    return max(min(WIDEST_VECTOR, cpu.lanes), dot.depth)


def _vectors_of(channels: int, block: int, cpu: Cpu) -> int:
    joined = joined_chunks(channels // block, block, cpu)
    return math.ceil(channels // block / joined) * math.ceil(block * joined / cpu.lanes)


def _filled_up(node: Node, dot: DotInstruction, cpu: Cpu) -> float:
    """Return the instructions of copies with zeros behind what an instruction does not divide."""
    read, made = _elements(node)
    if node.op != CONV2D:
        return COPY * read / cpu.lanes if _terms(node)[0] % dot.depth else 0.0
    vector = _integer_vector(dot, cpu)
    merged = merge_groups(node, vector, dot)
    # What is filled up leaves its chunks and enters others.
    copied = COPY * read if merged.inputs % dot.depth else 0
    if copied or (merged.number > 1 and is_moved(merged, vector)):
        copied += MOVED * read
    copied += COPY * made if integer_chunk(merged.outputs, vector, dot)[1] else 0
    return copied / cpu.lanes


def _filtered(node: Node, cpu: Cpu) -> float | None:
    """Return the cycles of minimal filtering on all cores, where floats would be filtered."""
    if node.op != CONV2D or int(node.attrs["groups"]) != 1:
        return None
    steps = (*node.attrs["strides"], *node.attrs["dilation"])
    if any(int(each) != 1 for each in steps):
        return None
    shapes = (node.operands[0].shape, node.outputs[0].shape)
    vector = min(WIDEST_VECTOR, cpu.lanes)
    blocked: Sequence[tuple[int, ...]] = [
        blocked_shape(shape, block_for(shape[CHANNEL_AXIS], vector)) for shape in shapes
    ]
    window = node.operands[1].shape[2:]
    return filtered_cycles_of(blocked[0], blocked[1], window, node.attrs["padding"], cpu)


def _weight_cycles(node: Node, width: int, cpu: Cpu) -> float:
    """Return the cycles to read the weights once."""
    return node.operands[1].type.elements * width / cpu.llc_bytes_a_cycle


def _traffic(elements: int, width: int, cpu: Cpu) -> float:
    """Return the cycles to write and read what passes from the kernel before."""
    size = PASSES * elements * width
    near = size <= cpu.l2_for_kernel_bytes * cpu.cores
    return size / (cpu.l2_bytes_a_cycle if near else cpu.llc_bytes_a_cycle)
