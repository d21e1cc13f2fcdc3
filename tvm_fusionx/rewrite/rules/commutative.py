"""Commutative laws: an operator moved to where there are fewer elements."""

from __future__ import annotations

from tvm_fusionx.rewrite.conditions import why_not_float, why_not_float_scalar
from tvm_fusionx.rewrite.rule import Law, NumericClass, rule
from tvm_fusionx.rewrite.term import Term, call, op


@rule(
    lhs=lambda x, s: op.sum(x * s), law=Law.COMMUTATIVE, when=why_not_float_scalar, x=(4, 8), s=2.0
)
def hoist_scalar_out_of_sum(x: Term, s: Term) -> Term:
    """sum(x*s) -> sum(x)*s for a scalar s: one multiply instead of one per element."""
    return op.sum(x) * s


@rule(
    lhs=lambda x, s: op.mean(x * s), law=Law.COMMUTATIVE, when=why_not_float_scalar, x=(4, 8), s=2.0
)
def hoist_scalar_out_of_mean(x: Term, s: Term) -> Term:
    """mean(x*s) -> mean(x)*s for a scalar s."""
    return op.mean(x) * s


@rule(lhs=lambda a: op.prod(op.exp(a)), law=Law.COMMUTATIVE, when=why_not_float, a=(4, 8))
def product_of_exponentials(a: Term) -> Term:
    """prod(exp(a)) -> exp(sum(a)) (DNNFusion, C3)."""
    return op.exp(op.sum(a))


@rule(
    lhs=lambda a: op.max(op.nn.relu(a)),
    law=Law.COMMUTATIVE,
    numeric_class=NumericClass.EXACT,
    a=(4, 8),
)
def relu_after_max(a: Term) -> Term:
    """max(relu(a)) -> relu(max(a)): a monotone function moved past the maximum."""
    return op.nn.relu(op.max(a))


@rule(
    # Rounded up, a window may lie in the padding alone, and its minus infinity would become 0.
    lhs=lambda a: call("nn.max_pool2d", op.nn.relu(a), attrs={"ceil_mode": False}),
    law=Law.COMMUTATIVE,
    numeric_class=NumericClass.EXACT,
    a=(1, 2, 8, 8),
)
def relu_after_max_pool(a: Term) -> Term:
    """max_pool(relu(a)) -> relu(max_pool(a)); padding is minus infinity, which relu makes 0."""
    return op.nn.relu(op.nn.max_pool2d(a))


RULES = (
    hoist_scalar_out_of_sum,
    hoist_scalar_out_of_mean,
    product_of_exponentials,
    relu_after_max,
    relu_after_max_pool,
)
