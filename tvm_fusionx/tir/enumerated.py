"""Whole numbers of TensorIR, evaluated for every iteration at once, by numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import tir

Values = Mapping[Any, np.ndarray]
"""For each variable its value in each iteration."""


class NotKnownError(Exception):
    """An expression depends on more than variables whose values are known."""


def _truncated(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    _check_divisor(two)
    whole = np.abs(one) // np.abs(two)
    return np.where((one < 0) != (two < 0), -whole, whole)


def _remainder(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return one - _truncated(one, two) * two


def _floored(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    _check_divisor(two)
    return one // two


def _floor_remainder(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    _check_divisor(two)
    return one % two


def _check_divisor(divisor: np.ndarray) -> None:
    if not np.all(divisor):
        raise NotKnownError("a division by zero")


# What indices are computed in; they never leave these types' ranges.
INDEX_TYPES = ("int32", "int64")

Binary = Callable[[np.ndarray, np.ndarray], np.ndarray]

NODES: dict[type, Binary] = {
    tir.Add: np.add,
    tir.Sub: np.subtract,
    tir.Mul: np.multiply,
    tir.Div: _truncated,
    tir.Mod: _remainder,
    tir.FloorDiv: _floored,
    tir.FloorMod: _floor_remainder,
    tir.Min: np.minimum,
    tir.Max: np.maximum,
    tir.EQ: np.equal,
    tir.NE: np.not_equal,
    tir.LT: np.less,
    tir.LE: np.less_equal,
    tir.GT: np.greater,
    tir.GE: np.greater_equal,
    tir.And: np.logical_and,
    tir.Or: np.logical_or,
}
CALLS: dict[str, Binary] = {
    "tir.shift_right": np.right_shift,
    "tir.shift_left": np.left_shift,
    "tir.bitwise_and": np.bitwise_and,
    "tir.bitwise_or": np.bitwise_or,
    "tir.bitwise_xor": np.bitwise_xor,
    "tir.truncdiv": _truncated,
    "tir.truncmod": _remainder,
    "tir.floordiv": _floored,
    "tir.floormod": _floor_remainder,
}


def evaluated(expr: Any, values: Values) -> np.ndarray:
    """Return the value of an expression of whole numbers, in each iteration and lane.

    Parameters
    ----------
    expr
        An index, a bound or a condition.
    values
        Of its variables: an array of as many numbers as there are iterations.

    Returns
    -------
    numpy.ndarray
        (iterations or 1, lanes or 1), 64-bit integers or booleans.

    Raises
    ------
    NotKnownError
        It holds a load, a call or a variable of unknown value.
    """
    if isinstance(expr, tir.IntImm):
        return np.full((1, 1), int(expr.value), "int64")
    if isinstance(expr, tir.Var):
        known = values.get(expr)
        if known is None:
            raise NotKnownError(f"variable {expr.name}")
        return np.asarray(known, "int64").reshape(-1, 1)
    if isinstance(expr, tir.Cast) and expr.dtype.startswith(INDEX_TYPES):
        return evaluated(expr.value, values).astype("int64")
    if isinstance(expr, tir.Broadcast):
        return evaluated(expr.value, values)
    if isinstance(expr, tir.Ramp):
        lanes = np.arange(int(expr.lanes), dtype="int64").reshape(1, -1)
        return evaluated(expr.base, values) + lanes * evaluated(expr.stride, values)
    if isinstance(expr, tir.Not):
        return np.logical_not(evaluated(expr.a, values))
    if isinstance(expr, tir.Select):
        test, one, two = (
            evaluated(each, values) for each in (expr.condition, expr.true_value, expr.false_value)
        )
        return np.where(test, one, two)
    node = NODES.get(type(expr))
    if node is not None:
        return node(evaluated(expr.a, values), evaluated(expr.b, values))
    if isinstance(expr, tir.Call):
        return _called(expr, values)
    raise NotKnownError(type(expr).__name__)


def _called(call: Any, values: Values) -> np.ndarray:
    name = str(getattr(call.op, "name", ""))
    if name == "tir.likely":
        return evaluated(call.args[0], values)
    if name not in CALLS:
        raise NotKnownError(name)
    one, two = (evaluated(each, values) for each in call.args)
    return CALLS[name](one, two)
