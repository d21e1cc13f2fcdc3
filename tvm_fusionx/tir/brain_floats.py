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


def _operand_of(expr: Any, name: str, dtype: str) -> Any | None:
    """Return the first operand of a call of that name and element type; None of another."""
    is_call = isinstance(expr, tir.Call) and getattr(expr.op, "name", "") == name
    return expr.args[0] if is_call and str(expr.dtype).startswith(dtype) else None


def narrowed(value: Any) -> Any:
    """Return the bfloat16 that is the nearest to a float32, lane by lane; no number stays none."""
    lanes = _lanes(value)
    bits = _reinterpreted(value, "uint32")
    shift = _constant(_LOWER_BITS, "uint32", lanes)
    odd = (bits >> shift) & _constant(1, "uint32", lanes)
    rounded = (bits + _constant(_HALFWAY, "uint32", lanes) + odd) >> shift
    # TVM takes a comparison of a number with itself for known.
    magnitude = bits & _constant(_MAGNITUDE, "uint32", lanes)
    is_number = magnitude <= _constant(_INFINITE, "uint32", lanes)
    upper = tir.Select(is_number, rounded, _constant(_NO_NUMBER, "uint32", lanes))
    return _reinterpreted(tir.Cast(_typed("uint16", lanes), upper), BRAIN)


def single_of(cast: Any) -> Any | None:
    """Return the float32 that :func:`narrowed` rounds; None of another cast than its own.

    Parameters
    ----------
    cast
        To ``uint16``, of what :func:`narrowed` gives the bits.
    """
    chosen = cast.value
    if not str(cast.dtype).startswith(BITS) or not isinstance(chosen, tir.Select):
        return None
    test = chosen.condition
    is_no_number = _number_of(chosen.false_value) == _NO_NUMBER
    if not is_no_number or not isinstance(test, tir.LE) or _number_of(test.b) != _INFINITE:
        return None
    bits = _operand_of(test.a, "tir.bitwise_and", "uint32")
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
