"""Associative laws of multiplication and division: the same chain, grouped to cost less."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm_fusionx.rewrite.conditions import (
    constants,
    non_negative,
    nonzero,
    positive,
    smaller,
)
from tvm_fusionx.rewrite.rule import Domain, Law, NumericClass, rule
from tvm_fusionx.rewrite.rule import non_negative as never_negative
from tvm_fusionx.rewrite.rule import positive as above_zero
from tvm_fusionx.rewrite.term import Term, op

associative = partial(rule, law=Law.ASSOCIATIVE)
exact = partial(associative, numeric_class=NumericClass.EXACT)
conditional = partial(associative, numeric_class=NumericClass.CONDITIONAL)

AB: dict[str, Any] = {"a": (4, 8), "b": (4, 8)}
NEVER_NEGATIVE: dict[str, Any] = {"a": never_negative(4, 8), "b": never_negative(4, 8)}
ABOVE_ZERO: dict[str, Any] = {"a": above_zero(4, 8), "b": above_zero(4, 8)}


@associative(
    lhs=lambda a, k, m: (a * k) * m,
    domain=Domain.ANY,
    when=constants("k", "m"),
    a=(4, 8),
    k=2.0,
    m=3.0,
)
def merge_constant_factors(a: Term, k: Term, m: Term) -> Term:
    """(a*k)*m -> a*(k*m) for constants k and m, whose product is known at compile time."""
    return a * (k * m)


@associative(
    lhs=lambda a, s, t: (a * s) * t,
    domain=Domain.ANY,
    when=(smaller("s", "a"), smaller("t", "a")),
    a=(4, 8),
    s=(8,),
    t=(8,),
)
def merge_broadcast_factors(a: Term, s: Term, t: Term) -> Term:
    """(a*s)*t -> a*(s*t): broadcast factors meet first (A4: s is t, a sum of rows)."""
    return a * (s * t)


@associative(lhs=lambda a, b: (1.0 / a) * (1.0 / (a * b)), **AB)
def share_reciprocal(a: Term, b: Term) -> Term:
    """(1/a)*(1/(a*b)) -> 1/((a*a)*b): one division instead of two (DNNFusion, A1)."""
    return 1.0 / ((a * a) * b)


@associative(lhs=lambda a, b: (1.0 / a) * (1.0 / b), **AB)
def product_of_reciprocals(a: Term, b: Term) -> Term:
    """(1/a)*(1/b) -> 1/(a*b)."""
    return 1.0 / (a * b)


@associative(lhs=lambda a, b, c, d: (a / b) * (c / d), **AB, c=(4, 8), d=(4, 8))
def product_of_quotients(a: Term, b: Term, c: Term, d: Term) -> Term:
    """(a/b)*(c/d) -> (a*c)/(b*d)."""
    return (a * c) / (b * d)


@associative(lhs=lambda a, b, c: (a / b) / c, **AB, c=(4, 8))
def quotient_of_quotient(a: Term, b: Term, c: Term) -> Term:
    """(a/b)/c -> a/(b*c)."""
    return a / (b * c)


@associative(lhs=lambda a, b, c: a / (b / c), **AB, c=(4, 8))
def divide_by_quotient(a: Term, b: Term, c: Term) -> Term:
    """a/(b/c) -> (a*c)/b."""
    return (a * c) / b


@associative(lhs=lambda a, b: a * (1.0 / b), **AB)
def times_reciprocal(a: Term, b: Term) -> Term:
    """a*(1/b) -> a/b."""
    return a / b


@associative(
    lhs=lambda a, k, m: k / (a * m), when=(constants("k"), nonzero("m")), a=(4, 8), k=2.0, m=4.0
)
def constant_over_scaled(a: Term, k: Term, m: Term) -> Term:
    """k/(a*m) -> (k/m)/a for constants."""
    return (k / m) / a


@associative(lhs=lambda a, k, m: (k / a) * m, when=constants("k", "m"), a=(4, 8), k=2.0, m=4.0)
def scaled_reciprocal(a: Term, k: Term, m: Term) -> Term:
    """(k/a)*m -> (k*m)/a for constants."""
    return (k * m) / a


@associative(
    lhs=lambda a, k, m: k / (m / a), when=(constants("k"), nonzero("m")), a=(4, 8), k=2.0, m=4.0
)
def constant_over_reciprocal(a: Term, k: Term, m: Term) -> Term:
    """k/(m/a) -> a*(k/m) for constants."""
    return a * (k / m)


@associative(lhs=lambda a: 1.0 / op.sqrt(a), a=(4, 8))
def reciprocal_of_root(a: Term) -> Term:
    """1/sqrt(a) -> rsqrt(a)."""
    return op.rsqrt(a)


@associative(lhs=lambda a, b: a / op.sqrt(b), a=(4, 8), b=above_zero(4, 1))
def divide_by_root(a: Term, b: Term) -> Term:
    """a/sqrt(b) -> a*rsqrt(b): one division for each b, not for each a."""
    return a * op.rsqrt(b)


@associative(lhs=lambda a, b: a / op.rsqrt(b), a=(4, 8), b=above_zero(4, 8))
def divide_by_reciprocal_root(a: Term, b: Term) -> Term:
    """a/rsqrt(b) -> a*sqrt(b)."""
    return a * op.sqrt(b)


@conditional(lhs=lambda b: op.sqrt(b) * op.sqrt(b), when=non_negative("b"), b=never_negative(4, 8))
def square_of_root(b: Term) -> Term:
    """sqrt(b)*sqrt(b) -> b where b is never negative, wherever in a product (DNNFusion, A2)."""
    return b


@conditional(
    lhs=lambda a, b: op.sqrt(a) * op.sqrt(b), when=non_negative("a", "b"), **NEVER_NEGATIVE
)
def product_of_roots(a: Term, b: Term) -> Term:
    """sqrt(a)*sqrt(b) -> sqrt(a*b) where neither is negative."""
    return op.sqrt(a * b)


@conditional(
    lhs=lambda a, b: op.sqrt(a) / op.sqrt(b),
    when=(non_negative("a"), positive("b")),
    a=never_negative(4, 8),
    b=above_zero(4, 8),
)
def quotient_of_roots(a: Term, b: Term) -> Term:
    """sqrt(a)/sqrt(b) -> sqrt(a/b) where a is never negative and b above zero."""
    return op.sqrt(a / b)


@conditional(lhs=lambda a, b: op.rsqrt(a) * op.rsqrt(b), when=positive("a", "b"), **ABOVE_ZERO)
def product_of_reciprocal_roots(a: Term, b: Term) -> Term:
    """rsqrt(a)*rsqrt(b) -> rsqrt(a*b) where both are above zero."""
    return op.rsqrt(a * b)


@conditional(lhs=lambda a: op.rsqrt(a) * op.rsqrt(a), when=positive("a"), a=above_zero(4, 8))
def square_of_reciprocal_root(a: Term) -> Term:
    """rsqrt(a)*rsqrt(a) -> 1/a where a is above zero."""
    return 1.0 / a


@conditional(lhs=lambda a: a * op.rsqrt(a), when=positive("a"), a=above_zero(4, 8))
def times_own_reciprocal_root(a: Term) -> Term:
    """a*rsqrt(a) -> sqrt(a) where a is above zero."""
    return op.sqrt(a)


@associative(lhs=lambda a: op.sqrt(a * a), a=(4, 8))
def root_of_square(a: Term) -> Term:
    """sqrt(a*a) -> |a|."""
    return op.abs(a)


@associative(lhs=lambda a, b: (a * a) * (b * b), domain=Domain.ANY, **AB)
def product_of_squares(a: Term, b: Term) -> Term:
    """(a*a)*(b*b) -> (a*b)*(a*b): one multiply fewer."""
    return (a * b) * (a * b)


@associative(lhs=lambda a, b: (a * a) / (b * b), **AB)
def quotient_of_squares(a: Term, b: Term) -> Term:
    """(a*a)/(b*b) -> (a/b)*(a/b): one multiply fewer."""
    return (a / b) * (a / b)


@associative(lhs=lambda a, b: op.abs(a) * op.abs(b), **AB)
def merge_absolute_factors(a: Term, b: Term) -> Term:
    """|a|*|b| -> |a*b|, wherever in a product (DNNFusion, A3)."""
    return op.abs(a * b)


@exact(lhs=lambda a: op.abs(a) * op.abs(a), a=(4, 8))
def square_of_absolute(a: Term) -> Term:
    """|a|*|a| -> a*a."""
    return a * a


@exact(lhs=lambda a, b: op.abs(a) / op.abs(b), domain=Domain.FLOAT, **AB)
def quotient_of_absolutes(a: Term, b: Term) -> Term:
    """|a|/|b| -> |a/b|."""
    return op.abs(a / b)


@associative(lhs=lambda a: op.sign(a) * op.abs(a), a=(4, 8))
def sign_times_absolute(a: Term) -> Term:
    """sign(a)*|a| -> a."""
    return a


@exact(lhs=lambda a, b: (-a) * (-b), **AB)
def product_of_negatives(a: Term, b: Term) -> Term:
    """(-a)*(-b) -> a*b."""
    return a * b


@exact(lhs=lambda a, b: (-a) / (-b), domain=Domain.FLOAT, **AB)
def quotient_of_negatives(a: Term, b: Term) -> Term:
    """(-a)/(-b) -> a/b."""
    return a / b


@exact(lhs=lambda a, k: (-a) * k, when=constants("k"), a=(4, 8), k=2.0)
def negative_into_factor(a: Term, k: Term) -> Term:
    """(-a)*k -> a*(-k) for a constant k."""
    return a * (-k)


@exact(lhs=lambda a, k: -(a * k), when=constants("k"), a=(4, 8), k=2.0)
def negative_of_scaled(a: Term, k: Term) -> Term:
    """-(a*k) -> a*(-k) for a constant k."""
    return a * (-k)


@exact(lhs=lambda a, k: k / (-a), domain=Domain.FLOAT, when=constants("k"), a=(4, 8), k=2.0)
def constant_over_negative(a: Term, k: Term) -> Term:
    """k/(-a) -> (-k)/a for a constant k."""
    return (-k) / a


RULES = (
    merge_constant_factors,
    merge_broadcast_factors,
    share_reciprocal,
    product_of_quotients,
    quotient_of_quotient,
    divide_by_quotient,
    times_reciprocal,
    product_of_reciprocals,
    constant_over_scaled,
    scaled_reciprocal,
    constant_over_reciprocal,
    square_of_root,
    square_of_reciprocal_root,
    times_own_reciprocal_root,
    quotient_of_roots,
    product_of_roots,
    product_of_reciprocal_roots,
    reciprocal_of_root,
    divide_by_root,
    divide_by_reciprocal_root,
    root_of_square,
    product_of_squares,
    quotient_of_squares,
    square_of_absolute,
    merge_absolute_factors,
    quotient_of_absolutes,
    sign_times_absolute,
    product_of_negatives,
    quotient_of_negatives,
    negative_into_factor,
    negative_of_scaled,
    constant_over_negative,
)
