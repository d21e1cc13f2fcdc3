"""Between which numbers what blocks give lies, whatever finite numbers a model is given.

Ranges are carried forward, block by block: a bound is one, a sum of products with known weights is
no larger than the largest operand times the weights of a channel, and what is not known is any
number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.ecg.block_calls import post_order

Range = tuple[float, float]

ANY: Range = (-math.inf, math.inf)

# What is rounded on the way is larger by less: chains of halves by a few hundredths.
_ROUNDED = 1.05

# OIHWio, and panels of columns: weights of one output are those of all axes but the first and the
# last.
_WEIGHT_AXES = (6, 3)
_PRODUCTS = (
    "nn.contrib_conv2d_NCHWc",
    "nn.contrib_depthwise_conv2d_NCHWc",
    "nn.contrib_dense_pack",
)

# What it is made of is taken as it lies, in another form or type, or zero is put beside it.
_AS_IT_IS = frozenset(
    [
        *("cast", "reshape", "transpose", "layout_transform", "squeeze", "copy"),
        *("nn.batch_flatten", "strided_slice", "fusionx.half_terms", "nn.max_pool2d"),
        *("nn.avg_pool2d", "nn.global_avg_pool2d", "nn.global_max_pool2d"),
    ]
)

_RESULTS: Mapping[str, Range] = {"sigmoid": (0.0, 1.0), "nn.softmax": (0.0, 1.0), "tanh": (-1, 1)}


class ValueRanges:
    """Ranges of the results of blocks, in the order in which they are computed."""

    def __init__(self) -> None:
        self.results: dict[Any, list[Range]] = {}

    def add(self, block_call: Any) -> dict[Any, Range]:
        """Note what a block's call gives, after those that it reads; return what is within.

        Parameters
        ----------
        block_call
            Of an inline function.

        Returns
        -------
        dict
            The range of each parameter and of each expression of the block.
        """
        body = block_call.op.body
        given = dict(zip(block_call.op.params, block_call.args, strict=True))
        within = {param: self.of(operand) for param, operand in given.items()}
        for expr in post_order(body):
            if expr not in within:
                within[expr] = _range_of(expr, within, given)
        fields = list(body.fields) if isinstance(body, relay.Tuple) else [body]
        self.results[block_call] = [within[each] for each in fields]
        return within

    def of(self, operand: Any) -> Range:
        """Return the range of what a block is given."""
        index = 0
        if isinstance(operand, relay.TupleGetItem):
            operand, index = operand.tuple_value, int(operand.index)
        if isinstance(operand, relay.Constant):
            return _of_numbers(operand)
        found = self.results.get(operand, [])
        return found[index] if index < len(found) else ANY


def largest_in(found: Range) -> float:
    """Return the largest magnitude in a range."""
    return max(abs(found[0]), abs(found[1]))


def _of_numbers(constant: Any) -> Range:
    numbers = constant.data.numpy().astype("float64")
    if not numbers.size or not np.isfinite(numbers).all():
        return ANY
    return float(numbers.min()), float(numbers.max())


def _range_of(expr: Any, within: Mapping[Any, Range], given: Mapping[Any, Any]) -> Range:
    if isinstance(expr, relay.Constant):
        return _of_numbers(expr)
    if not isinstance(expr, relay.Call):
        return ANY
    name = getattr(expr.op, "name", "")
    ranges = [within.get(each, ANY) for each in expr.args]
    if name in _AS_IT_IS:
        low, high = ranges[0]
        return min(0.0, low * _ROUNDED), max(0.0, high * _ROUNDED)
    if name in _RESULTS:
        return _RESULTS[name]
    if name == "clip":
        return _both(_both(ranges[0], float(expr.attrs.a_min), max), float(expr.attrs.a_max), min)
    if name in _PRODUCTS:
        return _of_products(expr, ranges[0], given)
    rule = _RULES.get(name)
    return ANY if rule is None else rule(ranges)


def _both(found: Range, bound: float, extreme: Callable[[float, float], float]) -> Range:
    return extreme(found[0], bound), extreme(found[1], bound)


def _of_products(call: Any, data: Range, given: Mapping[Any, Any]) -> Range:
    weights = call.args[1]
    while isinstance(weights, relay.Call) and len(weights.args) == 1:
        weights = weights.args[0]
    weights = given.get(weights, weights)
    if not isinstance(weights, relay.Constant) or not math.isfinite(largest_in(data)):
        return ANY
    numbers = np.abs(weights.data.numpy().astype("float64"))
    if numbers.ndim not in _WEIGHT_AXES or not np.isfinite(numbers).all():
        return ANY
    of_output = numbers.sum(axis=tuple(range(1, numbers.ndim - 1)))
    most = largest_in(data) * float(of_output.max()) * _ROUNDED
    return -most, most


def _sum(ranges: Sequence[Range]) -> Range:
    (low, high), (other_low, other_high) = ranges
    return low + other_low, high + other_high


# By the operator: takes the ranges of its operands.
_RULES: Mapping[str, Callable[[Sequence[Range]], Range]] = {
    "nn.relu": lambda ranges: (max(0.0, ranges[0][0]), max(0.0, ranges[0][1])),
    "maximum": lambda ranges: (
        max(ranges[0][0], ranges[1][0]),
        max(ranges[0][1], ranges[1][1]),
    ),
    "minimum": lambda ranges: (
        min(ranges[0][0], ranges[1][0]),
        min(ranges[0][1], ranges[1][1]),
    ),
    "add": _sum,
    "nn.bias_add": _sum,
}
