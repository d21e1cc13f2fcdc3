"""Weights in blocks, packed into panels of rows that fill a vector.

A vector of levels is then one of each row of a panel, and unpacking it takes no shuffle. Products
and lookups of one weight share its panels.
"""

from __future__ import annotations

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.expressions.block_weights import (
    DENSE,
    DENSE_WITH_MINIMA,
    PANEL_AXES,
    ROWS,
    ROWS_WITH_MINIMA,
)
from tvm_fusionx.processors.cpu import Cpu

OPERATORS = frozenset([DENSE, DENSE_WITH_MINIMA, ROWS, ROWS_WITH_MINIMA])

# The shortest vector of any processor here.
LEAST_WIDTH = 4


def why_not_panels(node: Node, cpu: Cpu) -> str | None:
    """Return why the weight of a call keeps its rows apart, or None."""
    if node.op not in OPERATORS:
        return f"{node.op} reads no weight in blocks"
    levels = node.operands[1]
    if not all(part.is_constant for part in node.operands[1:]):
        return "its weight is not constant"
    if len(levels.shape) == PANEL_AXES:
        return "its weight lies in panels already"
    if panel_width(levels.shape[0], cpu) < LEAST_WIDTH:
        return f"{levels.shape[0]} rows fill no panels"
    return None


def panel_width(rows: int, cpu: Cpu) -> int:
    """Return how many rows a panel has: a vector of sums, or the largest part that divides them."""
    width = cpu.lanes
    while rows % width:
        width //= 2
    return width


def pack_block_weights(graph: Graph, cpu: Cpu) -> int:
    """Put the weights of every call in panels; return how many calls changed."""
    packed: dict[tuple[Value, ...], list[Value]] = {}
    count = 0
    for node in graph.calls():
        if why_not_panels(node, cpu) is not None:
            continue
        first, *weight = node.operands
        if tuple(weight) not in packed:
            width = panel_width(weight[0].shape[0], cpu)
            packed[tuple(weight)] = [
                graph.constant(in_panels(part.array, width)) for part in weight
            ]
        operands = [first, *packed[tuple(weight)]]
        graph.replace(node[0], graph.call(node.op, operands, node.attrs, name=node.name))
        count += 1
    return count


def in_panels(part: np.ndarray, width: int) -> np.ndarray:
    """Return levels ``[N, blocks, bytes]`` or halves ``[N, blocks]`` with rows innermost."""
    panels = part.reshape(-1, width, *part.shape[1:])
    return np.ascontiguousarray(np.moveaxis(panels, 1, -1))
