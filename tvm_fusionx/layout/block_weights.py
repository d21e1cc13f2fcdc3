"""Weights in blocks, packed into panels of rows that fill a vector.

A vector of levels is then one of each row of a panel, and unpacking it takes no shuffle; or four of
each row, for instructions that multiply bytes. Products and lookups of one weight share its panels.
"""

from __future__ import annotations

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.expressions.block_weights import (
    DENSE,
    DENSE_WITH_MINIMA,
    PANEL_AXES,
    ROUNDED_DENSE,
    ROUNDED_DENSE_WITH_MINIMA,
    ROWS,
    ROWS_WITH_MINIMA,
    WORD_BYTES,
)
from tvm_fusionx.processors.cpu import Cpu

ROUNDED = frozenset([ROUNDED_DENSE, ROUNDED_DENSE_WITH_MINIMA])
OPERATORS = ROUNDED | {DENSE, DENSE_WITH_MINIMA, ROWS, ROWS_WITH_MINIMA}

# The shortest vector of any processor here.
LEAST_WIDTH = 4


def why_not_panels(node: Node, cpu: Cpu) -> str | None:
    """Return why the weight of a call keeps its rows apart, or None."""
    if node.op not in OPERATORS:
        return f"{node.op} reads no weight in blocks"
    levels = node.operands[1]
    if not all(part.is_constant for part in node.operands[1:]):
        return "its weight is not constant"
    if len(levels.shape) >= PANEL_AXES:
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
    nodes = [node for node in graph.calls() if why_not_panels(node, cpu) is None]
    readers: dict[tuple[Value, ...], set[str]] = {}
    for node in nodes:
        readers.setdefault(tuple(node.operands[1:]), set()).add(node.op)
    count = 0
    for node in nodes:
        first, *weight = node.operands
        if tuple(weight) not in packed:
            levels, *shared = (part.array for part in weight)
            width = panel_width(len(levels), cpu)
            lay = in_word_panels if _has_words(readers[tuple(weight)], levels, cpu) else in_panels
            parts = [lay(levels, width), *(in_panels(part, width) for part in shared)]
            packed[tuple(weight)] = [graph.constant(part) for part in parts]
        operands = [first, *packed[tuple(weight)]]
        graph.replace(node[0], graph.call(node.op, operands, node.attrs, name=node.name))
        count += 1
    return count


def _has_words(readers: set[str], levels: np.ndarray, cpu: Cpu) -> bool:
    """Tell whether bytes that one instruction multiplies lie side by side."""
    if cpu.byte_dot is None or cpu.byte_dot.name_for(panel_width(len(levels), cpu)) is None:
        return False
    return bool(readers & ROUNDED) and not readers & {DENSE, DENSE_WITH_MINIMA}


def in_word_panels(levels: np.ndarray, width: int) -> np.ndarray:
    """Return levels ``[N, blocks, bytes]`` with words of four bytes of each row side by side."""
    rows, blocks, count = levels.shape
    words = levels.reshape(rows // width, width, blocks, count // WORD_BYTES, WORD_BYTES)
    return np.ascontiguousarray(words.transpose(0, 2, 3, 1, 4))


def in_panels(part: np.ndarray, width: int) -> np.ndarray:
    """Return levels ``[N, blocks, bytes]`` or halves ``[N, blocks]`` with rows innermost."""
    panels = part.reshape(-1, width, *part.shape[1:])
    return np.ascontiguousarray(np.moveaxis(panels, 1, -1))
