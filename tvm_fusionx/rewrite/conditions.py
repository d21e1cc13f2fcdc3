"""Conditions of rules: each says why it does not hold, or None."""

from __future__ import annotations

import numpy as np

from tvm_fusionx.ecg.graph import Value

# Results that are never negative, whatever their operands.
_NON_NEGATIVE_RESULTS = frozenset(
    ["abs", "exp", "nn.relu", "nn.softmax", "sigmoid", "sqrt", "variance"]
)
# Results that are not negative when no operand is.
_KEEP_NON_NEGATIVE = frozenset(
    [
        "add",
        "broadcast_to",
        "concatenate",
        "divide",
        "expand_dims",
        "max",
        "maximum",
        "mean",
        "min",
        "minimum",
        "multiply",
        "nn.avg_pool2d",
        "nn.max_pool2d",
        "reshape",
        "squeeze",
        "strided_slice",
        "sum",
        "take",
        "transpose",
    ]
)
# How many calls back the analysis looks: it is a local condition, not a pass over the graph.
_DEPTH = 8


def is_non_negative(value: Value) -> bool:
    """Tell whether no element of `value` can be negative (NaN does not count)."""
    pending = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        if item.is_constant:
            if bool(np.any(item.array < 0)):
                return False
        elif item.op in _NON_NEGATIVE_RESULTS or _is_square(item):
            continue
        elif item.op in _KEEP_NON_NEGATIVE and depth < _DEPTH:
            pending.extend((operand, depth + 1) for operand in item.node.operands)
        else:
            return False
    return True


def _is_square(value: Value) -> bool:
    operands = value.node.operands
    return value.op == "multiply" and operands[0] is operands[1]


def why_not_float(a: Value) -> str | None:
    """Refuse integers, which wrap around."""
    return None if a.type.is_float else f"{a.dtype} wraps around"


def why_not_scalar(s: Value) -> str | None:
    """Refuse what is not one constant number."""
    if not s.is_constant:
        return "the factor is not a constant"
    return None if s.type.elements == 1 else f"the factor has {s.type.elements} elements"


def why_not_float_scalar(x: Value, s: Value) -> str | None:
    """Refuse integers, and factors that are not one constant number."""
    if len(s.shape) > len(x.shape):
        return "the factor has more axes than what it scales"
    return why_not_float(x) or why_not_scalar(s)


def why_not_both_constant(k: Value, m: Value) -> str | None:
    """Refuse operands that are not known at compile time."""
    return None if k.is_constant and m.is_constant else "an operand is not a constant"


def why_not_float_constants(a: Value, k: Value, m: Value) -> str | None:
    """Refuse integers, and operands that are not known at compile time."""
    return why_not_float(a) or why_not_both_constant(k, m)


def why_not_non_negative(a: Value, b: Value) -> str | None:
    """Refuse a square root's operand that might be negative: NaN would become a number."""
    if not is_non_negative(b):
        return "the operand of the square root may be negative"
    return why_not_float(a)
