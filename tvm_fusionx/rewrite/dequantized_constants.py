"""Constants that a model holds as integers: what they mean, and as floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.numpy_operators import evaluate
from tvm_fusionx.rewrite.quantized import DEQUANTIZE, MOVES, WIDE

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class KnownIntegers:
    """A tensor of numbers ``(integers - zeros) * scales``, all of one shape."""

    integers: Array
    """int16."""

    scales: Array
    """float32."""

    zeros: Array
    """int16."""


def dequantization_of(value: Value) -> Node | None:
    """Return what dequantizes the constant that `value` is, moves of it apart, or None."""
    node = value.node
    while node.op in MOVES:
        node = node.operands[0].node
    return node if _is_known(node) else None


def known_integers(value: Value) -> KnownIntegers:
    """Return what a value that :func:`dequantization_of` knows is made of, moves applied."""
    moves: list[Node] = []
    node = value.node
    while node.op in MOVES:
        moves.append(node)
        node = node.operands[0].node
    source, scales, zeros = (operand.array for operand in node.operands)
    shape = [1] * source.ndim
    if scales.size > 1 or zeros.size > 1:
        shape[int(node.attrs["axis"])] = -1
    parts = [
        source.astype(WIDE),
        np.broadcast_to(scales.reshape(shape), source.shape),
        np.broadcast_to(zeros.reshape(shape).astype(WIDE), source.shape),
    ]
    for move in reversed(moves):
        parts = [evaluate(move, [part])[0] for part in parts]
    # Evaluating takes the moves' own type of results.
    return KnownIntegers(parts[0].astype(WIDE), parts[1], parts[2].astype(WIDE))


def unpack_constants(graph: Graph) -> int:
    """Replace dequantized constants by floats, in place; return how many.

    Folding constants leaves those that grow large as they are: each inference would unpack them.
    """
    count = 0
    for node in graph.calls():
        if not _is_known(node):
            continue
        source, scales, zeros = (operand.array for operand in node.operands)
        shape = [1] * source.ndim
        if scales.size > 1 or zeros.size > 1:
            shape[int(node.attrs["axis"])] = -1
        numbers = source.astype("float32")
        numbers -= zeros.reshape(shape).astype("float32")
        numbers *= scales.reshape(shape)
        graph.replace(node[0], graph.constant(numbers))
        count += 1
    if count:
        graph.prune()
    return count


def _is_known(node: Node) -> bool:
    return (
        node.op == DEQUANTIZE
        and node.operands[0].dtype in ("int8", "uint8")
        and node.outputs[0].dtype == "float32"
        and all(operand.is_constant for operand in node.operands)
    )
