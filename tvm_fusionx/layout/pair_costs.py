"""Whether a product of two dequantized activations is faster on integers, or on floats.

As :mod:`tvm_fusionx.layout.integer_costs`, of which this is the other kind. What the right side's
integers cost besides: they are put into panels while the program runs, floats too; and what the
zero points of both sides added is summed.
"""

from __future__ import annotations

import math

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.layout.integer_costs import (
    COPY,
    EFFICIENCY,
    FROM_SUM,
    PASSES,
    SHIFT,
    TO_FLOAT,
    WIDEN,
    thousands,
)
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.rewrite.quantized import WIDE, shift_between
from tvm_fusionx.rewrite.quantized_pairs import Side, sides_of


def why_pair_slower_on_integers(node: Node, cpu: Cpu) -> str | None:
    """Return why a product of two activations is faster on floats, or None; an estimate.

    Parameters
    ----------
    node
        ``nn.dense`` or ``nn.batch_matmul`` of floats, both sides dequantized bytes.
    cpu
        What runs it; it has an instruction for dot products.
    """
    assert cpu.dot is not None
    integers = pair_integer_cycles(node, sides_of(node), cpu)
    floats = pair_float_cycles(node, cpu)
    if integers <= floats:
        return None
    return (
        f"{thousands(integers)} cycles of a core by the estimate on integers, and"
        f" {thousands(floats)} on floats"
    )


def pair_integer_cycles(node: Node, sides: tuple[Side, Side], cpu: Cpu) -> float:
    """Return the estimated cycles of a core for a product of integers and what is around it."""
    dot = cpu.dot
    assert dot is not None
    left, right = (value.type.elements for value in node.operands)
    terms = node.operands[0].shape[-1]
    each = 1 if dot.takes_sum else 2
    sums = each * math.ceil(terms / dot.depth) * _vectors(node, cpu)
    around = FROM_SUM * node.outputs[0].elements / cpu.lanes
    wanted = (dot.data, dot.weights)
    for side, other, dtype, elements in zip(sides, sides[::-1], wanted, (left, right), strict=True):
        if dtype == WIDE:
            around += (WIDEN + (side.zero != 0)) * elements / cpu.lanes
        elif side.source.dtype != dtype:
            around += SHIFT * elements / cpu.lanes
        if _adds(other, wanted[other is sides[1]]):
            around += (WIDEN + 1) * elements / cpu.lanes
    moved = right / dot.depth if _keeps_terms(sides[1]) else right
    width = 1 if dot.data != WIDE else 2
    arithmetic = (sums + around + COPY * moved) / cpu.multiply_adds / EFFICIENCY
    return arithmetic + _traffic(left + PASSES * right * width, 1, cpu)


def pair_float_cycles(node: Node, cpu: Cpu) -> float:
    """Return the estimated cycles of a core for a product of floats made of bytes."""
    left, right = (value.type.elements for value in node.operands)
    sums = node.operands[0].shape[-1] * _vectors(node, cpu)
    made = (TO_FLOAT * (left + right) + COPY * right) / cpu.lanes
    return (sums + made) / cpu.multiply_adds / EFFICIENCY + _traffic(
        left + PASSES * right, FLOAT_BYTES, cpu
    )


def _vectors(node: Node, cpu: Cpu) -> int:
    """Return the vectors of a product's result."""
    columns = node.outputs[0].shape[-1]
    return node.outputs[0].elements // columns * math.ceil(columns / cpu.lanes)


def _adds(side: Side, wanted: str) -> bool:
    """Tell whether zero of one side is another number where it is multiplied."""
    return wanted != WIDE and side.zero + shift_between(side.source.dtype, wanted) != 0


def _keeps_terms(side: Side) -> bool:
    """Tell whether what an instruction multiplies lies side by side before it is moved."""
    for move in side.moves:
        axes = move.attrs.get("axes") or tuple(reversed(range(len(move.outputs[0].shape))))
        if move.op == "transpose" and int(axes[-1]) % len(axes) != len(axes) - 1:
            return False
    return True


def _traffic(elements: float, width: int, cpu: Cpu) -> float:
    """Return the cycles to write and read what passes from the kernels before."""
    size = PASSES * elements * width
    near = size <= cpu.l2_for_kernel_bytes * cpu.cores
    return size / (cpu.l2_bytes_a_cycle if near else cpu.llc_bytes_a_cycle)
