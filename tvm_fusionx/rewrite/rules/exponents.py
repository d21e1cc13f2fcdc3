"""Associative laws of powers, exponentials and logarithms: exponents add up."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm_fusionx.rewrite.conditions import non_negative, positive, scalars
from tvm_fusionx.rewrite.rule import Law, NumericClass, rule
from tvm_fusionx.rewrite.rule import non_negative as never_negative
from tvm_fusionx.rewrite.rule import positive as above_zero
from tvm_fusionx.rewrite.term import Term, op

associative = partial(rule, law=Law.ASSOCIATIVE)
conditional = partial(associative, numeric_class=NumericClass.CONDITIONAL)

AB: dict[str, Any] = {"a": (4, 8), "b": (4, 8)}
ABOVE_ZERO: dict[str, Any] = {"a": above_zero(4, 8), "b": above_zero(4, 8)}
POWERS: dict[str, Any] = {"a": above_zero(4, 8), "k": 3.5, "m": 1.5}


@associative(lhs=lambda a, b: op.exp(a) * op.exp(b), **AB)
def merge_exponentials(a: Term, b: Term) -> Term:
    """exp(a)*exp(b) -> exp(a + b)."""
    return op.exp(a + b)


@associative(lhs=lambda a, b: op.exp(a) / op.exp(b), **AB)
def quotient_of_exponentials(a: Term, b: Term) -> Term:
    """exp(a)/exp(b) -> exp(a - b), which does not overflow."""
    return op.exp(a - b)


@associative(lhs=lambda a, b: a / op.exp(b), **AB)
def divide_by_exponential(a: Term, b: Term) -> Term:
    """a/exp(b) -> a*exp(-b)."""
    return a * op.exp(-b)


@associative(lhs=lambda a: op.sqrt(op.exp(a)), a=(4, 8))
def root_of_exponential(a: Term) -> Term:
    """sqrt(exp(a)) -> exp(a*0.5)."""
    return op.exp(a * 0.5)


@associative(lhs=lambda a, k: op.exp(a) ** k, when=scalars("k"), a=(4, 8), k=1.5)
def power_of_exponential(a: Term, k: Term) -> Term:
    """exp(a)^k -> exp(a*k) for a number k."""
    return op.exp(a * k)


@associative(lhs=lambda a, k, m: op.exp(a + k) * m, when=scalars("k", "m"), a=(4, 8), k=0.5, m=2.0)
def constant_out_of_exponential(a: Term, k: Term, m: Term) -> Term:
    """exp(a + k)*m -> exp(a)*(exp(k)*m) for numbers k and m."""
    return op.exp(a) * (op.exp(k) * m)


@conditional(
    lhs=lambda a, b: op.exp(a + op.log(b)), when=positive("b"), a=(4, 8), b=above_zero(4, 8)
)
def exponential_of_shifted_logarithm(a: Term, b: Term) -> Term:
    """exp(a + log(b)) -> exp(a)*b where b is above zero."""
    return op.exp(a) * b


@associative(lhs=lambda a: op.log(op.exp(a)), a=(4, 8))
def logarithm_of_exponential(a: Term) -> Term:
    """log(exp(a)) -> a, which does not overflow."""
    return a


@conditional(lhs=lambda a: op.exp(op.log(a)), when=positive("a"), a=above_zero(4, 8))
def exponential_of_logarithm(a: Term) -> Term:
    """exp(log(a)) -> a where a is above zero."""
    return a


@conditional(lhs=lambda a, b: op.log(a) + op.log(b), when=positive("a", "b"), **ABOVE_ZERO)
def sum_of_logarithms(a: Term, b: Term) -> Term:
    """log(a) + log(b) -> log(a*b) where both are above zero."""
    return op.log(a * b)


@conditional(lhs=lambda a, b: op.log(a) - op.log(b), when=positive("a", "b"), **ABOVE_ZERO)
def difference_of_logarithms(a: Term, b: Term) -> Term:
    """log(a) - log(b) -> log(a/b) where both are above zero."""
    return op.log(a / b)


@conditional(
    lhs=lambda a, k: op.log(a**k), when=(positive("a"), scalars("k")), a=above_zero(4, 8), k=2.5
)
def logarithm_of_power(a: Term, k: Term) -> Term:
    """log(a^k) -> log(a)*k where a is above zero."""
    return op.log(a) * k


@conditional(lhs=lambda a: op.log(op.sqrt(a)), when=positive("a"), a=above_zero(4, 8))
def logarithm_of_root(a: Term) -> Term:
    """log(sqrt(a)) -> log(a)*0.5 where a is above zero."""
    return op.log(a) * 0.5


@conditional(lhs=lambda a: op.log(1.0 / a), when=positive("a"), a=above_zero(4, 8))
def logarithm_of_reciprocal(a: Term) -> Term:
    """log(1/a) -> -log(a) where a is above zero."""
    return -op.log(a)


@conditional(lhs=lambda a, k, m: (a**k) * (a**m), when=(positive("a"), scalars("k", "m")), **POWERS)
def product_of_powers(a: Term, k: Term, m: Term) -> Term:
    """a^k*a^m -> a^(k + m) where a is above zero."""
    return a ** (k + m)


@conditional(lhs=lambda a, k, m: (a**k) / (a**m), when=(positive("a"), scalars("k", "m")), **POWERS)
def quotient_of_powers(a: Term, k: Term, m: Term) -> Term:
    """a^k/a^m -> a^(k - m) where a is above zero."""
    return a ** (k - m)


@conditional(
    lhs=lambda a, k: a * (a**k), when=(positive("a"), scalars("k")), a=above_zero(4, 8), k=2.5
)
def base_times_power(a: Term, k: Term) -> Term:
    """a*a^k -> a^(k + 1) where a is above zero."""
    return a ** (k + 1.0)


@conditional(lhs=lambda a, k, m: (a**k) ** m, when=(non_negative("a"), scalars("k", "m")), **POWERS)
def power_of_power(a: Term, k: Term, m: Term) -> Term:
    """(a^k)^m -> a^(k*m) where a is never negative."""
    return a ** (k * m)


@conditional(
    lhs=lambda a, b, k: (a**k) * (b**k),
    when=(positive("a", "b"), scalars("k")),
    **ABOVE_ZERO,
    k=2.5,
)
def powers_of_one_exponent(a: Term, b: Term, k: Term) -> Term:
    """a^k*b^k -> (a*b)^k where both are above zero."""
    return (a * b) ** k


@conditional(
    lhs=lambda a, k: op.sqrt(a**k),
    when=(non_negative("a"), scalars("k")),
    a=never_negative(4, 8),
    k=2.5,
)
def root_of_power(a: Term, k: Term) -> Term:
    """sqrt(a^k) -> a^(k/2) where a is never negative."""
    return a ** (k * 0.5)


@conditional(
    lhs=lambda a, k: op.sqrt(a) ** k,
    when=(non_negative("a"), scalars("k")),
    a=never_negative(4, 8),
    k=2.5,
)
def power_of_root(a: Term, k: Term) -> Term:
    """sqrt(a)^k -> a^(k/2) where a is never negative."""
    return a ** (k * 0.5)


@conditional(
    lhs=lambda a, k: 1.0 / (a**k), when=(positive("a"), scalars("k")), a=above_zero(4, 8), k=2.5
)
def reciprocal_of_power(a: Term, k: Term) -> Term:
    """1/a^k -> a^(-k) where a is above zero."""
    return a ** (-k)


RULES = (
    merge_exponentials,
    quotient_of_exponentials,
    divide_by_exponential,
    root_of_exponential,
    power_of_exponential,
    constant_out_of_exponential,
    exponential_of_shifted_logarithm,
    logarithm_of_exponential,
    exponential_of_logarithm,
    sum_of_logarithms,
    difference_of_logarithms,
    logarithm_of_power,
    logarithm_of_root,
    logarithm_of_reciprocal,
    product_of_powers,
    quotient_of_powers,
    base_times_power,
    power_of_power,
    powers_of_one_exponent,
    root_of_power,
    power_of_root,
    reciprocal_of_power,
)
