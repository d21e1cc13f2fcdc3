"""Distributive laws: a common factor taken out."""

from __future__ import annotations

from tvm_fusionx.ecg.graph import Value
from tvm_fusionx.rewrite.conditions import why_not_float
from tvm_fusionx.rewrite.rule import Law, rule
from tvm_fusionx.rewrite.term import Term, op


@rule(lhs=lambda a, b, c: a * c + b * c, law=Law.DISTRIBUTIVE, a=(4, 8), b=(4, 8), c=(4, 8))
def factor_common_multiplier(a: Term, b: Term, c: Term) -> Term:
    """a*c + b*c -> (a + b)*c: one multiply fewer (DNNFusion, D1)."""
    return (a + b) * c


@rule(lhs=lambda a, b, c: a * c - b * c, law=Law.DISTRIBUTIVE, a=(4, 8), b=(4, 8), c=(4, 8))
def factor_common_multiplier_of_difference(a: Term, b: Term, c: Term) -> Term:
    """a*c - b*c -> (a - b)*c."""
    return (a - b) * c


@rule(
    lhs=lambda a, b, c: a / c + b / c,
    law=Law.DISTRIBUTIVE,
    when=why_not_float,
    a=(4, 8),
    b=(4, 8),
    c=(4, 8),
)
def factor_common_divisor(a: Term, b: Term, c: Term) -> Term:
    """a/c + b/c -> (a + b)/c: one division fewer."""
    return (a + b) / c


def _why_not_constant(b: Value) -> str | None:
    return None if b.is_constant else "b is not a constant, so b+1 is not known"


@rule(lhs=lambda a, b: a + a * b, law=Law.DISTRIBUTIVE, when=_why_not_constant, a=(4, 8), b=0.5)
def factor_self(a: Term, b: Term) -> Term:
    """a+a*b -> a*(b + 1), for a constant b (DNNFusion, D2)."""
    return a * (b + 1.0)


@rule(
    lhs=lambda a, b, c: (a + b) * (a + b) - (a + b) * c,
    law=Law.DISTRIBUTIVE,
    a=(4, 8),
    b=(4, 8),
    c=(4, 8),
)
def factor_square(a: Term, b: Term, c: Term) -> Term:
    """(a+b)^2 - (a+b)*c -> (a+b)*((a+b) - c) (DNNFusion, D3)."""
    return (a + b) * ((a + b) - c)


def _why_not_weights(v: Value, w: Value) -> str | None:
    return None if v.is_constant and w.is_constant else "the weights are not constants"


@rule(
    lhs=lambda x, v, w: op.nn.dense(x, v) + op.nn.dense(x, w),
    law=Law.DISTRIBUTIVE,
    when=_why_not_weights,
    x=(4, 8),
    v=(6, 8),
    w=(6, 8),
)
def add_weights_of_dense(x: Term, v: Term, w: Term) -> Term:
    """dense(x, v) + dense(x, w) -> dense(x, v + w): half the products."""
    return op.nn.dense(x, v + w)


RULES = (
    add_weights_of_dense,
    factor_square,
    factor_common_multiplier,
    factor_common_multiplier_of_difference,
    factor_common_divisor,
    factor_self,
)
