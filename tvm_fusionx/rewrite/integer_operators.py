"""Products of integers that the model has itself: ``MatMulInteger``, ``ConvInteger``.

They are imported as products of 32-bit integers, ``sum((x - z) * w)`` of bytes ``x``. Without the
zero point the operands are bytes again, and ``z * sum(w)`` is known but for ``z``, which a model
may compute (``DynamicQuantizeLinear``)::

    sum((x - z) * w) = sum(x * w) - z * sum(w)

Both sides are exact, and wrap alike where sums do not fit 32 bits.
"""

from __future__ import annotations

import logging

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.rewrite.quantized import (
    BYTES,
    CONV2D,
    DENSE,
    MOVES,
    PRODUCTS,
    SUM,
    WIDE,
    IntegerTypes,
    ProductChoice,
    WhyNot,
    keeps_channels_apart,
    of_type,
    padded,
)
from tvm_fusionx.rewrite.word_sums import why_words_overflow

logger = logging.getLogger(__name__)


def multiply_bytes(graph: Graph, types: IntegerTypes, why_not: WhyNot) -> list[ProductChoice]:
    """Replace products of 32-bit integers made of bytes by products of bytes, in place.

    Parameters
    ----------
    graph
        Products are ``nn.dense`` and ``nn.conv2d`` with results of int32.
    types
        What is multiplied; where channels are kept apart, 16-bit integers are.
    why_not
        Returns why a product has no kernel as one of short integers, or None.

    Returns
    -------
    list of ProductChoice
        One for each product of 32-bit integers made of bytes.
    """
    choices: list[ProductChoice] = []
    for node in graph.calls():
        if node.op not in PRODUCTS or node.outputs[0].dtype != SUM:
            continue
        data = _Data.of(node.operands[0])
        if data is None:
            continue
        made = _why_not(node, data, types) or why_not(node) or _product(graph, node, data, types)
        reason = made if isinstance(made, str) else None
        if isinstance(made, Value):
            graph.replace(node[0], made)
        else:
            logger.debug("%s stays a product of 32-bit integers: %s", node.name, reason)
        choices.append(ProductChoice(node.name, node.op, reason))
    if choices:
        graph.prune()
    return choices


class _Data:
    """The data of a product: bytes, less a zero point, and what moves them."""

    def __init__(self, source: Value, zero: Value | None, moves: list[Node]) -> None:
        self.source, self.zero, self.moves = source, zero, moves

    @classmethod
    def of(cls, value: Value) -> _Data | None:
        """Return what `value`, of 32-bit integers, is made of; None where not of bytes."""
        moves: list[Node] = []
        zero: Value | None = None
        while value.op in MOVES:
            moves.append(value.node)
            value = value.node.operands[0]
        if value.op == "subtract":
            value, zero = value.node.operands
        if value.op != "cast" or (zero is not None and zero.type.elements != 1):
            return None
        source = value.node.operands[0]
        if source.dtype not in BYTES or source.is_constant:
            return None
        return cls(source, zero, moves[::-1])

    @property
    def known_zero(self) -> int | None:
        """The zero point; None where it is computed."""
        if self.zero is None:
            return 0
        return int(self.zero.array.reshape(())) if self.zero.is_constant else None


def _why_not(node: Node, data: _Data, types: IntegerTypes) -> str | None:
    weights = node.operands[1]
    if not weights.is_constant:
        return "its weights are not constant"
    limits = np.iinfo(WIDE if _is_wide(node, types) else types.weights)
    if weights.array.min() < limits.min or weights.array.max() > limits.max:
        return f"its weights less their zero point are no {limits.dtype}"
    if types.adds_in_words and not _is_wide(node, types):
        reason = why_words_overflow(weights.array)
        if reason is not None:
            return reason
    if data.known_zero is None and not _is_wide(node, types) and _has_border(node):
        return "zero is computed, and its image has a border"
    return None


def _is_wide(node: Node, types: IntegerTypes) -> bool:
    return keeps_channels_apart(node) or types.data == WIDE


def _has_border(node: Node) -> bool:
    return node.op == CONV2D and any(int(each) for each in node.attrs["padding"])


def _product(graph: Graph, node: Node, data: _Data, types: IntegerTypes) -> Value:
    """Return the product of bytes, or of 16-bit integers."""
    name, array = node.name, node.operands[1].array
    if _is_wide(node, types):
        short = graph.call("cast", [node.operands[0]], {"dtype": WIDE}, name=name)
        operands = [short, graph.constant(array.astype(WIDE))]
        return graph.call(node.op, operands, node.attrs.replace(), name=name)
    value, shift = of_type(graph, data.source, types.data, name)
    for move in data.moves:
        value = graph.call(move.op, [value], move.attrs.replace(), name=move.name)
    attrs = node.attrs.replace()
    zero = data.known_zero
    if _has_border(node) and zero is not None and zero + shift:
        # Outside the image is zero, which the integer `zero` stands for.
        value = padded(graph, value, node.attrs["padding"], zero + shift)
        attrs = node.attrs.replace(padding=(0, 0, 0, 0))
    operands = [value, graph.constant(array.astype(types.weights))]
    total = graph.call(node.op, operands, attrs, name=name)
    sums = array.sum(axis=tuple(range(1, array.ndim)), dtype=np.int64)
    sums = sums.reshape((-1,) if node.op == DENSE else (-1, 1, 1))
    excess = _excess(graph, data, shift, sums, name)
    return total if excess is None else graph.call("subtract", [total, excess], name=name)


def _excess(graph: Graph, data: _Data, shift: int, sums: np.ndarray, name: str) -> Value | None:
    """Return what the zero point added to each channel; None where it added nothing."""
    zero = data.known_zero
    if zero is not None:
        excess = (zero + shift) * sums
        return graph.constant(excess.astype(SUM)) if excess.any() else None
    assert data.zero is not None
    point = data.zero
    if shift:
        point = graph.call("add", [point, graph.constant(shift, SUM)], name=name)
    return graph.call("multiply", [graph.constant(sums.astype(SUM)), point], name=name)
