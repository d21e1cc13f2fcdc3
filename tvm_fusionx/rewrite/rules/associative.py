"""Associative laws: the same chain, grouped to cost less."""

from __future__ import annotations

from tvm_fusionx.rewrite.conditions import (
    why_not_float,
    why_not_float_constants,
    why_not_non_negative,
)
from tvm_fusionx.rewrite.rule import Law, NumericClass, rule
from tvm_fusionx.rewrite.term import Term, op


@rule(
    lhs=lambda a, k, m: (a * k) * m,
    law=Law.ASSOCIATIVE,
    when=why_not_float_constants,
    a=(4, 8),
    k=2.0,
    m=3.0,
)
def merge_constant_factors(a: Term, k: Term, m: Term) -> Term:
    """(a*k)*m -> a*(k*m) for constants k and m, whose product is known at compile time."""
    return a * (k * m)


@rule(
    lhs=lambda a, k, m: (a + k) + m,
    law=Law.ASSOCIATIVE,
    when=why_not_float_constants,
    a=(4, 8),
    k=2.0,
    m=3.0,
)
def merge_constant_summands(a: Term, k: Term, m: Term) -> Term:
    """(a+k)+m -> a+(k+m) for constants k and m."""
    return a + (k + m)


@rule(
    lhs=lambda a, b: (1.0 / a) * (1.0 / (a * b)),
    law=Law.ASSOCIATIVE,
    when=why_not_float,
    a=(4, 8),
    b=(4, 8),
)
def share_reciprocal(a: Term, b: Term) -> Term:
    """(1/a)*(1/(a*b)) -> (1/(a*a))*(1/b): b's reciprocal folds if constant (DNNFusion, A1)."""
    return 1.0 / ((a * a) * b)


@rule(
    lhs=lambda a, b, c: (a * op.sqrt(b)) * (op.sqrt(b) * c),
    law=Law.ASSOCIATIVE,
    numeric_class=NumericClass.CONDITIONAL,
    when=why_not_non_negative,
    a=(4, 8),
    b=(4, 8),
    c=(4, 8),
)
def square_of_root(a: Term, b: Term, c: Term) -> Term:
    """(a*sqrt(b))*(sqrt(b)*c) -> a*b*c where b is never negative (DNNFusion, A2)."""
    return (a * b) * c


@rule(
    lhs=lambda a, b, c: (op.abs(a) * b) * op.abs(c),
    law=Law.ASSOCIATIVE,
    when=why_not_float,
    a=(4, 8),
    b=(4, 8),
    c=(4, 8),
)
def merge_absolute_factors(a: Term, b: Term, c: Term) -> Term:
    """(|a|*b)*|c| -> |a*c|*b (DNNFusion, A3)."""
    return op.abs(a * c) * b


@rule(
    lhs=lambda a, b: op.exp(a) * op.exp(b),
    law=Law.ASSOCIATIVE,
    when=why_not_float,
    a=(4, 8),
    b=(4, 8),
)
def merge_exponentials(a: Term, b: Term) -> Term:
    """exp(a)*exp(b) -> exp(a+b)."""
    return op.exp(a + b)


@rule(lhs=lambda a: 1.0 / op.sqrt(a), law=Law.ASSOCIATIVE, when=why_not_float, a=(4, 8))
def reciprocal_of_root(a: Term) -> Term:
    """1/sqrt(a) -> rsqrt(a)."""
    return op.rsqrt(a)


@rule(
    lhs=lambda a, b: a / op.sqrt(b),
    law=Law.ASSOCIATIVE,
    when=why_not_float,
    a=(4, 8),
    b=(4, 1),
)
def divide_by_root(a: Term, b: Term) -> Term:
    """a/sqrt(b) -> a*rsqrt(b): one division for each b, not for each a."""
    return a * op.rsqrt(b)


RULES = (
    merge_constant_factors,
    merge_constant_summands,
    share_reciprocal,
    square_of_root,
    merge_absolute_factors,
    merge_exponentials,
    reciprocal_of_root,
    divide_by_root,
)
