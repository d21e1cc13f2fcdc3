"""Products of two activations, both dequantized integers, as products of integers.

Neither side is known at compile time, so what the zero points added is summed beside the product,
in integers::

    sum((x - z)(y - v)) = sum(x y) - v sum(x) - z sum(y) + K z v

Each sum goes over one operand, an element once, where the product goes over it for each row or
column of the other. A zero point of 0 leaves its sum out.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.rewrite.quantized import (
    BATCH_MATMUL,
    BYTE_RANGE,
    BYTES,
    DENSE,
    SUM,
    IntegerTypes,
    NoIntegersError,
    ProductChoice,
    QuantizedData,
    WhyNot,
    WhySlower,
    as_multiplied,
    integers_before,
    is_of_activations,
    require,
    scale_and_zero,
)

logger = logging.getLogger(__name__)

# Sums of products of bytes, each of which may reach its bounds: the product, and what zero points
# added to it.
TERMS = 4


@dataclass(frozen=True)
class Side:
    """An operand of a product: bytes, how they are dequantized, and what moves them.

    Parameters
    ----------
    source
        The bytes.
    scale, zero
        Of their dequantization.
    moves
        Calls between it and the product, in order.
    """

    source: Value
    scale: float
    zero: int
    moves: tuple[Node, ...]

    @property
    def data(self) -> QuantizedData:
        """The bytes as a judge sees them."""
        return QuantizedData(self.source.dtype, self.zero)


def sides_of(node: Node) -> tuple[Side, Side]:
    """Return the bytes behind both operands of a product.

    Raises
    ------
    NoIntegersError
        When one is not dequantized from bytes with one scale.
    """
    left, right = node.operands
    return _side_of(left, "left side is"), _side_of(right, "right side is")


def _side_of(value: Value, what: str) -> Side:
    source, moves = integers_before(value, what)
    scale, zero = scale_and_zero(source)
    if source.operands[0].dtype not in BYTES:
        raise NoIntegersError(f"an operand is {source.operands[0].dtype}")
    if scale.size != 1 or zero.size != 1:
        raise NoIntegersError("an operand has a scale for each channel")
    return Side(source.operands[0], float(scale.reshape(())), int(zero.reshape(())), tuple(moves))


def multiply_activations(
    graph: Graph, types: IntegerTypes, why_not: WhyNot, why_slower: WhySlower
) -> list[ProductChoice]:
    """Replace products of two dequantized activations by products of integers, in place.

    Parameters
    ----------
    graph
        Dequantized tensors are results of ``qnn.dequantize``.
    types
        What is multiplied: that of the left side, and of the right one.
    why_not
        Returns why a product of floats has no kernel as one of integers, or None.
    why_slower
        Returns why a product that can be one of integers is faster as one of floats, or None.

    Returns
    -------
    list of ProductChoice
        One for each product whose operands are both dequantized; others are logged.
    """
    choices: list[ProductChoice] = []
    found: list[Node] = []
    for node in graph.calls():
        if not is_of_activations(node) or node.outputs[0].dtype != "float32":
            continue
        try:
            left, _ = sides_of(node)
        except NoIntegersError as error:
            logger.debug("%s stays a product of floats: %s", node.name, error)
            continue
        reason = None
        try:
            require(why_not(node))
            require(_why_no_sum(node))
            require(why_slower(graph, node, left.data))
            found.append(node)
        except NoIntegersError as error:
            reason = str(error)
            logger.debug("%s stays a product of floats: %s", node.name, reason)
        choices.append(ProductChoice(node.name, node.op, reason))
    # All are judged before one changes: a judge may look at neighbours.
    for node in found:
        if graph.contains(node):
            graph.replace(node[0], _product(graph, node, types))
    if found:
        graph.prune()
    return choices


def _why_no_sum(node: Node) -> str | None:
    length = node.operands[0].shape[-1]
    if TERMS * length * BYTE_RANGE * BYTE_RANGE > np.iinfo(SUM).max:
        return f"sums of {length} products may not fit 32 bits"
    return None


def _product(graph: Graph, node: Node, types: IntegerTypes) -> Value:
    """Return the same product, its sum one of integers."""
    sides = sides_of(node)
    operands, zeros = [], []
    for side, wanted in zip(sides, (types.data, types.weights), strict=True):
        value, zero = as_multiplied(graph, side.source, side.zero, wanted, node.name)
        for move in side.moves:
            value = graph.call(move.op, [value], move.attrs.replace(), name=move.name)
        operands.append(value if node.op == BATCH_MATMUL else _as_batch(graph, value))
        zeros.append(zero)
    attrs = default_attributes(
        BATCH_MATMUL,
        out_dtype=SUM,
        transpose_a=False,
        transpose_b=node.op == DENSE or bool(node.attrs["transpose_b"]),
    )
    total = graph.call(BATCH_MATMUL, operands, attrs, name=node.name)
    left, right = operands
    # Along the terms; the right operand's sums lie along the result's columns.
    right_axis = 2 if attrs["transpose_b"] else 1
    if zeros[1]:
        total = _less(graph, total, left, 2, zeros[1], (-1, left.shape[1], 1))
    if zeros[0]:
        total = _less(graph, total, right, right_axis, zeros[0], (-1, 1, node[0].shape[-1]))
    if zeros[0] and zeros[1]:
        both = graph.constant(left.shape[-1] * zeros[0] * zeros[1], SUM)
        total = graph.call("add", [total, both], name=node.name)
    if node.op == DENSE:
        total = _reshaped(graph, total, node[0].shape)
    total = graph.call("cast", [total], {"dtype": "float32"}, name=node.name)
    scale = graph.constant(np.float32(sides[0].scale * sides[1].scale), "float32")
    return graph.call("multiply", [total, scale], name=node.name)


def _less(
    graph: Graph, total: Value, operand: Value, axis: int, zero: int, shape: tuple[int, ...]
) -> Value:
    """Return a product less what a zero point of the other side added to it."""
    name = total.node.name
    wide = graph.call("cast", [operand], {"dtype": SUM}, name=name)
    attrs = default_attributes("sum", axis=(axis,), keepdims=False, exclude=False)
    sums = graph.call("sum", [wide], attrs, name=name)
    if zero != 1:
        sums = graph.call("multiply", [sums, graph.constant(zero, SUM)], name=name)
    shape = (operand.shape[0], *shape[1:])
    return graph.call("subtract", [total, _reshaped(graph, sums, shape)], name=name)


def _as_batch(graph: Graph, value: Value) -> Value:
    return _reshaped(graph, value, (1, *value.shape))


def _reshaped(graph: Graph, value: Value, shape: tuple[int, ...]) -> Value:
    attrs = {"newshape": shape, "allowzero": False}
    return graph.call("reshape", [value], attrs, name=value.node.name)
