"""What lies between two quantizations, told in fewer operators: roundings, maxima, and nothing."""

from __future__ import annotations

import math

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.rewrite.quantized import BYTES, DEQUANTIZE, MOVES, ROUND_EVEN

MAXIMA = frozenset({"nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"})
# Of what lies outside an image they add nothing, or zero, which stays zero.
MEANS = frozenset({"nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d", "nn.global_avg_pool2d"})

# Sums of fewer integers than this are exact in floats of 24 bits.
EXACT = 2**24


def round_by_instruction(graph: Graph) -> int:
    """Replace roundings to the even neighbour, spelled out, by one operator; return how many.

    The front end has none to write: Relay's ``round`` moves halves away from zero.
    """
    count = 0
    for node in graph.calls():
        if node.op != "where" or node.operands[2].op != "floor":
            continue
        x = node.operands[2].node.operands[0]
        mark = graph.mark()
        is_rounding = _spelled_out(graph, x) is node[0]
        graph.rollback(mark)
        if is_rounding:
            graph.replace(node[0], graph.call(ROUND_EVEN, [x], name=node.name))
            count += 1
    if count:
        graph.prune()
    return count


def _spelled_out(graph: Graph, x: Value) -> Value:
    """Return the rounding of `x` as the front end writes it."""
    half, one = graph.constant(0.5, x.dtype), graph.constant(1.0, x.dtype)
    low = graph.call("floor", [x])
    fraction = graph.call("subtract", [x, low])
    half_low = graph.call("multiply", [low, half])
    is_odd = graph.call("not_equal", [half_low, graph.call("floor", [half_low])])
    is_half = graph.call("equal", [fraction, half])
    is_up = graph.call(
        "logical_or",
        [graph.call("greater", [fraction, half]), graph.call("logical_and", [is_half, is_odd])],
    )
    return graph.call("where", [is_up, graph.call("add", [low, one]), low])


def pool_integers(graph: Graph) -> int:
    """Pool integers instead of what they are dequantized to. Return how many pools changed.

    Dequantization keeps the order, so that the maximum of integers is the dequantized maximum. The
    mean of ``(q - z) * s`` is ``s`` times the mean of ``q - z``, whose sum is exact in floats: a
    mean that lies between two integers is at a half, where it was near one.
    """
    count = 0
    for node in graph.calls():
        pool = _maximum if node.op in MAXIMA else _mean if node.op in MEANS else None
        if pool is None or node.operands[0].op != DEQUANTIZE:
            continue
        scale = node.operands[0].node.operands[1]
        if not scale.is_constant or scale.type.elements != 1 or not (scale.array > 0).all():
            continue
        result = pool(graph, node, node.operands[0].node)
        if result is not None:
            graph.replace(node[0], result)
            count += 1
    if count:
        graph.prune()
    return count


def _maximum(graph: Graph, node: Node, dequantize: Node) -> Value | None:
    source, scale, zero = dequantize.operands
    pooled = graph.call(node.op, [source], node.attrs.replace(), name=node.name)
    return graph.call(DEQUANTIZE, [pooled, scale, zero], dequantize.attrs, name=dequantize.name)


def _mean(graph: Graph, node: Node, dequantize: Node) -> Value | None:
    source, scale, zero = dequantize.operands
    pixels = node.operands[0].type.elements // math.prod(node.operands[0].shape[:2])
    if source.dtype not in BYTES or not zero.is_constant or zero.type.elements != 1:
        return None
    if pixels * np.iinfo(np.uint8).max >= EXACT or node.outputs[0].dtype != "float32":
        return None
    data = graph.call("cast", [source], {"dtype": "float32"}, name=dequantize.name)
    if zero.array.any():
        less = graph.constant(float(zero.array.reshape(())), "float32")
        data = graph.call("subtract", [data, less], name=dequantize.name)
    pooled = graph.call(node.op, [data], node.attrs.replace(), name=node.name)
    factor = graph.constant(float(scale.array.reshape(())), "float32")
    return graph.call("multiply", [pooled, factor], name=node.name)


def drop_scales(graph: Graph) -> int:
    """Drop multiplications that a division by the same number undoes; return how many."""
    count = 0
    for node in graph.calls():
        if node.op != "divide" or node.operands[0].op != "multiply":
            continue
        x, factor = node.operands[0].node.operands
        if not _is_same_number(factor, node.operands[1]) or not (factor.array != 0).all():
            continue
        if x.shape == node.outputs[0].shape:
            graph.replace(node[0], x)
            count += 1
    if count:
        graph.prune()
    return count


def _is_same_number(one: Value, other: Value) -> bool:
    if not (one.is_constant and other.is_constant):
        return False
    is_one = one.type.elements == other.type.elements == 1 and one.dtype == other.dtype
    return is_one and bool(one.array.reshape(()) == other.array.reshape(()))


def drop_requantizations(graph: Graph) -> int:
    """Drop quantizations of what was dequantized with the same scale; return how many.

    What only moved in between moves as integers.
    """
    count = 0
    for node in graph.calls():
        found = _requantized(node)
        if found is not None:
            source, moves = found
            for move in moves:
                source = graph.call(move.op, [source], move.attrs.replace(), name=move.name)
            graph.replace(node[0], source)
            count += 1
    if count:
        graph.prune()
    return count


def _requantized(node: Node) -> tuple[Value, list[Node]] | None:
    """Return the integers that a quantization gives back, and what moves them in order.

    None where it changes them.
    """
    if node.op != "cast" or node.operands[0].op != "clip":
        return None
    clip = node.operands[0].node
    limits = np.iinfo(node.outputs[0].dtype) if node.outputs[0].dtype in BYTES else None
    if limits is None or (clip.attrs["a_min"], clip.attrs["a_max"]) != (limits.min, limits.max):
        return None
    rounded, shift = clip.operands[0], 0.0
    if rounded.op == "add" and rounded.node.operands[1].is_constant:
        rounded, added = rounded.node.operands
        if added.type.elements != 1:
            return None
        shift = float(added.array.reshape(()))
    if rounded.op != ROUND_EVEN or rounded.node.operands[0].op != "divide":
        return None
    x, scale = rounded.node.operands[0].node.operands
    moves: list[Node] = []
    while x.op in MOVES:
        moves.append(x.node)
        x = x.node.operands[0]
    if x.op != DEQUANTIZE or not scale.is_constant or scale.type.elements != 1:
        return None
    source, own_scale, zero = x.node.operands
    if not own_scale.is_constant or not zero.is_constant or own_scale.type.elements != 1:
        return None
    is_same = own_scale.array.reshape(()) == scale.array.reshape(())
    is_same = is_same and zero.type.elements == 1 and float(zero.array.reshape(())) == shift
    is_same = is_same and source.dtype == node.outputs[0].dtype
    return (source, moves[::-1]) if is_same else None
