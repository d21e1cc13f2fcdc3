"""What polynomials in the place of libm calls are written of: constants, sums of powers, bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import tir

# Adding 1.5 * 2**23 rounds a small float32 to an integer, held in the low bits of the sum.
ROUNDING_MAGIC = 12582912.0
ROUNDING_MAGIC_BITS = 0x4B400000
EXPONENT_BIAS = 127
EXPONENT_SHIFT = 23
# 2**r for r of at most a half, fitted for the least relative error with a last coefficient of one:
# 9.3e-8 as float32 holds them.
EXP2_COEFFICIENTS = (
    1.32695551e-3,
    9.6712932e-3,
    5.55071086e-2,
    2.40222469e-1,
    6.93147004e-1,
    1.0,
)

Hold = Callable[[Any], Any]
"""Evaluates an expression once; returns an expression that reads the value."""


def constant(value: float, like: Any) -> Any:
    """Return a constant of the type of `like`."""
    return tir.const(value, like.dtype)


def estrin(coefficients: Sequence[float], x: Any, hold: Hold) -> Any:
    """Return a polynomial in `x`, highest coefficient first, by G. Estrin's scheme.

    Pairs of terms are added independently of each other. Horner's scheme has as many products in a
    row as coefficients, and a processor does not look far enough ahead to find other work.
    """
    terms = [constant(each, x) for each in coefficients]
    while len(terms) > 1:
        x = hold(x)
        first = terms[: len(terms) % 2]
        pairs = zip(terms[len(first) :: 2], terms[len(first) + 1 :: 2], strict=True)
        terms = [*first, *(hold(high * x + low) for high, low in pairs)]
        x = x * x
    return terms[0]


def horner(coefficients: Sequence[float], x: Any) -> Any:
    """Return a polynomial by W. Horner's scheme: slower, and rounded less often."""
    result = constant(coefficients[0], x)
    for coefficient in coefficients[1:]:
        result = result * x + constant(coefficient, x)
    return result


def integer_type(dtype: str) -> str:
    """Return the type of integers whose vectors are as long as those of floats of `dtype`."""
    lanes = tvm.DataType(dtype).lanes
    return "int32" if lanes == 1 else f"int32x{lanes}"


def bits_of(x: Any) -> Any:
    """Return floats taken for integers."""
    return tir.reinterpret(integer_type(x.dtype), x)


def or_nan(x: Any, value: Any) -> Any:
    """Return `value`, or `x` where that is NaN."""
    return tir.Select(tir.EQ(x, x), value, x)
