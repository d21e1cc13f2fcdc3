"""bfloat16 to float32 and back, as whole vectors of bits.

A bfloat16 is the upper half of the float32 of the same value. TVM's own pass that makes that of its
casts (``BF16ComputeLegalize``) fails on stores of vectors and loses variables of comparisons; it
leaves bits alone.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

BRAIN = "bfloat16"
BITS = "uint16"

_LOWER_BITS = 16
# What is added so that the upper half is the nearest: half of its last place, less one where it is
# even, so that of two that are as near the even one is taken.
_HALFWAY = 0x7FFF
# Of a float32: all but the sign, and what only the bits of no number exceed; and one of these, cut.
_MAGNITUDE = 0x7FFFFFFF
_INFINITE = 0x7F800000
_NO_NUMBER = 0x7FC0


def is_brain(dtype: str) -> bool:
    """Tell whether a type, with lanes or without, is bfloat16."""
    return dtype.startswith(BRAIN)


def bits_of(value: Any) -> Any:
    """Return the bits of a bfloat16 as ``uint16``, lane by lane; bits are what they are."""
    return _reinterpreted(value, BITS) if is_brain(str(value.dtype)) else value


def widened(value: Any) -> Any:
    """Return the float32 of a bfloat16, or of the bits of one, lane by lane."""
    lanes = _lanes(value)
    bits = tir.Cast(_typed("uint32", lanes), bits_of(value))
    return _reinterpreted(bits << _constant(_LOWER_BITS, "uint32", lanes), "float32")


def narrow_of(value: Any) -> Any | None:
    """Return the load that :func:`widened` made a float32 of; None of another expression."""
    shifted = _operand_of(value, "tir.reinterpret", "float32")
    wide = None if shifted is None else _operand_of(shifted, "tir.shift_left", "uint32")
    if not isinstance(wide, tir.Cast):
        return None
    bits = _operand_of(wide.value, "tir.reinterpret", BITS)
    value = wide.value if bits is None else bits
    is_narrow = is_brain(str(value.dtype)) or str(value.dtype).startswith(BITS)
    return value if isinstance(value, tir.BufferLoad) and is_narrow else None


def _operand_of(expr: Any, name: str, dtype: str, place: int = 0) -> Any | None:
    """Return an operand of a call of that name and element type; None of another."""
    is_call = isinstance(expr, tir.Call) and getattr(expr.op, "name", "") == name
    return expr.args[place] if is_call and str(expr.dtype).startswith(dtype) else None


def narrowed(value: Any) -> Any:
    """Return the bfloat16 that is the nearest to a float32, lane by lane; no number stays none.

    By masks: a choice between two values that hold calls TVM computes element by element.
    """
    lanes = _lanes(value)
    bits = _reinterpreted(value, "uint32")
    shift = _constant(_LOWER_BITS, "uint32", lanes)
    # TVM takes a comparison of a number with itself for known.
    magnitude = bits & _constant(_MAGNITUDE, "uint32", lanes)
    is_none = magnitude > _constant(_INFINITE, "uint32", lanes)
    # All ones for a number, else zero; TVM says to LLVM that unsigned numbers do not overflow.
    ones = tir.Cast(_typed("int32", lanes), is_none) - _constant(1, "int32", lanes)
    mask = tir.Cast(_typed("uint32", lanes), ones)
    known = bits & mask
    odd = (known >> shift) & _constant(1, "uint32", lanes)
    rounded = (known + _constant(_HALFWAY, "uint32", lanes) + odd) >> shift
    upper = rounded | (_constant(_NO_NUMBER, "uint32", lanes) & ~mask)
    return _reinterpreted(tir.Cast(_typed(BITS, lanes), upper), BRAIN)


def single_of(cast: Any) -> Any | None:
    """Return the float32 that :func:`narrowed` rounds; None of another cast than its own.

    Parameters
    ----------
    cast
        To ``uint16``, of what :func:`narrowed` gives the bits.
    """
    if not str(cast.dtype).startswith(BITS):
        return None
    none = _operand_of(cast.value, "tir.bitwise_or", "uint32", 1)
    if _number_of(_operand_of(none, "tir.bitwise_and", "uint32")) != _NO_NUMBER:
        return None
    inverted = _operand_of(none, "tir.bitwise_and", "uint32", 1)
    mask = _operand_of(inverted, "tir.bitwise_not", "uint32")
    ones = mask.value if isinstance(mask, tir.Cast) else None
    test = getattr(getattr(ones, "a", None), "value", None)
    # Simplified, the comparison is the other way round.
    if not isinstance(test, tir.LT | tir.GT):
        return None
    magnitude, bound = (test.b, test.a) if isinstance(test, tir.LT) else (test.a, test.b)
    if _number_of(bound) != _INFINITE:
        return None
    bits = _operand_of(magnitude, "tir.bitwise_and", "uint32")
    return None if bits is None else _operand_of(bits, "tir.reinterpret", "uint32")


def _number_of(expr: Any) -> int | None:
    """Return the whole number that an expression is in all of its lanes, or None."""
    value = expr.value if isinstance(expr, tir.Broadcast) else expr
    return int(value) if isinstance(value, tir.IntImm) else None


def _reinterpreted(value: Any, dtype: str) -> Any:
    return tir.call_intrin(_typed(dtype, _lanes(value)), "tir.reinterpret", value)


def _constant(value: int, dtype: str, lanes: int) -> Any:
    scalar = tir.const(value, dtype)
    return scalar if lanes == 1 else tir.Broadcast(scalar, lanes)


def _lanes(value: Any) -> int:
    return int(tvm.DataType(value.dtype).lanes)


def _typed(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{dtype}x{lanes}"
