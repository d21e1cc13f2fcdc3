"""Conditions of rules: each says why it does not hold, or None.

A condition reads variables by the names of its parameters; the functions here return one that reads
the variables named.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tvm_fusionx.ecg.graph import Value
from tvm_fusionx.ecg.numpy_operators import reduced_axes
from tvm_fusionx.operators import AXIS_NORMALIZATIONS, AXIS_REDUCTIONS
from tvm_fusionx.rewrite.matching import Match
from tvm_fusionx.rewrite.value_range import range_of

Why = Callable[..., "str | None"]


def is_non_negative(value: Value) -> bool:
    """Tell whether no element of `value` can be negative (NaN does not count)."""
    return range_of(value).is_non_negative


def reading(names: Iterable[str], function: Callable[..., str | None]) -> Why:
    """Return a condition that passes the variables `names` to `function`, in order."""
    wanted = list(names)

    def condition(**values: Any) -> str | None:
        return function(*(values[name] for name in wanted))

    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in wanted]
    condition.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    condition.__name__ = f"{function.__name__}({', '.join(wanted)})"
    return condition


def each(names: Sequence[str], function: Callable[[Value], str | None]) -> Why:
    """Return a condition that asks `function` of each of the variables `names`."""

    def first_reason(*values: Value) -> str | None:
        return next((reason for value in values if (reason := function(value))), None)

    first_reason.__name__ = function.__name__
    condition = reading(names, first_reason)
    # An engine that has facts instead of values asks for these of each variable.
    condition.asks = function  # type: ignore[attr-defined]
    condition.names = tuple(names)  # type: ignore[attr-defined]
    return condition


def constants(*names: str) -> Why:
    """Return the condition that variables are known at compile time."""
    return each(names, why_not_constant)


def scalars(*names: str) -> Why:
    """Return the condition that variables are one constant number each."""
    return each(names, why_not_scalar)


def non_negative(*names: str) -> Why:
    """Return the condition that no element of the variables is negative."""
    return each(names, why_not_non_negative)


def positive(*names: str) -> Why:
    """Return the condition that every element of the variables is above zero."""
    return each(names, why_not_positive)


def negative(*names: str) -> Why:
    """Return the condition that every element of the variables is below zero."""
    return each(names, why_not_negative)


def finite(*names: str) -> Why:
    """Return the condition that every element of the variables is a finite number."""
    return each(names, why_not_finite)


def same_shape(*names: str) -> Why:
    """Return the condition that the variables have one shape."""

    def why_not_same_shape(*values: Value) -> str | None:
        shapes = [value.shape for value in values]
        return None if len(set(shapes)) == 1 else f"the shapes {shapes} differ"

    return reading(names, why_not_same_shape)


def unreduced(name: str, data: str) -> Why:
    """Return the condition that a variable is constant along the axes that are reduced."""

    def why_not_unreduced(value: Value, reduced: Value, match: Match) -> str | None:
        node = match.first(AXIS_REDUCTIONS)
        assert node is not None
        rank = len(node.operands[0].shape)
        if reduced.shape != node.operands[0].shape:
            return f"{data} is broadcast before it is reduced"
        shape = (1,) * (rank - len(value.shape)) + value.shape
        along = [axis for axis in reduced_axes(node) if shape[axis] != 1]
        return f"{name} varies along the reduced axes {along}" if along else None

    return reading([name, data, "match"], why_not_unreduced)


def why_not_constant(value: Value) -> str | None:
    """Refuse what is not known at compile time."""
    return None if value.is_constant else "an operand is not a constant"


def why_not_scalar(s: Value) -> str | None:
    """Refuse what is not one constant number."""
    if not s.is_constant:
        return "the factor is not a constant"
    if s.type.elements != 1:
        return f"the factor has {s.type.elements} elements"
    return None if not s.shape else "the factor has axes of its own"


def why_not_non_negative(value: Value) -> str | None:
    """Refuse what might be negative: a root of it is NaN."""
    return None if range_of(value).is_non_negative else "an operand may be negative"


def why_not_positive(value: Value) -> str | None:
    """Refuse what might be zero or negative."""
    return None if range_of(value).is_positive else "an operand may be zero or negative"


def why_not_negative(value: Value) -> str | None:
    """Refuse what might be zero or positive."""
    return None if range_of(value).is_negative else "an operand may be zero or positive"


def why_not_finite(value: Value) -> str | None:
    """Refuse what might be infinite, or no number at all."""
    return None if range_of(value).is_finite else "an operand may be infinite or NaN"


def why_not_nonzero(value: Value) -> str | None:
    """Refuse constants with zeros, and what is not a constant."""
    if not value.is_constant:
        return "an operand is not a constant"
    return "an operand has zeros" if bool(np.any(value.array == 0)) else None


def nonzero(*names: str) -> Why:
    """Return the condition that variables are constants without zeros."""
    return each(names, why_not_nonzero)


def smaller(name: str, than: str) -> Why:
    """Return the condition that a variable has fewer elements than another."""

    def why_not_smaller(value: Value, other: Value) -> str | None:
        if value.type.elements < other.type.elements:
            return None
        return f"{name} has no fewer elements than {than}"

    return reading([name, than], why_not_smaller)


def why_not_varying(x: Value, c: Value, match: Match) -> str | None:
    """Refuse a summand that is not constant along the axes that the match's reduction runs over."""
    node = match.first(AXIS_REDUCTIONS | AXIS_NORMALIZATIONS)
    assert node is not None
    rank = len(node.operands[0].shape)
    if x.shape != node.operands[0].shape:
        return "the summand makes it larger"
    shape = (1,) * (rank - len(c.shape)) + c.shape
    axes = reduced_axes(node) if node.op in AXIS_REDUCTIONS else (int(node.attrs["axis"]) % rank,)
    return "the summand varies along the axis" if any(shape[axis] != 1 for axis in axes) else None


def why_not_finite_or_largest(x: Value, c: Value, match: Match) -> str | None:
    """Refuse what may be infinite or NaN, but for the largest of `x`, which a softmax takes off."""
    node = match.first(AXIS_NORMALIZATIONS)
    assert node is not None
    axis = int(node.attrs["axis"]) % len(x.shape)
    if c.op == "max" and c.node.operands[0] is x and reduced_axes(c.node) == (axis,):
        return None
    return why_not_finite(c)
