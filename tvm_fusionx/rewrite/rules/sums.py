"""Associative laws of addition and subtraction: constants and signs gathered."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm_fusionx.rewrite.conditions import constants, smaller
from tvm_fusionx.rewrite.rule import Domain, Law, NumericClass, rule
from tvm_fusionx.rewrite.term import Term

associative = partial(rule, law=Law.ASSOCIATIVE, domain=Domain.ANY)
exact = partial(associative, numeric_class=NumericClass.EXACT)

AB: dict[str, Any] = {"a": (4, 8), "b": (4, 8)}
AKM: dict[str, Any] = {"a": (4, 8), "k": 2.0, "m": 3.0}


@associative(lhs=lambda a, k, m: (a + k) + m, when=constants("k", "m"), **AKM)
def merge_constant_summands(a: Term, k: Term, m: Term) -> Term:
    """(a + k) + m -> a + (k + m) for constants k and m."""
    return a + (k + m)


@associative(
    lhs=lambda a, s, t: (a + s) + t,
    when=(smaller("s", "a"), smaller("t", "a")),
    a=(4, 8),
    s=(8,),
    t=(8,),
)
def merge_broadcast_summands(a: Term, s: Term, t: Term) -> Term:
    """(a + s) + t -> a + (s + t): broadcast summands meet first."""
    return a + (s + t)


@associative(lhs=lambda a, k, m: (a - k) - m, when=constants("k", "m"), **AKM)
def merge_constant_subtrahends(a: Term, k: Term, m: Term) -> Term:
    """(a - k) - m -> a - (k + m) for constants."""
    return a - (k + m)


@associative(lhs=lambda a, k, m: (a - k) + m, when=constants("k", "m"), **AKM)
def subtract_then_add_constants(a: Term, k: Term, m: Term) -> Term:
    """(a - k) + m -> a + (m - k) for constants."""
    return a + (m - k)


@associative(lhs=lambda a, k, m: (a + k) - m, when=constants("k", "m"), **AKM)
def add_then_subtract_constants(a: Term, k: Term, m: Term) -> Term:
    """(a + k) - m -> a + (k - m) for constants."""
    return a + (k - m)


@associative(lhs=lambda a, k, m: k - (a + m), when=constants("k", "m"), **AKM)
def subtract_shifted_from_constant(a: Term, k: Term, m: Term) -> Term:
    """k - (a + m) -> (k - m) - a for constants."""
    return (k - m) - a


@associative(lhs=lambda a, k, m: k - (m - a), when=constants("k", "m"), **AKM)
def subtract_twice_from_constants(a: Term, k: Term, m: Term) -> Term:
    """k - (m - a) -> a + (k - m) for constants: one minus an inverted mask."""
    return a + (k - m)


@associative(lhs=lambda a, k, m: (k - a) + m, when=constants("k", "m"), **AKM)
def constant_minus_plus_constant(a: Term, k: Term, m: Term) -> Term:
    """(k - a) + m -> (k + m) - a for constants."""
    return (k + m) - a


@exact(lhs=lambda a, b: a + (-b), **AB)
def add_negative(a: Term, b: Term) -> Term:
    """a + (-b) -> a - b."""
    return a - b


@exact(lhs=lambda a, b: a - (-b), **AB)
def subtract_negative(a: Term, b: Term) -> Term:
    """a - (-b) -> a + b."""
    return a + b


@exact(lhs=lambda a, b: -(a - b), **AB)
def negative_of_difference(a: Term, b: Term) -> Term:
    """-(a - b) -> b - a."""
    return b - a


@exact(lhs=lambda a, k: -(a + k), when=constants("k"), a=(4, 8), k=2.0)
def negative_of_shifted(a: Term, k: Term) -> Term:
    """-(a + k) -> (-k) - a for a constant k."""
    return (-k) - a


@exact(lhs=lambda a: -(-a), a=(4, 8))
def negative_of_negative(a: Term) -> Term:
    """-(-a) -> a."""
    return a


RULES = (
    merge_constant_summands,
    merge_broadcast_summands,
    merge_constant_subtrahends,
    subtract_then_add_constants,
    add_then_subtract_constants,
    subtract_shifted_from_constant,
    subtract_twice_from_constants,
    constant_minus_plus_constant,
    add_negative,
    subtract_negative,
    negative_of_difference,
    negative_of_shifted,
    negative_of_negative,
)
