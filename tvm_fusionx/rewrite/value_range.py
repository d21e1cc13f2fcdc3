"""What can be said of a tensor's elements without running the model: bounds, signs, finiteness."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from tvm_fusionx._tvm.arrays import is_brain, limits_of
from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.ecg.types import TensorType

# How many calls one question looks at: it is asked of one operand, not of the whole graph.
_MOST_CALLS = 48


@dataclass(frozen=True)
class Range:
    """Bounds on every element that is a number (NaN does not count).

    Parameters
    ----------
    low, high
        No element is below, or above.
    is_finite
        Whether every element is a finite number.
    """

    low: float = -math.inf
    high: float = math.inf
    is_finite: bool = False

    @property
    def is_non_negative(self) -> bool:
        """Whether no element is below zero."""
        return self.low >= 0

    @property
    def is_positive(self) -> bool:
        """Whether every element is above zero."""
        return self.low > 0

    @property
    def is_negative(self) -> bool:
        """Whether every element is below zero."""
        return self.high < 0

    @property
    def is_bounded(self) -> bool:
        """Whether both bounds are finite."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def hull(self, other: Range) -> Range:
        """Return the range of elements that are in one of two ranges."""
        return Range(
            min(self.low, other.low), max(self.high, other.high), self.is_finite and other.is_finite
        )


ANYTHING = Range()
_BOOLEAN = Range(0.0, 1.0, True)
_UNIT = Range(0.0, 1.0)


def _exp(x: float) -> float:
    # Rounded down to zero below: an exponential may underflow.
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _log(x: float) -> float:
    return math.log(x) if 0 < x < math.inf else (math.inf if x > 0 else -math.inf)


def _sigmoid(x: float) -> float:
    return 1 / (1 + _exp(-x))


def _root(x: float) -> float:
    return math.sqrt(max(x, 0.0))


# Monotone functions, never falling: larger operand, larger (or equal) result, in every rounding.
MONOTONE: Mapping[str, Callable[[float], float]] = {
    "ceil": lambda x: math.ceil(x) if math.isfinite(x) else x,
    "erf": math.erf,
    "exp": _exp,
    "floor": lambda x: math.floor(x) if math.isfinite(x) else x,
    "log": _log,
    "nn.relu": lambda x: max(x, 0.0),
    "sigmoid": _sigmoid,
    "sign": lambda x: float(np.sign(x)),
    "sqrt": _root,
    "tanh": math.tanh,
}

# The result's elements are elements of the operands.
_SELECTIONS = frozenset(
    [
        "broadcast_to",
        "concatenate",
        "copy",
        "expand_dims",
        "max",
        "mean",
        "min",
        "nn.batch_flatten",
        "nn.global_avg_pool2d",
        "nn.global_max_pool2d",
        "nn.max_pool2d",
        "nn.pad",
        "nn.upsampling",
        "repeat",
        "reshape",
        "squeeze",
        "strided_slice",
        "tile",
        "transpose",
    ]
)


def range_of(value: Value) -> Range:
    """Return what is known of the elements of a value."""
    known: dict[Value, Range] = {}
    stack = [value]
    looked_at = 0
    while stack:
        item = stack[-1]
        if item in known:
            stack.pop()
            continue
        if item.is_constant:
            known[item] = _of_constant(item.node)
            continue
        waiting = [operand for operand in item.node.operands if operand not in known]
        if waiting and looked_at < _MOST_CALLS and item.op in _TRANSFERS:
            looked_at += 1
            stack.extend(waiting)
            continue
        operands = [known.get(each) or _of_type(each.type) for each in item.node.operands]
        known[item] = _within_type(_of_call(item.node, operands), item.type)
    return known[value]


# Weights have millions of elements, and are asked about by many rules.
_RANGES: WeakKeyDictionary[Node, Range] = WeakKeyDictionary()


def _of_constant(node: Node) -> Range:
    if node not in _RANGES:
        _RANGES[node] = _of_array(node[0].array)
    return _RANGES[node]


def _of_array(array: np.ndarray) -> Range:
    if is_brain(array):
        array = array.astype(np.float32)
    if array.size == 0 or not np.issubdtype(array.dtype, np.number):
        return ANYTHING
    # Unlike nanmin, these do not warn of arrays of NaN alone.
    low, high = (float(function.reduce(array, axis=None)) for function in (np.fmin, np.fmax))
    if math.isnan(low):
        return ANYTHING
    return Range(low, high, bool(np.all(np.isfinite(array))))


def _of_type(type_: TensorType) -> Range:
    """Return what the element type alone tells: whole numbers are finite."""
    if type_.dtype == "bool":
        return _BOOLEAN
    if "int" not in type_.dtype:
        return ANYTHING
    limits = np.iinfo(type_.dtype)
    return Range(float(limits.min), float(limits.max), True)


_FLOATS = ("bfloat16", "float16", "float32", "float64")
_LARGEST = {name: float(limits_of(name).max) for name in _FLOATS}


def _within_type(found: Range, type_: TensorType) -> Range:
    """Return a range as a type holds it: whole numbers wrap around, others overflow."""
    if not type_.is_float:
        limits = _of_type(type_)
        wraps = found.low < limits.low or found.high > limits.high
        return limits if wraps else Range(found.low, found.high, limits.is_finite)
    largest = _LARGEST.get(type_.dtype, 0.0)
    overflows = found.low < -largest or found.high > largest
    return Range(found.low, found.high, found.is_finite and not overflows)


def _of_call(node: Node, operands: list[Range]) -> Range:
    transfer = _TRANSFERS.get(node.op)
    if transfer is None:
        return ANYTHING
    found = transfer(node, operands)
    is_finite = all(operand.is_finite for operand in operands) and found.is_bounded
    return Range(found.low, found.high, is_finite)


_Transfer = Callable[[Node, "list[Range]"], Range]


def _monotone(function: Callable[[float], float]) -> _Transfer:
    return lambda node, operands: Range(function(operands[0].low), function(operands[0].high))


def _selection(node: Node, operands: list[Range]) -> Range:
    found = operands[0]
    for operand in operands[1:]:
        found = found.hull(operand)
    return found


def _abs(node: Node, operands: list[Range]) -> Range:
    low, high = operands[0].low, operands[0].high
    smallest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return Range(smallest, max(abs(low), abs(high)))


def _product(first: Range, second: Range) -> Range:
    ends = [_times(x, y) for x in (first.low, first.high) for y in (second.low, second.high)]
    return Range(min(ends), max(ends))


def _times(x: float, y: float) -> float:
    return 0.0 if x == 0 or y == 0 else x * y


def _multiply(node: Node, operands: list[Range]) -> Range:
    if node.operands[0] is node.operands[1]:
        positive = _abs(node, operands[:1])
        return Range(positive.low**2, _times(positive.high, positive.high))
    return _product(operands[0], operands[1])


def _divide(node: Node, operands: list[Range]) -> Range:
    divisor = operands[1]
    if divisor.low <= 0 <= divisor.high:
        # A quotient of numbers that are not negative is not negative, infinity for a zero.
        if operands[0].is_non_negative and divisor.is_non_negative:
            return Range(0.0)
        return ANYTHING
    inverse = Range(1 / divisor.high, 1 / divisor.low)
    return _product(operands[0], inverse)


def _add(node: Node, operands: list[Range]) -> Range:
    return Range(operands[0].low + operands[1].low, operands[0].high + operands[1].high)


def _subtract(node: Node, operands: list[Range]) -> Range:
    return Range(operands[0].low - operands[1].high, operands[0].high - operands[1].low)


def _sum(node: Node, operands: list[Range]) -> Range:
    count = node.operands[0].type.elements // max(node.outputs[0].elements, 1)
    return Range(_times(operands[0].low, count), _times(operands[0].high, count))


def _clip(node: Node, operands: list[Range]) -> Range:
    low, high = float(node.attrs["a_min"]), float(node.attrs["a_max"])
    return Range(min(max(operands[0].low, low), high), max(min(operands[0].high, high), low))


def _cast(node: Node, operands: list[Range]) -> Range:
    """Return the range of a type's numbers next to the operand's; what does not fit is anything."""
    (operand,), dtype = operands, node.outputs[0].dtype
    if dtype in _LARGEST:
        with np.errstate(over="ignore"):
            low, high = (float(np.asarray(e).astype(dtype)) for e in (operand.low, operand.high))
        return Range(low, high)
    if dtype == "bool" or not operand.is_bounded:
        return ANYTHING
    return Range(math.trunc(operand.low), math.trunc(operand.high))


def _average(node: Node, operands: list[Range]) -> Range:
    zero = Range(0.0, 0.0)
    return operands[0].hull(zero)


def _power(node: Node, operands: list[Range]) -> Range:
    return Range(0.0) if operands[0].is_non_negative else ANYTHING


_TRANSFERS: dict[str, _Transfer] = {
    **{name: _monotone(function) for name, function in MONOTONE.items()},
    **dict.fromkeys(_SELECTIONS, _selection),
    "abs": _abs,
    "add": _add,
    "cast": _cast,
    "clip": _clip,
    "divide": _divide,
    "maximum": lambda node, operands: Range(
        max(operands[0].low, operands[1].low), max(operands[0].high, operands[1].high)
    ),
    "minimum": lambda node, operands: Range(
        min(operands[0].low, operands[1].low), min(operands[0].high, operands[1].high)
    ),
    "multiply": _multiply,
    "negative": lambda node, operands: Range(-operands[0].high, -operands[0].low),
    # Padding counts as zeros in some of them.
    "nn.avg_pool2d": _average,
    "nn.softmax": lambda node, operands: _UNIT,
    "power": _power,
    "rsqrt": lambda node, operands: Range(0.0),
    "subtract": _subtract,
    "sum": _sum,
    # The first operand holds the values; indices are not elements of the result.
    "take": lambda node, operands: operands[0],
    "variance": lambda node, operands: Range(0.0),
    "where": lambda node, operands: operands[1].hull(operands[2]),
}
