"""The error function, and one and that, as polynomials in the place of libm's.

Errors are in :mod:`tvm_fusionx.late_passes.polynomials`.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.late_passes.polynomial_terms import (
    EXP2_COEFFICIENTS,
    EXPONENT_BIAS,
    EXPONENT_SHIFT,
    ROUNDING_MAGIC,
    Hold,
    bits_of,
    constant,
    estrin,
    horner,
    integer_type,
)

# erf: two branches (N. Juffa, "Fast and accurate erff", 2018): x + x*p(x^2), and 1 - 2**(x*q(x)),
# his exponent times log2(e). What is subtracted is below a fifth: a polynomial of 9e-8 will do.
ERF_BOUNDARY = 0.927734375
ERF_NEAR = (
    -5.96761703e-4,
    4.99119423e-3,
    -2.67681349e-2,
    1.12819925e-1,
    -3.76125336e-1,
    1.28379166e-1,
)
ERF_FAR = (
    -2.49374843e-5,
    5.52836573e-4,
    -5.60337631e-3,
    3.49920243e-2,
    -1.54047906e-1,
    -9.15890157e-1,
    -1.6283952,
)
ERF_SATURATION = 4.0
SIGN_MASK = -(1 << 31)
# 1 + erf: 2**(|x| q(|x|)) is erfc(|x|), fitted for the least absolute error up to 4.5: 1.6e-8. The
# exponent falls on from there to the one whose power of two has the bits of zero.
ERFC_EXPONENT = (
    -4.5357232e-05,
    4.45495622e-4,
    -1.48939982e-3,
    -7.74702581e-4,
    2.8253749e-2,
    -1.48481652e-1,
    -9.18416381e-1,
    -1.62790859,
)
LOWEST_EXPONENT = -127.0


# What `tir.erf` computes, as an operation that TVM makes vectors of.
ERF_OF_VECTORS = "tir.fusionx_erf"
# One and that, where bounds keep a NaN: a function of its own.
ONE_PLUS_ERF = "tir.fusionx_one_plus_erf"


def erf(x: Any, hold: Hold) -> Any:
    """Error function; of a NaN, for which no comparison holds, what the first branch makes."""
    x = hold(x)
    bits = hold(bits_of(x))
    sign = bits & tir.const(SIGN_MASK, bits.dtype)
    t = hold(tir.reinterpret(x.dtype, bits & tir.const(~SIGN_MASK, bits.dtype)))
    clamped = hold(tir.Min(t, constant(ERF_SATURATION, x)))
    exponent = hold(estrin(ERF_FAR, clamped, hold) * clamped)
    far = hold(constant(1.0, x) - _exp2_of_few(exponent, hold))
    signed = tir.reinterpret(x.dtype, bits_of(far) | sign)
    s = hold(x * x)
    near = hold(estrin(ERF_NEAR, s, hold) * x + x)
    return tir.Select(t > constant(ERF_BOUNDARY, x), hold(signed), near)


def _exp2_of_few(x: Any, hold: Hold) -> Any:
    """2**x where that is a normal number, with an error of two units in the last place."""
    shifted = hold(x + constant(ROUNDING_MAGIC, x))
    p = hold(estrin(EXP2_COEFFICIENTS, x - (shifted - constant(ROUNDING_MAGIC, x)), hold))
    # The magic number's own bits fall off the end.
    shift = tir.const(EXPONENT_SHIFT, integer_type(x.dtype))
    return tir.reinterpret(x.dtype, bits_of(p) + (bits_of(shifted) << shift))


def one_plus_erf(x: Any, hold: Hold) -> Any:
    """1 + erf(x), in two thirds of the instructions of `erf` and the sum; as exact as those.

    It is erfc(|x|) below zero, and above what that lacks of 2: no branch for small arguments, as
    nothing is subtracted from what is near it. The error is at most 1.9e-7, two units in the last
    place of the sum. Bounds have to keep a NaN of either operand.
    """
    x = hold(x)
    integer = integer_type(x.dtype)
    size = hold(tir.reinterpret(x.dtype, bits_of(x) & tir.const(~SIGN_MASK, integer)))
    exponent = hold(horner(ERFC_EXPONENT, size) * size)
    exponent = hold(tir.Max(constant(LOWEST_EXPONENT, x), exponent))
    magic = constant(ROUNDING_MAGIC + EXPONENT_BIAS, x)
    shifted = hold(exponent + magic)
    p = horner(EXP2_COEFFICIENTS, hold(exponent - hold(shifted - magic)))
    # The magic number's own bits fall off the end.
    power = tir.reinterpret(x.dtype, bits_of(shifted) << tir.const(EXPONENT_SHIFT, integer))
    rest = hold(p * power)
    return tir.Select(constant(0.0, x) < x, constant(2.0, x) - rest, rest)
