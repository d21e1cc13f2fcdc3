"""Vectorised polynomials in place of libm calls for float32 functions.

TVM turns ``exp`` of a vector into one call of ``expf`` for each lane, which costs as much as the
matrix products around it. Here are the expressions that take their place;
:mod:`tvm_fusionx.late_passes.vectorise_mathematics` puts them there.

Largest errors against float64, over all exponents of float32, in units in the last place: exp 1,
log 1, erf 2, sigmoid 3, tanh 5 (`tests/late_passes/test_polynomials.py`). Of tanh's four roundings
(numerator, denominator, product, quotient) each may be a unit where the result is just below one:
4.3 were seen. NaN, infinities and zeros give what libm gives. In kernels that flush denormals
(:mod:`tvm_fusionx.late_passes.flush_denormals`, the default) a denormal argument is a zero, and a
result below the smallest normal number, 1.2e-38, is off by that at most. `sqrt` (1) and `rsqrt`
(2) are instructions. `sin`, `cos` and powers that are no small integers stay libm's (1): sines of
huge arguments need their remainder by pi to hundreds of bits, and of the zoo's models only the
Llama block takes a sine, of its few positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tir

from tvm_fusionx.late_passes.error_functions import (
    ERF_OF_VECTORS,
    ONE_PLUS_ERF,
    erf,
    one_plus_erf,
)
from tvm_fusionx.late_passes.polynomial_terms import (
    EXP2_COEFFICIENTS,
    EXPONENT_BIAS,
    EXPONENT_SHIFT,
    ROUNDING_MAGIC,
    ROUNDING_MAGIC_BITS,
    Hold,
    bits_of,
    constant,
    estrin,
    horner,
    integer_type,
    or_nan,
)

# exp: Cephes expf (S. Moshier), with the exponent built in two halves so that it underflows to
# denormals and overflows to infinity as libm's does.
LOG2_E = 1.44269504088896341
LN2_HIGH = 0.693359375
LN2_LOW = -2.12194440e-4
EXP_COEFFICIENTS = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
)
EXP_HIGHEST, EXP_LOWEST = 89.0, -104.0
# e**EXP_LOWEST times two to this is a normal number.
LIFT = 64
# Its exponential's power of two is the first that has the bits of zero.
WEIGHT_LOWEST = -88.1

# Below the lower one the power of two of e**-x is infinite, and the sigmoid zero: it would be no
# normal number. Above the upper one it is 1, and the power of two still a normal number.
SIGMOID_LOWEST, SIGMOID_HIGHEST = -89.0, 87.0

# log: Cephes logf.
LOG_COEFFICIENTS = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
SQRT_HALF_BITS = 0x3F3504F3
ONE_BITS = 0x3F800000
MANTISSA_MASK = 0x007FFFFF
SMALLEST_NORMAL = 1.17549435e-38
TWO_TO_23 = 8388608.0

# tanh: the rational approximation of Eigen (generic_fast_tanh_float), its coefficients fitted anew,
# as float32 holds them: 0.06 units in the last place off, where Eigen's are 1.6 off near zero.
TANH_CLAMP = 7.90531110763549805
TANH_LINEAR = 0.0004
TANH_NUMERATOR = (
    -5.72291882e-16,
    3.14879877e-13,
    -1.10044862e-10,
    5.72072949e-08,
    1.54353384e-05,
    6.42460887e-04,
    4.89352504e-03,
)
TANH_DENOMINATOR = (
    1.28205500e-06,
    1.20843972e-04,
    2.27363594e-03,
    4.89352504e-03,
)


def _exponential_part(r: Any, hold: Hold) -> Any:
    """Return e**r for r of at most half of log 2; what is largest is added last."""
    *higher, last = EXP_COEFFICIENTS
    p = estrin(higher, r, hold) * r + constant(last, r)
    return p * hold(r * r) + r + constant(1.0, r)


def exp(x: Any, hold: Hold) -> Any:
    """e**x."""
    x = hold(x)
    clamped = hold(tir.Max(tir.Min(x, constant(EXP_HIGHEST, x)), constant(EXP_LOWEST, x)))
    shifted = hold(clamped * constant(LOG2_E, x) + constant(ROUNDING_MAGIC, x))
    n = hold(shifted - constant(ROUNDING_MAGIC, x))
    r = hold(clamped - n * constant(LN2_HIGH, x) - n * constant(LN2_LOW, x))
    mantissa = _exponential_part(r, hold)
    integer = integer_type(x.dtype)
    power = hold(bits_of(shifted) - tir.const(ROUNDING_MAGIC_BITS, integer))
    half = hold(power >> tir.const(1, integer))
    scaled = mantissa * _power_of_two(half, x.dtype) * _power_of_two(power - half, x.dtype)
    return or_nan(x, hold(scaled))


def _power_of_two(n: Any, dtype: str) -> Any:
    biased = n + tir.const(EXPONENT_BIAS, n.dtype)
    return tir.reinterpret(dtype, biased << tir.const(EXPONENT_SHIFT, n.dtype))


def log(x: Any, hold: Hold) -> Any:
    """Natural logarithm."""
    x = hold(x)
    integer = integer_type(x.dtype)
    is_denormal = x < constant(SMALLEST_NORMAL, x)
    normal = hold(tir.Select(is_denormal, x * constant(TWO_TO_23, x), x))
    offset = tir.Select(is_denormal, constant(-float(EXPONENT_SHIFT), x), constant(0.0, x))
    # The exponent that brings the mantissa into [sqrt(1/2), sqrt(2)).
    lifted = hold(bits_of(normal) - tir.const(SQRT_HALF_BITS, integer))
    exponent = hold(lifted >> tir.const(EXPONENT_SHIFT, integer))
    mantissa_bits = (lifted & tir.const(MANTISSA_MASK, integer)) + tir.const(
        SQRT_HALF_BITS, integer
    )
    f = hold(tir.reinterpret(x.dtype, mantissa_bits) - constant(1.0, x))
    e = hold(tir.Cast(x.dtype, exponent) + offset)
    z = hold(f * f)
    p = hold(estrin(LOG_COEFFICIENTS, f, hold) * f * z)
    y = p + e * constant(LN2_LOW, x) - z * constant(0.5, x)
    result = hold(f + y + e * constant(LN2_HIGH, x))
    infinity = constant(float("inf"), x)
    result = tir.Select(tir.EQ(x, infinity), x, result)
    result = tir.Select(tir.EQ(x, constant(0.0, x)), constant(float("-inf"), x), result)
    result = tir.Select(x < constant(0.0, x), constant(float("nan"), x), result)
    return or_nan(x, hold(result))


def tanh(x: Any, hold: Hold) -> Any:
    """Hyperbolic tangent."""
    x = hold(x)
    clamped = hold(tir.Max(tir.Min(x, constant(TANH_CLAMP, x)), constant(-TANH_CLAMP, x)))
    z = hold(clamped * clamped)
    ratio = hold(clamped * horner(TANH_NUMERATOR, z) / estrin(TANH_DENOMINATOR, z, hold))
    is_linear = tir.Max(x, -x) < constant(TANH_LINEAR, x)
    return or_nan(x, hold(tir.Select(is_linear, x, ratio)))


def sigmoid(x: Any, hold: Hold) -> Any:
    """1 / (1 + e**-x), by e**-|x|: e**-x overflows where the result is still above zero."""
    x = hold(x)
    one = constant(1.0, x)
    e = hold(exp_below_zero(tir.Min(x, -x), hold))
    return tir.Select(x < constant(0.0, x), e, one) / (one + e)


def sigmoid_of_normals(x: Any, hold: Hold) -> Any:
    """1 / (1 + e**-x), zero where that is below the smallest normal number; a seventh shorter.

    Bounds have to keep a NaN of either operand.
    """
    x = hold(x)
    lowest, highest = (constant(each, x) for each in (SIGMOID_LOWEST, SIGMOID_HIGHEST))
    x = hold(tir.Min(highest, tir.Max(lowest, x)))
    one, magic = constant(1.0, x), constant(ROUNDING_MAGIC + EXPONENT_BIAS, x)
    shifted = hold(magic - x * constant(LOG2_E, x))
    n = hold(shifted - magic)
    # The polynomial is of -s, which would be an instruction more than other signs are.
    s = hold(x + n * constant(LN2_HIGH, x) + n * constant(LN2_LOW, x))
    *higher, last = EXP_COEFFICIENTS
    odd = [-each if place % 2 == 0 else each for place, each in enumerate(higher)]
    p = estrin(odd, s, hold) * s + constant(last, s)
    mantissa = hold(one - (s - p * hold(s * s)))
    shift = tir.const(EXPONENT_SHIFT, integer_type(x.dtype))
    return one / (one + mantissa * tir.reinterpret(x.dtype, bits_of(shifted) << shift))


def exp_below_zero(x: Any, hold: Hold) -> Any:
    """e**x for x of at most zero, in two thirds of `exp`'s instructions.

    The power of two is at most 1, so `LIFT` more fits into an exponent, and the product that takes
    it away again rounds to denormals. The operands of the maximum and the products keep a NaN.
    """
    x = hold(tir.Max(constant(EXP_LOWEST, x), x))
    magic = constant(ROUNDING_MAGIC + EXPONENT_BIAS + LIFT, x)
    shifted = hold(x * constant(LOG2_E, x) + magic)
    n = hold(shifted - magic)
    r = hold(x - n * constant(LN2_HIGH, x) - n * constant(LN2_LOW, x))
    p = hold(_exponential_part(r, hold))
    # The shift leaves the biased exponent alone: the magic number's own bits fall off the end.
    shift = tir.const(EXPONENT_SHIFT, integer_type(x.dtype))
    lifted = hold(tir.reinterpret(x.dtype, bits_of(shifted) << shift))
    return p * lifted * constant(0.5**LIFT, x)


def weight_of_score(x: Any, hold: Hold) -> Any:
    """e**x for x of at most zero, as softmax needs it: shorter than `exp_below_zero`.

    Below WEIGHT_LOWEST it is zero. The error is 2.5e-7 of the result, and 8e-8 more for each unit
    of x: at most 2.5e-7 of the largest weight. A NaN is kept.
    """
    x = hold(tir.Max(constant(WEIGHT_LOWEST, x), x))
    magic = constant(ROUNDING_MAGIC + EXPONENT_BIAS, x)
    shifted = hold(x * constant(LOG2_E, x) + magic)
    n = hold(shifted - magic)
    p = estrin(EXP2_COEFFICIENTS, hold(x * constant(LOG2_E, x) - n), hold)
    shift = tir.const(EXPONENT_SHIFT, integer_type(x.dtype))
    return p * tir.reinterpret(x.dtype, bits_of(shifted) << shift)


def _square(x: Any, hold: Hold) -> Any:
    x = hold(x)
    return hold(x * x)


def _cube(x: Any, hold: Hold) -> Any:
    x = hold(x)
    return hold(x * x) * x


def _fourth_power(x: Any, hold: Hold) -> Any:
    square = _square(x, hold)
    return square * square


# Powers that become products.
POWERS: dict[float, Callable[[Any, Hold], Any]] = {2: _square, 3: _cube, 4: _fourth_power}

FUNCTIONS: dict[str, Callable[[Any, Hold], Any]] = {
    "tir.exp": exp,
    "tir.log": log,
    "tir.erf": erf,
    ERF_OF_VECTORS: erf,
    ONE_PLUS_ERF: one_plus_erf,
    "tir.tanh": tanh,
    "tir.sigmoid": sigmoid,
}


# In the place of those, where kernels take denormal numbers for zero and bounds keep a NaN.
FUNCTIONS_OF_NORMALS: dict[str, Callable[[Any, Hold], Any]] = {"tir.sigmoid": sigmoid_of_normals}


def replacement(call: Any, *, of_normals: bool = False) -> Callable[[Any, Hold], Any] | None:
    """Return what makes straight-line arithmetic of a call's first argument, if libm's may go.

    Parameters
    ----------
    of_normals
        Whether :data:`FUNCTIONS_OF_NORMALS` may serve.
    """
    if not call.dtype.startswith("float32"):
        return None
    name = getattr(call.op, "name", "")
    if name == "tir.pow":
        power = number(call.args[1])
        return None if power is None else POWERS.get(power)
    return (of_normals and FUNCTIONS_OF_NORMALS.get(name)) or FUNCTIONS.get(name)


def number(expr: Any) -> float | None:
    """Return the number that a constant, or a vector of one, is; None of anything else."""
    value = expr.value if isinstance(expr, tir.Broadcast) else expr
    return float(value.value) if isinstance(value, (tir.FloatImm, tir.IntImm)) else None
