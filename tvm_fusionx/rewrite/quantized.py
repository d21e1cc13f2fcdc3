"""Products of dequantized integers, as products of integers.

What a quantized model means is a product of floats ``(q - z) * s``. Where the scale of the data is
one number and that of the weights one for each output channel, scales leave the sum::

    sum((x - z) * s * w * t) = (sum(x * w) - z * sum(w)) * (s * t)

The sum of integers is exact and is left to the processor's instruction for it; ``z * sum(w)`` is
known at compile time. What follows (bias, activation, quantization) stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.numpy_operators import evaluate
from tvm_fusionx.ecg.relay_attributes import default_attributes

logger = logging.getLogger(__name__)

DEQUANTIZE = "qnn.dequantize"
CONV2D = "nn.conv2d"
DENSE = "nn.dense"
MAX_POOL = "nn.max_pool2d"
PRODUCTS = (DENSE, CONV2D)

MOVES = frozenset({"reshape", "transpose", "squeeze", "expand_dims"})

SUM = "int32"
# Holds a byte less a zero point.
WIDE = "int16"
BYTES = ("int8", "uint8")
BYTE_RANGE = 256

IMAGE_CHANNELS = 1

ROUND_EVEN = "fusionx.round_even"

WhyNot = Callable[[Node], "str | None"]


@dataclass(frozen=True)
class IntegerTypes:
    """Element types that a processor multiplies.

    Parameters
    ----------
    data, weights
        Names of NumPy.
    """

    data: str
    weights: str


# A channel that only its own weights multiply leaves nothing to add up for an instruction on
# neighbours: lanes are channels, and each multiplies 16-bit integers, zero points taken away.
ONE_BY_ONE = IntegerTypes(WIDE, WIDE)


def multiply_integers(graph: Graph, types: IntegerTypes, why_not: WhyNot) -> int:
    """Replace products of dequantized integers by products of integers, in place.

    Parameters
    ----------
    graph
        Dequantized tensors are results of ``qnn.dequantize``.
    types
        What is multiplied; where channels are kept apart, 16-bit integers are.
    why_not
        Returns why a product of floats has no kernel as one of integers, or None.

    Returns
    -------
    int
        How many products were replaced. Why the others were not is logged.
    """
    count = 0
    for node in graph.calls():
        if node.op not in PRODUCTS:
            continue
        try:
            _require(why_not(node))
            product = _IntegerProduct(graph, node, types)
        except _NoIntegersError as reason:
            logger.debug("%s stays a product of floats: %s", node.name, reason)
            continue
        graph.replace(node[0], product.build())
        count += 1
    if count:
        graph.prune()
    return count


def keeps_channels_apart(node: Node) -> bool:
    """Tell whether a call is a convolution of which each output channel reads one of its own."""
    if node.op != CONV2D or int(node.attrs["groups"]) == 1:
        return False
    channels = (node.operands[0].shape[IMAGE_CHANNELS], node.outputs[0].shape[IMAGE_CHANNELS])
    return channels == (int(node.attrs["groups"]),) * len(channels)


class _NoIntegersError(Exception):
    """A product is not one of dequantized integers; says why."""


def _require(reason: str | None) -> None:
    if reason is not None:
        raise _NoIntegersError(reason)


class _IntegerProduct:
    """A product whose operands were found to be integers."""

    def __init__(self, graph: Graph, node: Node, types: IntegerTypes) -> None:
        self.graph, self.node = graph, node
        self.types = types = ONE_BY_ONE if keeps_channels_apart(node) else types
        data, weights = node.operands
        source, self.moves = _integers_before(data, "data is")
        self.source = source.operands[0]
        scale, zero = _parameters(source)
        if scale.size != 1 or zero.size != 1:
            raise _NoIntegersError("its data has a scale for each channel")
        self.scale, self.zero = scale.reshape(()), int(zero.reshape(()))
        self.weights, self.weight_scales = _weights(weights)
        limits = np.iinfo(types.weights)
        if self.weights.min() < limits.min or self.weights.max() > limits.max:
            raise _NoIntegersError(f"its weights less their zero point are no {types.weights}")
        length = self.weights[0].size
        if length * BYTE_RANGE * BYTE_RANGE > np.iinfo(SUM).max:
            raise _NoIntegersError(f"sums of {length} products may not fit 32 bits")

    def build(self) -> Value:
        """Return the same product, its sum one of integers."""
        graph, node = self.graph, self.node
        data, zero = self._data()
        for move in self.moves:
            data = graph.call(move.op, [data], move.attrs.replace(), name=move.name)
        attrs: dict[str, Any] = {"out_dtype": SUM}
        if node.op == CONV2D and zero and any(int(each) for each in node.attrs["padding"]):
            # Outside the image is zero, which the integer `zero` stands for.
            data = _padded(graph, data, node.attrs["padding"], zero)
            attrs["padding"] = (0, 0, 0, 0)
        weights = graph.constant(self.weights.astype(self.types.weights))
        total = graph.call(node.op, [data, weights], node.attrs.replace(**attrs), name=node.name)
        shape = (-1,) if node.op == DENSE else (-1, 1, 1)
        axes = tuple(range(1, self.weights.ndim))
        excess = zero * self.weights.sum(axis=axes, dtype=np.int64)
        if excess.any():
            constant = graph.constant(excess.astype(SUM).reshape(shape))
            total = graph.call("subtract", [total, constant], name=node.name)
        total = graph.call("cast", [total], {"dtype": "float32"}, name=node.name)
        scales = graph.constant((self.scale * self.weight_scales).reshape(shape))
        return graph.call("multiply", [total, scales], name=node.name)

    def _data(self) -> tuple[Value, int]:
        """Return the data as integers of the type that is multiplied, and what stands for zero."""
        graph, name = self.graph, self.node.name
        source, wanted = self.source, self.types.data
        if source.dtype == wanted:
            return source, self.zero
        if self.types is ONE_BY_ONE:
            return self._without_zero_point(), 0
        wide = graph.call("cast", [source], {"dtype": WIDE}, name=name)
        if wanted == WIDE:
            shift = -self.zero
        else:
            shift = int(np.iinfo(wanted).min) - int(np.iinfo(source.dtype).min)
        if shift:
            wide = graph.call("add", [wide, graph.constant(shift, WIDE)], name=name)
        if wanted != WIDE:
            wide = graph.call("cast", [wide], {"dtype": wanted}, name=name)
        return wide, self.zero + shift

    def _without_zero_point(self) -> Value:
        """Return the data as 16-bit integers, less its zero point.

        The difference is one of 32 bits: a scalar of those is a constant of a kernel, whose range
        the compiler knows, where one of 16 would be a parameter.
        """
        graph, name, data = self.graph, self.node.name, self.source
        if self.zero:
            data = graph.call("cast", [data], {"dtype": SUM}, name=name)
            data = graph.call("subtract", [data, graph.constant(self.zero, SUM)], name=name)
        return graph.call("cast", [data], {"dtype": WIDE}, name=name)


def _integers_before(value: Value, what: str) -> tuple[Node, list[Node]]:
    """Return the dequantization behind `value` and the moves from there to it, in order."""
    moves: list[Node] = []
    node = value.node
    while node.op in MOVES:
        moves.append(node)
        node = node.operands[0].node
    if node.op != DEQUANTIZE:
        raise _NoIntegersError(f"its {what} not dequantized but made by {node.op}")
    return node, moves[::-1]


def _parameters(dequantize: Node) -> tuple[np.ndarray, np.ndarray]:
    """Return scale and zero point of a dequantization."""
    source, scale, zero = dequantize.operands
    if source.dtype not in BYTES:
        raise _NoIntegersError(f"it is dequantized from {source.dtype}")
    if not scale.is_constant or not zero.is_constant:
        raise _NoIntegersError("its scale is not constant")
    return scale.array, zero.array


def _weights(value: Value) -> tuple[np.ndarray, np.ndarray]:
    """Return constant weights as integers less their zero points, and each channel's scale."""
    dequantize, moves = _integers_before(value, "weights are")
    source = dequantize.operands[0]
    if not source.is_constant:
        raise _NoIntegersError("its weights are not constant")
    scale, zero = _parameters(dequantize)
    shape = [1] * len(source.shape)
    if scale.size > 1 or zero.size > 1:
        shape[int(dequantize.attrs["axis"])] = -1
    integers = source.array.astype(WIDE) - zero.reshape(shape).astype(WIDE)
    scales = np.broadcast_to(scale.reshape(shape), source.shape)
    for move in moves:
        integers, scales = evaluate(move, [integers])[0], evaluate(move, [scales])[0]
    by_channel = scales.reshape(len(scales), -1)
    if (by_channel != by_channel[:, :1]).any():
        raise _NoIntegersError("its weights have several scales for one output channel")
    # Evaluating took the moves' own type of results.
    return np.rint(integers).astype(WIDE), by_channel[:, 0]


def _padded(graph: Graph, data: Value, padding: tuple[int, ...], value: int) -> Value:
    top, left, bottom, right = (int(each) for each in padding)
    attrs = default_attributes(
        "nn.pad", pad_width=((0, 0), (0, 0), (top, bottom), (left, right)), pad_mode="constant"
    )
    return graph.call("nn.pad", [data, graph.constant(value, data.dtype)], attrs)


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
    """Let maxima be of integers: dequantization keeps their order. Return how many changed."""
    count = 0
    for node in graph.calls():
        if node.op != MAX_POOL or node.operands[0].op != DEQUANTIZE:
            continue
        dequantize = node.operands[0].node
        source, scale, zero = dequantize.operands
        if not scale.is_constant or scale.type.elements != 1 or not (scale.array > 0).all():
            continue
        pooled = graph.call(MAX_POOL, [source], node.attrs.replace(), name=node.name)
        attrs = dequantize.attrs
        result = graph.call(DEQUANTIZE, [pooled, scale, zero], attrs, name=dequantize.name)
        graph.replace(node[0], result)
        count += 1
    if count:
        graph.prune()
    return count


def drop_requantizations(graph: Graph) -> int:
    """Drop quantizations of what was dequantized with the same scale; return how many."""
    count = 0
    for node in graph.calls():
        source = _requantized(node)
        if source is not None:
            graph.replace(node[0], source)
            count += 1
    if count:
        graph.prune()
    return count


def _requantized(node: Node) -> Value | None:
    """Return the integers that a quantization gives back, or None where it changes them."""
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
    if x.op != DEQUANTIZE or not scale.is_constant or scale.type.elements != 1:
        return None
    source, own_scale, zero = x.node.operands
    if not own_scale.is_constant or not zero.is_constant or own_scale.type.elements != 1:
        return None
    is_same = own_scale.array.reshape(()) == scale.array.reshape(())
    is_same = is_same and zero.type.elements == 1 and float(zero.array.reshape(())) == shift
    return source if is_same and source.dtype == node.outputs[0].dtype else None
