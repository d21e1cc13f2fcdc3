"""Operators that compute each output element from the elements at the same place."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx._tvm.arrays import is_floating, limits_of
from tvm_fusionx.frontend.converters.registry import CONVERTERS, Converter, converter
from tvm_fusionx.frontend.node import Node

# Before opset 7 two inputs were aligned by an attribute instead of by NumPy's rules.
NUMPY_BROADCAST_SINCE = 7

# Exponents that become multiplications: exact to one rounding each, and far faster than ``pow``.
SMALL_POWERS = (2.0, 3.0)

# ONNX operator -> (Relay operator, newest definition).
UNARY: dict[str, tuple[Callable[[Any], Any], int]] = {
    "Abs": (relay.abs, 13),
    "Acos": (relay.acos, 22),
    "Acosh": (relay.acosh, 22),
    "Asin": (relay.asin, 22),
    "Asinh": (relay.asinh, 22),
    "Atan": (relay.atan, 22),
    "Atanh": (relay.atanh, 22),
    "BitwiseNot": (relay.bitwise_not, 18),
    "Ceil": (relay.ceil, 13),
    "Cos": (relay.cos, 22),
    "Cosh": (relay.cosh, 22),
    "Erf": (relay.erf, 13),
    "Exp": (relay.exp, 13),
    "Floor": (relay.floor, 13),
    "IsNaN": (relay.isnan, 20),
    "Log": (relay.log, 13),
    "Neg": (relay.negative, 13),
    "Not": (relay.logical_not, 1),
    "Sigmoid": (relay.sigmoid, 13),
    "Sin": (relay.sin, 22),
    "Sinh": (relay.sinh, 22),
    "Sqrt": (relay.sqrt, 13),
    "Tan": (relay.tan, 22),
    "Tanh": (relay.tanh, 13),
}

BINARY: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "Add": (relay.add, 14),
    "And": (relay.logical_and, 7),
    "BitwiseAnd": (relay.bitwise_and, 18),
    "BitwiseOr": (relay.bitwise_or, 18),
    "BitwiseXor": (relay.bitwise_xor, 18),
    "Div": (relay.divide, 14),
    "Equal": (relay.equal, 19),
    "Greater": (relay.greater, 13),
    "GreaterOrEqual": (relay.greater_equal, 16),
    "Less": (relay.less, 13),
    "LessOrEqual": (relay.less_equal, 16),
    "Mul": (relay.multiply, 14),
    "Or": (relay.logical_or, 7),
    "Sub": (relay.subtract, 14),
    "Xor": (relay.logical_xor, 7),
}

VARIADIC: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "Sum": (relay.add, 13),
}


def _unary(function: Callable[[Any], Any]) -> Callable[[Node], Any]:
    return lambda node: function(node.expr(0))


def aligned_operands(node: Node) -> tuple[Any, Any]:
    """Return both operands, the second reshaped where an old opset aligns it by an attribute."""
    left, right = node.expr(0), node.expr(1)
    if node.version < NUMPY_BROADCAST_SINCE and node.attribute("broadcast", 0):
        rank = node.rank(0)
        axis = node.axis(rank - node.rank(1), rank)
        shape = node.shape(1)
        trailing = rank - axis - len(shape)
        if trailing > 0:
            right = relay.reshape(right, (*shape, *(1,) * trailing))
    return left, right


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[Node], Any]:
    return lambda node: function(*aligned_operands(node))


def _variadic(function: Callable[[Any, Any], Any]) -> Callable[[Node], Any]:
    return lambda node: reduce(function, [node.expr(i) for i in range(len(node.inputs))])


CONVERTERS.update({op: Converter(_unary(f), through, "") for op, (f, through) in UNARY.items()})
CONVERTERS.update({op: Converter(_binary(f), through, "") for op, (f, through) in BINARY.items()})
CONVERTERS.update(
    {op: Converter(_variadic(f), through, "") for op, (f, through) in VARIADIC.items()}
)


def scalar(value: float, dtype: str) -> Any:
    """Return a rank-0 constant."""
    return relay.const(np.asarray(value, dtype=dtype).item(), dtype)


@converter("Mean", through=13)
def convert_mean(node: Node) -> Any:
    """Average any number of broadcast inputs."""
    total = _variadic(relay.add)(node)
    count = len(node.inputs)
    return total if count == 1 else relay.divide(total, scalar(count, node.dtype()))


@converter("Reciprocal", through=13)
def convert_reciprocal(node: Node) -> Any:
    """1 / x."""
    return relay.divide(scalar(1, node.dtype()), node.expr())


def round_half_even(x: Any, dtype: str) -> Any:
    """Round halves to the even neighbour; Relay's ``round`` moves them away from zero."""
    half = scalar(0.5, dtype)
    low = relay.floor(x)
    fraction = x - low
    half_low = low * half
    is_odd = relay.not_equal(half_low, relay.floor(half_low))
    is_up = relay.logical_or(
        relay.greater(fraction, half), relay.logical_and(relay.equal(fraction, half), is_odd)
    )
    return relay.where(is_up, low + scalar(1, dtype), low)


@converter("Round", through=22)
def convert_round(node: Node) -> Any:
    """Round to whole numbers, halves to the even one."""
    return round_half_even(node.expr(), node.dtype())


@converter("IsInf", through=20)
def convert_is_inf(node: Node) -> Any:
    """Tell which elements are infinite, of one sign if so asked."""
    x, dtype = node.expr(), node.dtype()
    result = relay.isinf(x)
    if not node.attribute("detect_negative", 1):
        result = relay.logical_and(result, relay.greater(x, scalar(0, dtype)))
    if not node.attribute("detect_positive", 1):
        result = relay.logical_and(result, relay.less(x, scalar(0, dtype)))
    return result


@converter("Pow", through=15, because="an integer base with a float exponent fails in TVM")
def convert_pow(node: Node) -> Any:
    """Return base ** exponent, in the base's type."""
    base, exponent = aligned_operands(node)
    base_dtype, exponent_dtype = node.dtype(0), node.dtype(1)
    if base_dtype == exponent_dtype and is_floating(base_dtype):
        return _float_power(node, base, exponent)
    # Large integers are exact in double up to 2**53, as in ONNX Runtime.
    work = "float64"
    power = relay.power(relay.cast(base, work), relay.cast(exponent, work))
    if is_floating(base_dtype):
        return relay.cast(power, base_dtype)
    is_rounded = is_floating(exponent_dtype)
    return relay.cast(power if is_rounded else power + scalar(0.0, work), base_dtype)


def _float_power(node: Node, base: Any, exponent: Any) -> Any:
    """Return base ** exponent; squares and cubes without the far slower ``pow``."""
    known = node.tensor(1).array
    if known is not None and known.size == 1:
        value = float(known.reshape(-1)[0])
        is_same_rank = node.rank(1) <= node.rank(0)
        if value == 1.0 and is_same_rank:
            return base
        if value in SMALL_POWERS and is_same_rank:
            return reduce(relay.multiply, [base] * int(value))
    return relay.power(base, exponent)


@converter("Mod", through=28)
def convert_mod(node: Node) -> Any:
    """Take the divisor's sign, or the dividend's where ``fmod`` is set."""
    a, b, dtype = node.expr(0), node.expr(1), node.dtype()
    remainder = relay.mod(a, b)
    if node.attribute("fmod", 0) or dtype.startswith("uint"):
        return remainder
    # Relay's floor_mod binds a value in the kernel, which LLVM 22 rejects.
    zero = scalar(0, dtype)
    signs_differ = relay.not_equal(relay.less(remainder, zero), relay.less(b, zero))
    is_off = relay.logical_and(relay.not_equal(remainder, zero), signs_differ)
    return relay.where(is_off, remainder + b, remainder)


@converter("BitShift", through=28)
def convert_bit_shift(node: Node) -> Any:
    """Shift left or right; past the width of the type only copies of the sign remain."""
    x, count, dtype = node.expr(0), node.expr(1), node.dtype()
    is_left = node.attribute("direction") == "LEFT"
    shift = relay.left_shift if is_left else relay.right_shift
    width, known = np.iinfo(dtype).bits, node.tensor(1).array
    if known is not None and known.size and 0 <= known.min() <= known.max() < width:
        return shift(x, count)
    zero = scalar(0, dtype)
    is_inside = relay.less(count, scalar(width, dtype))
    is_signed = dtype.startswith("int")
    if is_signed:
        is_inside = relay.logical_and(is_inside, relay.greater_equal(count, zero))
    rest = zero
    if is_signed and not is_left:
        rest = relay.where(relay.less(x, zero), scalar(-1, dtype), zero)
    return relay.where(is_inside, shift(x, relay.where(is_inside, count, zero)), rest)


@converter("Where", through=16)
def convert_where(node: Node) -> Any:
    """Select elements of two broadcast inputs."""
    return relay.where(node.expr(0), node.expr(1), node.expr(2))


@converter("Identity", through=25)
def convert_identity(node: Node) -> Any:
    """Pass the input on."""
    return node.tensor(0)


def _are_within_the_type(low: float | None, high: float | None, dtype: str) -> bool:
    if low is None or high is None or not is_floating(dtype):
        return False
    limits = limits_of(dtype)
    return bool(limits.min < low <= high < limits.max)


@converter("Clip", through=13, because="with one constant bound TVM silently drops the bound")
def convert_clip(node: Node) -> Any:
    """min(max(x, low), high); each bound may be absent, constant or computed."""
    x, dtype = node.expr(), node.dtype()
    known: list[float | None] = []
    for position, name in ((1, "min"), (2, "max")):
        tensor = node.tensor(position) if node.has(position) else None
        value = node.attributes.get(name) if tensor is None else tensor.array
        known.append(None if value is None else np.asarray(value).reshape(-1)[0].item())
    low, high = known
    if _are_within_the_type(low, high, dtype):
        return relay.clip(x, low, high)
    inf = float("inf")
    for position, value, bound, end in (
        (1, low, relay.maximum, -inf),
        (2, high, relay.minimum, inf),
    ):
        # What is NaN stays where it stands on the right.
        if value is None and node.has(position):
            x = bound(node.expr(position), x)
        elif value not in (None, end):
            x = bound(scalar(value, dtype), x)
    return x
