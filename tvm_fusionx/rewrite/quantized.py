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
from tvm_fusionx.rewrite.word_sums import why_words_overflow

logger = logging.getLogger(__name__)

DEQUANTIZE = "qnn.dequantize"
CONV2D = "nn.conv2d"
DENSE = "nn.dense"
BATCH_MATMUL = "nn.batch_matmul"
PRODUCTS = (DENSE, CONV2D)

MOVES = frozenset({"reshape", "transpose", "squeeze", "expand_dims"})

SUM = "int32"
# Holds a byte less a zero point.
WIDE = "int16"
BYTES = ("int8", "uint8")
WORDS = ("int16", "uint16")
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
    has_words: bool = False
    """Whether 16-bit integers are multiplied too."""

    adds_in_words: bool = False
    """Whether two products of bytes are added in 16 bits, where they have to fit."""


@dataclass(frozen=True)
class QuantizedData:
    """What a product of dequantized integers reads, as it is stored.

    Parameters
    ----------
    dtype
        Of the bytes.
    zero
        The byte that stands for zero.
    """

    dtype: str
    zero: int


WhySlower = Callable[[Graph, Node, QuantizedData], "str | None"]


@dataclass(frozen=True)
class ProductChoice:
    """What became of a product that reads dequantized integers.

    Parameters
    ----------
    name, op
        Of the product of floats that the model has.
    reason
        Why it stays one; None where integers are multiplied.
    """

    name: str
    op: str
    reason: str | None


# A channel that only its own weights multiply leaves nothing to add up for an instruction on
# neighbours: lanes are channels, and each multiplies 16-bit integers, zero points taken away.
ONE_BY_ONE = IntegerTypes(WIDE, WIDE)
# Data of 16 bits, by weights of 8 in as many.
OF_WORDS = IntegerTypes(WIDE, WIDE, has_words=True)


def multiply_integers(
    graph: Graph, types: IntegerTypes, why_not: WhyNot, why_slower: WhySlower | None = None
) -> list[ProductChoice]:
    """Replace products of dequantized integers by products of integers, in place.

    Parameters
    ----------
    graph
        Dequantized tensors are results of ``qnn.dequantize``.
    types
        What is multiplied; where channels are kept apart, 16-bit integers are.
    why_not
        Returns why a product of floats has no kernel as one of integers, or None.
    why_slower
        Returns why a product that can be one of integers is faster as one of floats, or None; all
        are of integers that can be when None.

    Returns
    -------
    list of ProductChoice
        One for each product whose data is dequantized; others are logged.
    """
    choices: list[ProductChoice] = []
    found: list[Node] = []
    for node in graph.calls():
        if node.op not in PRODUCTS or is_of_activations(node):
            continue
        reason = None
        try:
            require(why_not(node))
            product = _IntegerProduct(graph, node, types)
            if why_slower is not None:
                require(why_slower(graph, node, product.data))
            found.append(node)
        except NoIntegersError as error:
            reason = str(error)
            logger.debug("%s stays a product of floats: %s", node.name, reason)
        if reason is None or reads_integers(node):
            choices.append(ProductChoice(node.name, node.op, reason))
    # All are judged before one changes: a judge may look at neighbours.
    for node in found:
        if graph.contains(node):
            graph.replace(node[0], _IntegerProduct(graph, node, types).build())
    if found:
        graph.prune()
    return choices


def reads_integers(node: Node) -> bool:
    """Tell whether the data of a product is dequantized bytes."""
    try:
        source, _ = integers_before(node.operands[0], "data is")
    except NoIntegersError:
        return False
    return source.operands[0].dtype in (*BYTES, *WORDS) and not source.operands[0].is_constant


def is_of_activations(node: Node) -> bool:
    """Tell whether the right side of a product of matrices is dequantized while a model runs."""
    if node.op not in (DENSE, BATCH_MATMUL):
        return False
    right = node.operands[1].node
    while right.op in MOVES:
        right = right.operands[0].node
    return right.op == DEQUANTIZE and not right.operands[0].is_constant


def keeps_channels_apart(node: Node) -> bool:
    """Tell whether a call is a convolution of which each output channel reads one of its own."""
    if node.op != CONV2D or int(node.attrs["groups"]) == 1:
        return False
    channels = (node.operands[0].shape[IMAGE_CHANNELS], node.outputs[0].shape[IMAGE_CHANNELS])
    return channels == (int(node.attrs["groups"]),) * len(channels)


class NoIntegersError(Exception):
    """A product is not one of dequantized integers; says why."""


def require(reason: str | None) -> None:
    """Raise a reason, if there is one."""
    if reason is not None:
        raise NoIntegersError(reason)


class _IntegerProduct:
    """A product whose operands were found to be integers."""

    def __init__(self, graph: Graph, node: Node, types: IntegerTypes) -> None:
        self.graph, self.node = graph, node
        data, weights = node.operands
        source, self.moves = integers_before(data, "data is")
        self.source = source.operands[0]
        is_apart = keeps_channels_apart(node)
        if self.source.dtype in WORDS:
            if not types.has_words:
                raise NoIntegersError(f"no instruction multiplies {self.source.dtype}")
            if is_apart:
                raise NoIntegersError(f"it keeps channels of {self.source.dtype} apart")
            types = OF_WORDS
        self.types = types = ONE_BY_ONE if is_apart else types
        scale, zero = scale_and_zero(source)
        if scale.size != 1 or zero.size != 1:
            raise NoIntegersError("its data has a scale for each channel")
        self.scale, self.zero = scale.reshape(()), int(zero.reshape(()))
        self.data = QuantizedData(self.source.dtype, self.zero)
        self.weights, self.weight_scales = _weights(weights)
        limits = np.iinfo(types.weights)
        if self.weights.min() < limits.min or self.weights.max() > limits.max:
            raise NoIntegersError(f"its weights less their zero point are no {types.weights}")
        require(why_words_overflow(self.weights) if types.adds_in_words else None)
        length = self.weights[0].size
        if self._largest_sum() > np.iinfo(SUM).max:
            raise NoIntegersError(f"sums of {length} products may not fit 32 bits")

    def _largest_sum(self) -> int:
        """Return what no sum of products exceeds, with what a zero point adds to it."""
        if self.types is not OF_WORDS:
            return int(self.weights[0].size) * BYTE_RANGE * BYTE_RANGE
        axes = tuple(range(1, self.weights.ndim))
        most = np.abs(self.weights.astype(np.int64)).sum(axis=axes).max()
        return 2 * int(most) * -int(np.iinfo(WIDE).min)

    def build(self) -> Value:
        """Return the same product, its sum one of integers."""
        graph, node = self.graph, self.node
        data, zero = self._data()
        for move in self.moves:
            data = graph.call(move.op, [data], move.attrs.replace(), name=move.name)
        attrs: dict[str, Any] = {"out_dtype": SUM}
        if node.op == CONV2D and zero and any(int(each) for each in node.attrs["padding"]):
            # Outside the image is zero, which the integer `zero` stands for.
            data = padded(graph, data, node.attrs["padding"], zero)
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
        if self.types is ONE_BY_ONE:
            return self._without_zero_point(), 0
        return as_multiplied(self.graph, self.source, self.zero, self.types.data, self.node.name)

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


def integers_before(value: Value, what: str) -> tuple[Node, list[Node]]:
    """Return the dequantization behind `value` and the moves from there to it, in order."""
    moves: list[Node] = []
    node = value.node
    while node.op in MOVES:
        moves.append(node)
        node = node.operands[0].node
    if node.op != DEQUANTIZE:
        raise NoIntegersError(f"its {what} not dequantized but made by {node.op}")
    return node, moves[::-1]


def scale_and_zero(dequantize: Node) -> tuple[np.ndarray, np.ndarray]:
    """Return scale and zero point of a dequantization."""
    source, scale, zero = dequantize.operands
    if source.dtype not in (*BYTES, *WORDS):
        raise NoIntegersError(f"it is dequantized from {source.dtype}")
    if not scale.is_constant or not zero.is_constant:
        raise NoIntegersError("its scale is not constant")
    return scale.array, zero.array


def _weights(value: Value) -> tuple[np.ndarray, np.ndarray]:
    """Return constant weights as integers less their zero points, and each channel's scale."""
    dequantize, moves = integers_before(value, "weights are")
    source = dequantize.operands[0]
    if not source.is_constant:
        raise NoIntegersError("its weights are not constant")
    scale, zero = scale_and_zero(dequantize)
    shape = [1] * len(source.shape)
    if scale.size > 1 or zero.size > 1:
        shape[int(dequantize.attrs["axis"])] = -1
    integers = source.array.astype(WIDE) - zero.reshape(shape).astype(WIDE)
    scales = np.broadcast_to(scale.reshape(shape), source.shape)
    for move in moves:
        integers, scales = evaluate(move, [integers])[0], evaluate(move, [scales])[0]
    by_channel = scales.reshape(len(scales), -1)
    if (by_channel != by_channel[:, :1]).any():
        raise NoIntegersError("its weights have several scales for one output channel")
    # Evaluating took the moves' own type of results.
    return np.rint(integers).astype(WIDE), by_channel[:, 0]


def shift_between(dtype: str, wanted: str) -> int:
    """Return what turns the integers of one type into those of another of the same size."""
    return int(np.iinfo(wanted).min) - int(np.iinfo(dtype).min)


def of_type(graph: Graph, source: Value, wanted: str, name: str) -> tuple[Value, int]:
    """Return bytes as bytes of the type that is multiplied, and what was added to each."""
    shift = shift_between(source.dtype, wanted)
    if not shift:
        return source, 0
    wider = WIDE if source.dtype in BYTES else SUM
    wide = graph.call("cast", [source], {"dtype": wider}, name=name)
    wide = graph.call("add", [wide, graph.constant(shift, wider)], name=name)
    return graph.call("cast", [wide], {"dtype": wanted}, name=name), shift


def as_multiplied(
    graph: Graph, source: Value, zero: int, wanted: str, name: str
) -> tuple[Value, int]:
    """Return integers as those of the type that is multiplied, and what stands for zero there.

    Bytes that become integers of 16 bits have their zero point taken away.
    """
    if wanted != WIDE or source.dtype in WORDS:
        data, shift = of_type(graph, source, wanted, name)
        return data, zero + shift
    wide = graph.call("cast", [source], {"dtype": WIDE}, name=name)
    if zero:
        wide = graph.call("add", [wide, graph.constant(-zero, WIDE)], name=name)
    return wide, 0


def padded(graph: Graph, data: Value, padding: tuple[int, ...], value: int) -> Value:
    """Return an image ``[N, C, H, W]`` with a border of integers: top, left, bottom, right."""
    top, left, bottom, right = (int(each) for each in padding)
    attrs = default_attributes(
        "nn.pad", pad_width=((0, 0), (0, 0), (top, bottom), (left, right)), pad_mode="constant"
    )
    return graph.call("nn.pad", [data, graph.constant(value, data.dtype)], attrs)
