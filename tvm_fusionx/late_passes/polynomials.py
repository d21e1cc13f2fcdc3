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

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import tir

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
# Adding 1.5 * 2**23 rounds a small float32 to an integer, held in the low bits of the sum.
ROUNDING_MAGIC = 12582912.0
ROUNDING_MAGIC_BITS = 0x4B400000
EXPONENT_BIAS = 127
EXPONENT_SHIFT = 23

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
SIGN_MASK = -(1 << 31)

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

Hold = Callable[[Any], Any]
"""Evaluates an expression once; returns an expression that reads the value."""


def _constant(value: float, like: Any) -> Any:
    return tir.const(value, like.dtype)


def _polynomial(coefficients: Sequence[float], x: Any, hold: Hold) -> Any:
    """Return a polynomial in `x`, highest coefficient first, by G. Estrin's scheme.

    Pairs of terms are added independently of each other. Horner's scheme has as many products in a
    row as coefficients, and a processor does not look far enough ahead to find other work.
    """
    terms = [_constant(each, x) for each in coefficients]
    while len(terms) > 1:
        x = hold(x)
        first = terms[: len(terms) % 2]
        pairs = zip(terms[len(first) :: 2], terms[len(first) + 1 :: 2], strict=True)
        terms = [*first, *(hold(high * x + low) for high, low in pairs)]
        x = x * x
    return terms[0]


def _horner(coefficients: Sequence[float], x: Any) -> Any:
    """Return a polynomial by W. Horner's scheme: slower, and rounded less often."""
    result = _constant(coefficients[0], x)
    for coefficient in coefficients[1:]:
        result = result * x + _constant(coefficient, x)
    return result


def _exponential_part(r: Any, hold: Hold) -> Any:
    """Return e**r for r of at most half of log 2; what is largest is added last."""
    *higher, last = EXP_COEFFICIENTS
    p = _polynomial(higher, r, hold) * r + _constant(last, r)
    return p * hold(r * r) + r + _constant(1.0, r)


def _integer_type(dtype: str) -> str:
    lanes = tvm.DataType(dtype).lanes
    return "int32" if lanes == 1 else f"int32x{lanes}"


def _bits(x: Any) -> Any:
    return tir.reinterpret(_integer_type(x.dtype), x)


def _or_nan(x: Any, value: Any) -> Any:
    return tir.Select(tir.EQ(x, x), value, x)


def exp(x: Any, hold: Hold) -> Any:
    """e**x."""
    x = hold(x)
    clamped = hold(tir.Max(tir.Min(x, _constant(EXP_HIGHEST, x)), _constant(EXP_LOWEST, x)))
    shifted = hold(clamped * _constant(LOG2_E, x) + _constant(ROUNDING_MAGIC, x))
    n = hold(shifted - _constant(ROUNDING_MAGIC, x))
    r = hold(clamped - n * _constant(LN2_HIGH, x) - n * _constant(LN2_LOW, x))
    mantissa = _exponential_part(r, hold)
    integer = _integer_type(x.dtype)
    power = hold(_bits(shifted) - tir.const(ROUNDING_MAGIC_BITS, integer))
    half = hold(power >> tir.const(1, integer))
    scaled = mantissa * _power_of_two(half, x.dtype) * _power_of_two(power - half, x.dtype)
    return _or_nan(x, hold(scaled))


def _power_of_two(n: Any, dtype: str) -> Any:
    biased = n + tir.const(EXPONENT_BIAS, n.dtype)
    return tir.reinterpret(dtype, biased << tir.const(EXPONENT_SHIFT, n.dtype))


def log(x: Any, hold: Hold) -> Any:
    """Natural logarithm."""
    x = hold(x)
    integer = _integer_type(x.dtype)
    is_denormal = x < _constant(SMALLEST_NORMAL, x)
    normal = hold(tir.Select(is_denormal, x * _constant(TWO_TO_23, x), x))
    offset = tir.Select(is_denormal, _constant(-float(EXPONENT_SHIFT), x), _constant(0.0, x))
    # The exponent that brings the mantissa into [sqrt(1/2), sqrt(2)).
    lifted = hold(_bits(normal) - tir.const(SQRT_HALF_BITS, integer))
    exponent = hold(lifted >> tir.const(EXPONENT_SHIFT, integer))
    mantissa_bits = (lifted & tir.const(MANTISSA_MASK, integer)) + tir.const(
        SQRT_HALF_BITS, integer
    )
    f = hold(tir.reinterpret(x.dtype, mantissa_bits) - _constant(1.0, x))
    e = hold(tir.Cast(x.dtype, exponent) + offset)
    z = hold(f * f)
    p = hold(_polynomial(LOG_COEFFICIENTS, f, hold) * f * z)
    y = p + e * _constant(LN2_LOW, x) - z * _constant(0.5, x)
    result = hold(f + y + e * _constant(LN2_HIGH, x))
    infinity = _constant(float("inf"), x)
    result = tir.Select(tir.EQ(x, infinity), x, result)
    result = tir.Select(tir.EQ(x, _constant(0.0, x)), _constant(float("-inf"), x), result)
    result = tir.Select(x < _constant(0.0, x), _constant(float("nan"), x), result)
    return _or_nan(x, hold(result))


def erf(x: Any, hold: Hold) -> Any:
    """Error function; of a NaN, for which no comparison holds, what the first branch makes."""
    x = hold(x)
    bits = hold(_bits(x))
    sign = bits & tir.const(SIGN_MASK, bits.dtype)
    t = hold(tir.reinterpret(x.dtype, bits & tir.const(~SIGN_MASK, bits.dtype)))
    clamped = hold(tir.Min(t, _constant(ERF_SATURATION, x)))
    exponent = hold(_polynomial(ERF_FAR, clamped, hold) * clamped)
    far = hold(_constant(1.0, x) - _exp2_of_few(exponent, hold))
    signed = tir.reinterpret(x.dtype, _bits(far) | sign)
    s = hold(x * x)
    near = hold(_polynomial(ERF_NEAR, s, hold) * x + x)
    return tir.Select(t > _constant(ERF_BOUNDARY, x), hold(signed), near)


def _exp2_of_few(x: Any, hold: Hold) -> Any:
    """2**x where that is a normal number, with an error of two units in the last place."""
    shifted = hold(x + _constant(ROUNDING_MAGIC, x))
    p = hold(_polynomial(EXP2_COEFFICIENTS, x - (shifted - _constant(ROUNDING_MAGIC, x)), hold))
    # The magic number's own bits fall off the end.
    shift = tir.const(EXPONENT_SHIFT, _integer_type(x.dtype))
    return tir.reinterpret(x.dtype, _bits(p) + (_bits(shifted) << shift))


def tanh(x: Any, hold: Hold) -> Any:
    """Hyperbolic tangent."""
    x = hold(x)
    clamped = hold(tir.Max(tir.Min(x, _constant(TANH_CLAMP, x)), _constant(-TANH_CLAMP, x)))
    z = hold(clamped * clamped)
    ratio = hold(clamped * _horner(TANH_NUMERATOR, z) / _polynomial(TANH_DENOMINATOR, z, hold))
    is_linear = tir.Max(x, -x) < _constant(TANH_LINEAR, x)
    return _or_nan(x, hold(tir.Select(is_linear, x, ratio)))


def sigmoid(x: Any, hold: Hold) -> Any:
    """1 / (1 + e**-x), by e**-|x|: e**-x overflows where the result is still above zero."""
    x = hold(x)
    one = _constant(1.0, x)
    e = hold(exp_below_zero(tir.Min(x, -x), hold))
    return tir.Select(x < _constant(0.0, x), e, one) / (one + e)


def sigmoid_of_normals(x: Any, hold: Hold) -> Any:
    """1 / (1 + e**-x), zero where that is below the smallest normal number; a seventh shorter.

    Bounds have to keep a NaN of either operand.
    """
    x = hold(x)
    lowest, highest = (_constant(each, x) for each in (SIGMOID_LOWEST, SIGMOID_HIGHEST))
    x = hold(tir.Min(highest, tir.Max(lowest, x)))
    one, magic = _constant(1.0, x), _constant(ROUNDING_MAGIC + EXPONENT_BIAS, x)
    shifted = hold(magic - x * _constant(LOG2_E, x))
    n = hold(shifted - magic)
    # The polynomial is of -s, which would be an instruction more than other signs are.
    s = hold(x + n * _constant(LN2_HIGH, x) + n * _constant(LN2_LOW, x))
    *higher, last = EXP_COEFFICIENTS
    odd = [-each if place % 2 == 0 else each for place, each in enumerate(higher)]
    p = _polynomial(odd, s, hold) * s + _constant(last, s)
    mantissa = hold(one - (s - p * hold(s * s)))
    shift = tir.const(EXPONENT_SHIFT, _integer_type(x.dtype))
    return one / (one + mantissa * tir.reinterpret(x.dtype, _bits(shifted) << shift))


def exp_below_zero(x: Any, hold: Hold) -> Any:
    """e**x for x of at most zero, in two thirds of `exp`'s instructions.

    The power of two is at most 1, so `LIFT` more fits into an exponent, and the product that takes
    it away again rounds to denormals. The operands of the maximum and the products keep a NaN.
    """
    x = hold(tir.Max(_constant(EXP_LOWEST, x), x))
    magic = _constant(ROUNDING_MAGIC + EXPONENT_BIAS + LIFT, x)
    shifted = hold(x * _constant(LOG2_E, x) + magic)
    n = hold(shifted - magic)
    r = hold(x - n * _constant(LN2_HIGH, x) - n * _constant(LN2_LOW, x))
    p = hold(_exponential_part(r, hold))
    # The shift leaves the biased exponent alone: the magic number's own bits fall off the end.
    shift = tir.const(EXPONENT_SHIFT, _integer_type(x.dtype))
    lifted = hold(tir.reinterpret(x.dtype, _bits(shifted) << shift))
    return p * lifted * _constant(0.5**LIFT, x)


def weight_of_score(x: Any, hold: Hold) -> Any:
    """e**x for x of at most zero, as softmax needs it: shorter than `exp_below_zero`.

    Below WEIGHT_LOWEST it is zero. The error is 2.5e-7 of the result, and 8e-8 more for each unit
    of x: at most 2.5e-7 of the largest weight. A NaN is kept.
    """
    x = hold(tir.Max(_constant(WEIGHT_LOWEST, x), x))
    magic = _constant(ROUNDING_MAGIC + EXPONENT_BIAS, x)
    shifted = hold(x * _constant(LOG2_E, x) + magic)
    n = hold(shifted - magic)
    p = _polynomial(EXP2_COEFFICIENTS, hold(x * _constant(LOG2_E, x) - n), hold)
    shift = tir.const(EXPONENT_SHIFT, _integer_type(x.dtype))
    return p * tir.reinterpret(x.dtype, _bits(shifted) << shift)


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

# What `tir.erf` computes, as an operation that TVM makes vectors of.
ERF_OF_VECTORS = "tir.fusionx_erf"

FUNCTIONS: dict[str, Callable[[Any, Hold], Any]] = {
    "tir.exp": exp,
    "tir.log": log,
    "tir.erf": erf,
    ERF_OF_VECTORS: erf,
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
        power = _number(call.args[1])
        return None if power is None else POWERS.get(power)
    return (of_normals and FUNCTIONS_OF_NORMALS.get(name)) or FUNCTIONS.get(name)


def _number(expr: Any) -> float | None:
    value = expr.value if isinstance(expr, tir.Broadcast) else expr
    return float(value.value) if isinstance(value, (tir.FloatImm, tir.IntImm)) else None
