"""Operators that reduce over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.extremes import is_float
from tvm_fusionx.frontend.converters.registry import CONVERTERS, Converter, converter
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor

# x, axes, keepdims -> reduced x.
Reduce = Callable[[Any, list[int], bool], Any]

AXES_FAULT = "TVM fails on axes given as an input, and ReduceSum-13 takes the first axis only"


def _log_sum_exp(x: Any, axes: list[int], keepdims: bool) -> Any:
    """Shift by the maximum, so that no exponential overflows."""
    largest = relay.max(x, axes, True)
    total = relay.log(relay.sum(relay.exp(x - largest), axes, True)) + largest
    return total if keepdims else relay.squeeze(total, axes)


# ONNX operator -> (reduction, newest definition).
REDUCTIONS: dict[str, tuple[Reduce, int]] = {
    "ReduceL1": (lambda x, axes, keep: relay.sum(relay.abs(x), axes, keep), 18),
    "ReduceL2": (lambda x, axes, keep: relay.sqrt(relay.sum(x * x, axes, keep)), 18),
    "ReduceLogSum": (lambda x, axes, keep: relay.log(relay.sum(x, axes, keep)), 28),
    "ReduceLogSumExp": (_log_sum_exp, 28),
    "ReduceMax": (relay.max, 20),
    "ReduceMean": (relay.mean, 18),
    "ReduceMin": (relay.min, 20),
    "ReduceProd": (relay.prod, 18),
    "ReduceSum": (relay.sum, 13),
    "ReduceSumSquare": (lambda x, axes, keep: relay.sum(x * x, axes, keep), 18),
}

EXTREMES = ("ReduceMax", "ReduceMin")

# Relay has no extreme of booleans; as small integers false < true.
BOOLEAN_AS = "uint8"
# Relay's square root and logarithm take floats only.
NEEDS_FLOAT = ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
FLOAT_FOR_INTEGERS = "float64"


# Operators that pass a number on, or one of several.
PASSES_NUMBERS = frozenset(
    {
        "Add",
        "Cast",
        "CastLike",
        "Concat",
        "Expand",
        "Identity",
        "Max",
        "Min",
        "Reshape",
        "Slice",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
        "Where",
    }
)
# As far as this a number is followed back.
MOST_MAKERS = 64


def makes_infinities(tensor: Tensor) -> bool:
    """Tell whether a constant of the model with infinities may pass into a tensor, as in masks."""
    waiting, seen = [tensor], 0
    while waiting and seen < MOST_MAKERS:
        current, seen = waiting.pop(), seen + 1
        if current.array is not None:
            if is_float(current.dtype) and np.isinf(current.array).any():
                return True
        elif current.maker is not None and current.maker.op_type in PASSES_NUMBERS:
            waiting += [value for value in current.maker.inputs if isinstance(value, Tensor)]
    return False


def _extreme(op_type: str, x: Any, axes: list[int], keepdims: bool, dtype: str) -> Any:
    """Return an extreme, right of rows of infinities too, of which TVM makes the largest finite."""
    is_max = op_type == "ReduceMax"
    worst = scalar(-np.inf if is_max else np.inf, dtype)
    best = (relay.max if is_max else relay.min)(x, axes, keepdims)
    better = relay.greater(x, worst) if is_max else relay.less(x, worst)
    is_any = relay.max(relay.cast(better, dtype), axes, keepdims)
    return relay.where(relay.greater(is_any, scalar(0, dtype)), best, worst)


def _reduction(op_type: str, function: Reduce) -> Callable[[Node], Any]:
    def convert(node: Node) -> Any:
        axes = node.ints_from("axes", 1)
        is_noop = not axes and bool(node.attribute("noop_with_empty_axes", 0))
        if not axes:
            axes = [] if is_noop else list(range(node.rank()))
        axes = sorted({axis % node.rank() for axis in axes}) if node.rank() else []
        keepdims = bool(node.attribute("keepdims", 1))
        x, dtype = node.expr(), node.dtype()
        work = dtype
        if dtype == "bool":
            work = BOOLEAN_AS
        elif op_type in NEEDS_FLOAT and not is_float(dtype):
            work = FLOAT_FOR_INTEGERS
        x = x if work == dtype else relay.cast(x, work)
        if op_type in EXTREMES and axes and is_float(dtype) and makes_infinities(node.tensor(0)):
            return _extreme(op_type, x, axes, keepdims, dtype)
        # Relay takes an empty list of axes for all of them. ONNX reduces a scalar over none, and a
        # reduction told to do nothing still does to each element what it does before and after the
        # sum (the square of ReduceSumSquare): an axis of one element says the same.
        result = (
            function(x, axes, keepdims)
            if axes
            else function(relay.expand_dims(x, node.rank()), [node.rank()], False)
        )
        if work == dtype:
            return result
        return (
            relay.not_equal(result, scalar(0, work))
            if dtype == "bool"
            else relay.cast(result, dtype)
        )

    return convert


CONVERTERS.update(
    {
        op_type: Converter(_reduction(op_type, function), through, AXES_FAULT)
        for op_type, (function, through) in REDUCTIONS.items()
    }
)


@converter("MeanVarianceNormalization", through=13)
def convert_mean_variance_normalization(node: Node) -> Any:
    """(x - mean) / standard deviation over the axes."""
    axes = [int(axis) for axis in node.attribute("axes", [0, 2, 3])]
    x, dtype = node.expr(), node.dtype()
    mean = relay.mean(x, axes, True)
    centered = x - mean
    deviation = relay.sqrt(relay.mean(centered * centered, axes, True))
    # ONNX's definition keeps a constant input from dividing by zero with this.
    return centered / (deviation + scalar(1e-9, dtype))
