"""Laws of reductions: what is the same for every element is done once, after reducing."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.ecg.numpy_operators import reduced_axes
from tvm_fusionx.rewrite.computing import count_for, reduced
from tvm_fusionx.rewrite.conditions import (
    finite,
    negative,
    non_negative,
    positive,
    scalars,
    unreduced,
)
from tvm_fusionx.rewrite.matching import Match
from tvm_fusionx.rewrite.rule import Domain, Example, Kind, Law, NumericClass, rule
from tvm_fusionx.rewrite.rule import finite as finite_example
from tvm_fusionx.rewrite.rule import non_negative as never_negative
from tvm_fusionx.rewrite.rule import positive as above_zero
from tvm_fusionx.rewrite.rules.families import TOTAL_MONOTONE
from tvm_fusionx.rewrite.term import Term, one_of, op

commutative = partial(rule, law=Law.COMMUTATIVE)
exact = partial(commutative, numeric_class=NumericClass.EXACT, domain=Domain.FLOAT)
conditional = partial(commutative, numeric_class=NumericClass.CONDITIONAL)

ROW_FACTOR: dict[str, Any] = {"x": (4, 8), "s": (4, 1)}
_total = one_of("r", ["mean", "sum"])
_extreme = one_of("r", ["max", "min"])
_monotone = one_of("f", TOTAL_MONOTONE)
_position = one_of("p", ["argmax", "argmin"])


@commutative(
    lhs=lambda x, s: op.sum(x * s), domain=Domain.ANY, when=unreduced("s", "x"), **ROW_FACTOR
)
def hoist_factor_out_of_sum(x: Term, s: Term) -> Term:
    """sum(x*s) -> sum(x)*s for s constant along the axis: one multiply, not one per element."""
    return op.sum(x) * reduced(s)


@commutative(lhs=lambda x, s: op.mean(x * s), when=unreduced("s", "x"), **ROW_FACTOR)
def hoist_factor_out_of_mean(x: Term, s: Term) -> Term:
    """mean(x*s) -> mean(x)*s for s constant along the axis."""
    return op.mean(x) * reduced(s)


@commutative(lhs=lambda x, s: op.sum(x / s), when=unreduced("s", "x"), **ROW_FACTOR)
def hoist_divisor_out_of_sum(x: Term, s: Term) -> Term:
    """sum(x/s) -> sum(x)/s for s constant along the axis."""
    return op.sum(x) / reduced(s)


@commutative(lhs=lambda x, s: op.mean(x / s), when=unreduced("s", "x"), **ROW_FACTOR)
def hoist_divisor_out_of_mean(x: Term, s: Term) -> Term:
    """mean(x/s) -> mean(x)/s for s constant along the axis."""
    return op.mean(x) / reduced(s)


@commutative(
    lhs=lambda x, s: op.sum(x + s), domain=Domain.ANY, when=unreduced("s", "x"), **ROW_FACTOR
)
def hoist_summand_out_of_sum(x: Term, s: Term) -> Term:
    """sum(x + s) -> sum(x) + s*N for s constant along the axis of N elements."""
    return op.sum(x) + reduced(s) * count_for(s)


@commutative(
    lhs=lambda x, s: op.sum(x - s), domain=Domain.ANY, when=unreduced("s", "x"), **ROW_FACTOR
)
def hoist_subtrahend_out_of_sum(x: Term, s: Term) -> Term:
    """sum(x - s) -> sum(x) - s*N for s constant along the axis of N elements."""
    return op.sum(x) - reduced(s) * count_for(s)


@commutative(lhs=lambda x, s: op.mean(x + s), when=unreduced("s", "x"), **ROW_FACTOR)
def hoist_summand_out_of_mean(x: Term, s: Term) -> Term:
    """mean(x + s) -> mean(x) + s for s constant along the axis."""
    return op.mean(x) + reduced(s)


@commutative(lhs=lambda x, s: op.mean(x - s), when=unreduced("s", "x"), **ROW_FACTOR)
def hoist_subtrahend_out_of_mean(x: Term, s: Term) -> Term:
    """mean(x - s) -> mean(x) - s for s constant along the axis."""
    return op.mean(x) - reduced(s)


@exact(lhs=lambda x: _total(-x), x=(4, 8))
def hoist_sign_out_of_total(x: Term) -> Term:
    """sum(-x) -> -sum(x); and for mean."""
    return -_total(x)


@exact(lhs=lambda x: op.max(-x), x=(16, 2))
def maximum_of_negative(x: Term) -> Term:
    """max(-x) -> -min(x)."""
    return -op.min(x)


@exact(lhs=lambda x: op.min(-x), x=(16, 2))
def minimum_of_negative(x: Term) -> Term:
    """min(-x) -> -max(x)."""
    return -op.max(x)


@conditional(
    lhs=lambda x, s: _extreme(x * s),
    when=(positive("s"), unreduced("s", "x")),
    x=(4, 8),
    s=above_zero(4, 1),
)
def hoist_positive_factor_out_of_extreme(x: Term, s: Term) -> Term:
    """max(x*s) -> max(x)*s for s above zero and constant along the axis; and for min."""
    return _extreme(x) * reduced(s)


@conditional(
    lhs=lambda x, s: op.max(x * s), when=(negative("s"), unreduced("s", "x")), x=(4, 8), s=-2.0
)
def maximum_of_negatively_scaled(x: Term, s: Term) -> Term:
    """max(x*s) -> min(x)*s for s below zero and constant along the axis."""
    return op.min(x) * reduced(s)


@conditional(
    lhs=lambda x, s: op.min(x * s), when=(negative("s"), unreduced("s", "x")), x=(4, 8), s=-2.0
)
def minimum_of_negatively_scaled(x: Term, s: Term) -> Term:
    """min(x*s) -> max(x)*s for s below zero and constant along the axis."""
    return op.max(x) * reduced(s)


@conditional(lhs=lambda x, s: _extreme(x + s), when=unreduced("s", "x"), **ROW_FACTOR)
def hoist_summand_out_of_extreme(x: Term, s: Term) -> Term:
    """max(x + s) -> max(x) + s for s constant along the axis; and for min."""
    return _extreme(x) + reduced(s)


@conditional(lhs=lambda x, s: _extreme(x - s), when=unreduced("s", "x"), **ROW_FACTOR)
def hoist_subtrahend_out_of_extreme(x: Term, s: Term) -> Term:
    """max(x - s) -> max(x) - s for s constant along the axis; and for min."""
    return _extreme(x) - reduced(s)


@exact(lhs=lambda x: _extreme(_monotone(x)), x=(4, 8))
def monotone_after_extreme(x: Term) -> Term:
    """max(f(x)) -> f(max(x)) for a function that never falls; and for min."""
    return _monotone(_extreme(x))


@commutative(lhs=lambda a: op.prod(op.exp(a)), a=(4, 8))
def product_of_exponentials(a: Term) -> Term:
    """prod(exp(a)) -> exp(sum(a)), which does not overflow (DNNFusion, C3)."""
    return op.exp(op.sum(a))


@commutative(lhs=lambda x, s: op.prod(x * s), when=scalars("s"), x=(4, 8), s=2.0)
def hoist_factor_out_of_product(x: Term, s: Term) -> Term:
    """prod(x*s) -> prod(x)*s^N for a number s and N elements."""
    return op.prod(x) * (s ** count_for(s))


@commutative(lhs=lambda x: op.prod(1.0 / x), x=(4, 8))
def product_of_reduced_reciprocals(x: Term) -> Term:
    """prod(1/x) -> 1/prod(x)."""
    return 1.0 / op.prod(x)


@commutative(lhs=lambda x: op.prod(op.abs(x)), x=(4, 8))
def product_of_absolutes(x: Term) -> Term:
    """prod(|x|) -> |prod(x)|."""
    return op.abs(op.prod(x))


@commutative(lhs=lambda x: op.prod(x * x), x=(4, 8))
def product_of_reduced_squares(x: Term) -> Term:
    """prod(x*x) -> prod(x)*prod(x)."""
    return op.prod(x) * op.prod(x)


@conditional(lhs=lambda x: op.prod(op.sqrt(x)), when=non_negative("x"), x=never_negative(4, 8))
def product_of_reduced_roots(x: Term) -> Term:
    """prod(sqrt(x)) -> sqrt(prod(x)) where x is never negative."""
    return op.sqrt(op.prod(x))


@commutative(
    lhs=lambda a, k: op.sum(op.left_shift(a, k)),
    domain=Domain.INTEGER,
    when=scalars("k"),
    a=(4, 8),
    k=2,
)
def shift_after_sum(a: Term, k: Term) -> Term:
    """sum(a << k) -> sum(a) << k for a number k: integers wrap alike (DNNFusion, C2)."""
    return op.left_shift(op.sum(a), k)


def _why_not_axis_of_softmax(match: Match) -> str | None:
    position, softmax = match.nodes
    rank = len(softmax.outputs[0].shape)
    if reduced_axes(position) != (int(softmax.attrs["axis"]) % rank,):
        return "the softmax runs along another axis"
    return None


@commutative(lhs=lambda x: op.argmax(op.nn.softmax(x)), when=_why_not_axis_of_softmax, x=(4, 8))
def position_without_softmax(x: Term) -> Term:
    """argmax(softmax(x)) -> argmax(x) along one axis: the largest stays the largest."""
    return op.argmax(x)


@commutative(
    lhs=lambda x, s: _position(x * s),
    when=(positive("s"), finite("s"), unreduced("s", "x")),
    x=(4, 8),
    s=Example((4, 1), Kind.CONSTANT, 2.0),
)
def position_without_factor(x: Term, s: Term) -> Term:
    """argmax(x*s) -> argmax(x) for s above zero, finite and constant along the axis."""
    return _position(x)


@commutative(
    lhs=lambda x, s: _position(x + s),
    when=(finite("s"), unreduced("s", "x")),
    x=(4, 8),
    s=finite_example(4, 1),
)
def position_without_summand(x: Term, s: Term) -> Term:
    """argmax(x + s) -> argmax(x) for a finite s, constant along the axis."""
    return _position(x)


@exact(lhs=lambda x: op.argmax(-x), x=(4, 8))
def last_position_of_negative(x: Term) -> Term:
    """argmax(-x) -> argmin(x)."""
    return op.argmin(x)


def _is_share(value: Value, node: Node) -> bool:
    count = node.operands[0].type.elements / max(node.outputs[0].elements, 1)
    return (
        value.is_constant
        and value.type.elements == 1
        and not value.shape
        and bool(np.isclose(float(value.array) * count, 1.0, rtol=1e-6))  # float32's precision
    )


def _why_not_share(s: Value, match: Match) -> str | None:
    node = match.first(frozenset(["sum"]))
    assert node is not None
    return None if _is_share(s, node) else "the factor is not one over the number of elements"


@commutative(lhs=lambda x, s: op.sum(x) * s, when=_why_not_share, x=(4, 8), s=0.125)
def scaled_sum_as_mean(x: Term, s: Term) -> Term:
    """sum(x)*(1/N) -> mean(x) over N elements."""
    return op.mean(x)


RULES = (
    hoist_factor_out_of_sum,
    hoist_factor_out_of_mean,
    hoist_divisor_out_of_sum,
    hoist_divisor_out_of_mean,
    hoist_summand_out_of_sum,
    hoist_subtrahend_out_of_sum,
    hoist_summand_out_of_mean,
    hoist_subtrahend_out_of_mean,
    hoist_sign_out_of_total,
    maximum_of_negative,
    minimum_of_negative,
    hoist_positive_factor_out_of_extreme,
    maximum_of_negatively_scaled,
    minimum_of_negatively_scaled,
    hoist_summand_out_of_extreme,
    hoist_subtrahend_out_of_extreme,
    monotone_after_extreme,
    product_of_exponentials,
    hoist_factor_out_of_product,
    product_of_reduced_reciprocals,
    product_of_absolutes,
    product_of_reduced_squares,
    product_of_reduced_roots,
    shift_after_sum,
    position_without_softmax,
    position_without_factor,
    position_without_summand,
    last_position_of_negative,
    scaled_sum_as_mean,
)
