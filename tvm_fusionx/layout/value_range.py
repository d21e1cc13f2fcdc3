"""Between which numbers what a block gives lies, whatever it is given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.ecg.block_calls import is_block_call

# What it is made of is taken as it lies, in another form or type.
_AS_IT_IS = frozenset(["cast", "reshape", "transpose", "layout_transform", "squeeze", "copy"])

_OF_RESULT = {
    "sigmoid": (0.0, 1.0),
    "nn.softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
}

ANY = (-math.inf, math.inf)


def largest_of(operand: Any) -> float:
    """Return the largest magnitude of a finite number that `operand` can have; may be infinite.

    Parameters
    ----------
    operand
        An operand of a block's call, where blocks are inline functions.
    """
    low, high = _range_of_operand(operand)
    return max(abs(low), abs(high))


def largest_within(expr: Any) -> float:
    """Return the largest magnitude of a finite number that an expression within a block can have.

    Of the block's parameters nothing is known.
    """
    low, high = _range_of(expr)
    return max(abs(low), abs(high))


def _range_of_operand(operand: Any) -> tuple[float, float]:
    index = 0
    if isinstance(operand, relay.TupleGetItem):
        operand, index = operand.tuple_value, int(operand.index)
    if isinstance(operand, relay.Constant):
        return _range_of(operand)
    if not is_block_call(operand):
        return ANY
    body = operand.op.body
    if isinstance(body, relay.Tuple):
        body = body.fields[index]
    return _range_of(body)


def _range_of(expr: Any) -> tuple[float, float]:
    """Return the least and the largest number of an expression within a block."""
    bounds: list[tuple[float, float]] = []
    low, high = ANY
    while isinstance(expr, relay.Call):
        name = getattr(expr.op, "name", "")
        if name in _AS_IT_IS:
            expr = expr.args[0]
        elif name in _OF_RESULT:
            low, high = _OF_RESULT[name]
            break
        elif name == "clip":
            bounds.append((float(expr.attrs.a_min), float(expr.attrs.a_max)))
            expr = expr.args[0]
        elif name == "nn.relu":
            bounds.append((0.0, math.inf))
            expr = expr.args[0]
        elif name in ("maximum", "minimum") and (found := _bounded_by(expr)) is not None:
            bound, expr = found
            bounds.append((bound, math.inf) if name == "maximum" else (-math.inf, bound))
        else:
            break
    if isinstance(expr, relay.Constant):
        numbers = expr.data.numpy().astype("float64")
        low, high = float(numbers.min()), float(numbers.max())
    for least, most in reversed(bounds):
        low, high = min(max(low, least), most), max(min(high, most), least)
    return low, high


def _bounded_by(call: Any) -> tuple[float, Any] | None:
    """Return the one number of a maximum or minimum, and what it bounds; None without one."""
    for bound, other in (call.args, reversed(call.args)):
        if isinstance(bound, relay.Constant) and bound.data.numpy().size == 1:
            number = float(np.ravel(bound.data.numpy())[0])
            return None if math.isnan(number) else (number, other)
    return None
