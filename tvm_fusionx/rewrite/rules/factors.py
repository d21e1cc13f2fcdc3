"""Distributive laws of arithmetic: a common factor, divisor or affine map taken out."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tvm_fusionx.ecg.fold import LARGEST_FOLDED_BYTES
from tvm_fusionx.ecg.graph import Value
from tvm_fusionx.operators import CONTRACTIONS, REORGANIZE
from tvm_fusionx.rewrite.conditions import (
    constants,
    finite,
    why_not_finite_or_largest,
    why_not_varying,
)
from tvm_fusionx.rewrite.rule import Domain, Law, NumericClass, constant, rule
from tvm_fusionx.rewrite.rule import finite as finite_example
from tvm_fusionx.rewrite.term import Term, computed, op
from tvm_fusionx.rewrite.writing import Writing

distributive = partial(rule, law=Law.DISTRIBUTIVE)
wrapping = partial(distributive, domain=Domain.ANY)

AB: dict[str, Any] = {"a": (4, 8), "b": (4, 8)}
ABC: dict[str, Any] = {**AB, "c": (4, 8)}
AFFINE: dict[str, Any] = {"a": (4, 8), "k": 2.0, "m": 3.0, "n": 0.5}


@wrapping(lhs=lambda a, b, c: a * c + b * c, **ABC)
def factor_common_multiplier(a: Term, b: Term, c: Term) -> Term:
    """a*c + b*c -> (a + b)*c: one multiply fewer (DNNFusion, D1)."""
    return (a + b) * c


@wrapping(lhs=lambda a, b, c: a * c - b * c, **ABC)
def factor_common_multiplier_of_difference(a: Term, b: Term, c: Term) -> Term:
    """a*c - b*c -> (a - b)*c."""
    return (a - b) * c


@distributive(lhs=lambda a, b, c: a / c + b / c, **ABC)
def factor_common_divisor(a: Term, b: Term, c: Term) -> Term:
    """a/c + b/c -> (a + b)/c: one division fewer."""
    return (a + b) / c


@distributive(lhs=lambda a, b, c: a / c - b / c, **ABC)
def factor_common_divisor_of_difference(a: Term, b: Term, c: Term) -> Term:
    """a/c - b/c -> (a - b)/c: one division fewer."""
    return (a - b) / c


@wrapping(lhs=lambda a, b: a + a * b, when=constants("b"), a=(4, 8), b=0.5)
def factor_self(a: Term, b: Term) -> Term:
    """a + a*b -> a*(b + 1), for a constant b (DNNFusion, D2)."""
    return a * (b + 1.0)


@wrapping(lhs=lambda a, b: a - a * b, when=constants("b"), a=(4, 8), b=0.5)
def factor_self_of_difference(a: Term, b: Term) -> Term:
    """a - a*b -> a*(1 - b), for a constant b."""
    return a * (1.0 - b)


@wrapping(lhs=lambda a, b: a * b - a, when=constants("b"), a=(4, 8), b=0.5)
def factor_subtracted_self(a: Term, b: Term) -> Term:
    """a*b - a -> a*(b - 1), for a constant b."""
    return a * (b - 1.0)


@wrapping(lhs=lambda a, b, c: (a + b) * (a + b) - (a + b) * c, **ABC)
def factor_square(a: Term, b: Term, c: Term) -> Term:
    """(a + b)^2 - (a + b)*c -> (a + b)*((a + b) - c) (DNNFusion, D3)."""
    return (a + b) * ((a + b) - c)


@wrapping(lhs=lambda a, b: (a * a + (a * b) * 2.0) + b * b, **AB)
def square_of_sum(a: Term, b: Term) -> Term:
    """a*a + 2*a*b + b*b -> (a + b)^2."""
    return (a + b) * (a + b)


@wrapping(lhs=lambda a, b: (a * a + b * b) - (a * b) * 2.0, **AB)
def square_of_difference(a: Term, b: Term) -> Term:
    """a*a + b*b - 2*a*b -> (a - b)^2: a distance spelled out."""
    return (a - b) * (a - b)


def _why_not_free_bias(a: Value) -> str | None:
    while a.op in REORGANIZE:
        a = a.node.operands[0]
    # Products that share an input are merged together with their biases.
    return "the summand is a product's bias" if a.op in CONTRACTIONS else None


@wrapping(
    lhs=lambda a, k, m, n: (a + k) * m + n,
    when=(constants("k", "m", "n"), _why_not_free_bias),
    **AFFINE,
)
def shift_after_scale(a: Term, k: Term, m: Term, n: Term) -> Term:
    """(a + k)*m + n -> a*m + (k*m + n) for constants: one add fewer."""
    return a * m + (k * m + n)


@wrapping(lhs=lambda a, k, m, n: (a - k) * m + n, when=constants("k", "m", "n"), **AFFINE)
def centre_after_scale(a: Term, k: Term, m: Term, n: Term) -> Term:
    """(a - k)*m + n -> a*m + (n - k*m) for constants: a batch norm spelled out."""
    return a * m + (n - k * m)


@wrapping(lhs=lambda a, k, m, n: (k - a) * m + n, when=constants("k", "m", "n"), **AFFINE)
def mirror_after_scale(a: Term, k: Term, m: Term, n: Term) -> Term:
    """(k - a)*m + n -> (k*m + n) - a*m for constants: an inverted mask, scaled and shifted."""
    return (k * m + n) - a * m


@wrapping(lhs=lambda a, k, m, n: (a * k + n) * m, when=constants("k", "m", "n"), **AFFINE)
def scale_of_affine(a: Term, k: Term, m: Term, n: Term) -> Term:
    """(a*k + n)*m -> a*(k*m) + n*m for constants: one multiply fewer."""
    return a * (k * m) + n * m


@wrapping(lhs=lambda a, k, m, n: (a * k - n) * m, when=constants("k", "m", "n"), **AFFINE)
def scale_of_affine_difference(a: Term, k: Term, m: Term, n: Term) -> Term:
    """(a*k - n)*m -> a*(k*m) - n*m for constants: an image normalised to -1..1."""
    return a * (k * m) - n * m


@distributive(
    lhs=lambda x, c: (x + c) - op.mean(x + c),
    when=(why_not_varying, finite("c")),
    x=(4, 8),
    c=constant(4, 1),
)
def centre_without_shift(x: Term, c: Term) -> Term:
    """(x + c) - mean(x + c) -> x - mean(x) where c is finite and constant along the mean's axes."""
    return x - op.mean(x)


@distributive(
    lhs=lambda x, c: op.nn.softmax(x + c),
    when=(why_not_varying, finite("c")),
    x=(4, 8),
    c=constant(4, 1),
)
def softmax_without_shift(x: Term, c: Term) -> Term:
    """softmax(x + c) -> softmax(x) for a finite c, constant along the axis: exp(c) cancels."""
    return op.nn.softmax(x)


@distributive(
    lhs=lambda x, c: op.nn.softmax(x - c),
    when=(why_not_varying, why_not_finite_or_largest),
    x=(4, 8),
    c=constant(4, 1),
)
def softmax_without_centre(x: Term, c: Term) -> Term:
    """softmax(x - c) -> softmax(x) where c is constant along the axis: a maximum taken off.

    An infinite c makes every result NaN; an infinite maximum of x does that too, and may go.
    """
    return op.nn.softmax(x)


@distributive(
    lhs=lambda x, c: op.nn.log_softmax(x + c),
    when=(why_not_varying, finite("c")),
    x=(4, 8),
    c=constant(4, 1),
)
def log_softmax_without_shift(x: Term, c: Term) -> Term:
    """log_softmax(x + c) -> log_softmax(x) for a finite c, constant along the axis."""
    return op.nn.log_softmax(x)


# ---- what is nothing, where numbers are finite --------------------------------------------------


def _zeros(writing: Writing, a: Value) -> Value | str:
    if a.type.bytes > LARGEST_FOLDED_BYTES:
        return "the zeros are too large to keep"
    return writing.graph.constant(np.zeros(a.shape), a.dtype)


zeros = computed(_zeros)
vanishing = partial(
    wrapping, numeric_class=NumericClass.CONDITIONAL, when=finite("a"), a=finite_example(4, 8)
)


@vanishing(lhs=lambda a: a * 0.0)
def product_with_zero(a: Term) -> Term:
    """a*0 -> 0 where a is finite: a mask switched off."""
    return zeros(a)


@vanishing(lhs=lambda a: a - a)
def difference_from_itself(a: Term) -> Term:
    """a - a -> 0 where a is finite."""
    return zeros(a)


RULES = (
    product_with_zero,
    difference_from_itself,
    factor_square,
    square_of_sum,
    square_of_difference,
    factor_common_multiplier,
    factor_common_multiplier_of_difference,
    factor_common_divisor,
    factor_common_divisor_of_difference,
    factor_self,
    factor_self_of_difference,
    factor_subtracted_self,
    shift_after_scale,
    centre_after_scale,
    mirror_after_scale,
    scale_of_affine,
    scale_of_affine_difference,
    centre_without_shift,
    softmax_without_shift,
    softmax_without_centre,
    log_softmax_without_shift,
)
