"""Laws of maximum, minimum and clip: a chain of limits is one, and sums and factors pass them."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm_fusionx.ecg.graph import Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.rewrite.conditions import constants, positive
from tvm_fusionx.rewrite.matching import Match
from tvm_fusionx.rewrite.rule import Domain, Law, NumericClass, rule
from tvm_fusionx.rewrite.rule import positive as above_zero
from tvm_fusionx.rewrite.rules.families import TOTAL_MONOTONE
from tvm_fusionx.rewrite.term import Term, call, computed, one_of, op
from tvm_fusionx.rewrite.writing import Writing

exact = partial(rule, numeric_class=NumericClass.EXACT)
associative = partial(exact, law=Law.ASSOCIATIVE)
distributive = partial(exact, law=Law.DISTRIBUTIVE)
FLOAT = Domain.FLOAT

AB: dict[str, Any] = {"a": (4, 8), "b": (4, 8)}
ABC: dict[str, Any] = {**AB, "c": (4, 8)}
AKM: dict[str, Any] = {"a": (4, 8), "k": 2.0, "m": 0.5}
_monotone = one_of("f", TOTAL_MONOTONE)
_idempotent = one_of("f", ["abs", "ceil", "floor", "nn.relu", "sign", "trunc"])


@associative(lhs=lambda a, k, m: op.maximum(op.maximum(a, k), m), when=constants("k", "m"), **AKM)
def merge_constant_maxima(a: Term, k: Term, m: Term) -> Term:
    """max(max(a, k), m) -> max(a, max(k, m)) for constants."""
    return op.maximum(a, op.maximum(k, m))


@associative(lhs=lambda a, k, m: op.minimum(op.minimum(a, k), m), when=constants("k", "m"), **AKM)
def merge_constant_minima(a: Term, k: Term, m: Term) -> Term:
    """min(min(a, k), m) -> min(a, min(k, m)) for constants."""
    return op.minimum(a, op.minimum(k, m))


@associative(lhs=lambda a: _idempotent(_idempotent(a)), domain=FLOAT, a=(4, 8))
def apply_idempotent_once(a: Term) -> Term:
    """f(f(a)) -> f(a) where f changes nothing twice: |.|, relu, sign, rounding to integers."""
    return _idempotent(a)


def _limits(op_name: str, match: Match) -> list[tuple[float, float]]:
    return [
        (float(node.attrs["a_min"]), float(node.attrs["a_max"]))
        for node in match.nodes
        if node.op == op_name
    ]


def _why_not_overlapping(match: Match) -> str | None:
    (low, high), *inner = _limits("clip", match)
    for other_low, other_high in inner:
        if other_low > high or other_high < low:
            return "the ranges of the clips do not overlap"
    return None if low <= high else "the clip is empty"


def _clip_to_both(writing: Writing, value: Value) -> Value:
    ranges = _limits("clip", writing.match)
    if any(node.op == "nn.relu" for node in writing.match.nodes):
        ranges.append((0.0, max(high for _, high in ranges)))
    attrs = default_attributes(
        "clip", a_min=max(low for low, _ in ranges), a_max=min(high for _, high in ranges)
    )
    return writing.graph.call("clip", [value], attrs, name=writing.name)


clip_to_both = computed(_clip_to_both)


@associative(
    lhs=lambda a: call("clip", op.clip(a), tag="outer"),
    when=_why_not_overlapping,
    domain=FLOAT,
    attributes={"outer": {"a_min": -2.0, "a_max": 0.5}},
    a=(4, 8),
)
def merge_clips(a: Term) -> Term:
    """clip(clip(a, l, h), m, g) -> clip(a, max(l, m), min(h, g)) where the ranges overlap."""
    return clip_to_both(a)


def _why_not_above_zero(match: Match) -> str | None:
    return None if _limits("clip", match)[0][1] >= 0 else "the clip's range is below zero"


@associative(lhs=lambda a: op.nn.relu(op.clip(a)), when=_why_not_above_zero, domain=FLOAT, a=(4, 8))
def relu_of_clip(a: Term) -> Term:
    """relu(clip(a, l, h)) -> clip(a, max(l, 0), h)."""
    return clip_to_both(a)


@associative(lhs=lambda a: op.clip(op.nn.relu(a)), when=_why_not_above_zero, domain=FLOAT, a=(4, 8))
def clip_of_relu(a: Term) -> Term:
    """clip(relu(a), l, h) -> clip(a, max(l, 0), h): ReLU6 in two pieces."""
    return clip_to_both(a)


def _why_not_range(k: Value, m: Value) -> str | None:
    for limit in (k, m):
        if not limit.is_constant or limit.type.elements != 1 or limit.shape:
            return "a limit is not one constant number"
    low, high = float(k.array), float(m.array)
    return None if low <= high else "the lower limit is above the upper one"


def _clip_between(writing: Writing, value: Value, low: Value, high: Value) -> Value:
    attrs = default_attributes("clip", a_min=float(low.array), a_max=float(high.array))
    return writing.graph.call("clip", [value], attrs, name=writing.name)


clip_between = computed(_clip_between)


@associative(
    lhs=lambda a, k, m: op.maximum(op.minimum(a, m), k),
    when=_why_not_range,
    domain=FLOAT,
    a=(4, 8),
    k=-0.5,
    m=0.75,
)
def maximum_of_minimum_as_clip(a: Term, k: Term, m: Term) -> Term:
    """max(min(a, m), k) -> clip(a, k, m) for numbers k <= m."""
    return clip_between(a, k, m)


@associative(
    lhs=lambda a, k, m: op.minimum(op.maximum(a, k), m),
    when=_why_not_range,
    domain=FLOAT,
    a=(4, 8),
    k=-0.5,
    m=0.75,
)
def minimum_of_maximum_as_clip(a: Term, k: Term, m: Term) -> Term:
    """min(max(a, k), m) -> clip(a, k, m) for numbers k <= m."""
    return clip_between(a, k, m)


def _why_not_upper_limit(m: Value) -> str | None:
    if not m.is_constant or m.shape:
        return "the limit is not one constant number"
    return None if float(m.array) >= 0 else "the limit is below zero"


def _clip_from_zero(writing: Writing, value: Value, high: Value) -> Value:
    attrs = default_attributes("clip", a_min=0.0, a_max=float(high.array))
    return writing.graph.call("clip", [value], attrs, name=writing.name)


clip_from_zero = computed(_clip_from_zero)


@associative(
    lhs=lambda a, m: op.minimum(op.nn.relu(a), m),
    when=_why_not_upper_limit,
    domain=FLOAT,
    a=(4, 8),
    m=0.75,
)
def minimum_of_relu_as_clip(a: Term, m: Term) -> Term:
    """min(relu(a), m) -> clip(a, 0, m) for a number m >= 0."""
    return clip_from_zero(a, m)


@associative(
    lhs=lambda a, m: op.nn.relu(op.minimum(a, m)),
    when=_why_not_upper_limit,
    domain=FLOAT,
    a=(4, 8),
    m=0.75,
)
def relu_of_minimum_as_clip(a: Term, m: Term) -> Term:
    """relu(min(a, m)) -> clip(a, 0, m) for a number m >= 0."""
    return clip_from_zero(a, m)


POSITIVE_FACTOR: dict[str, Any] = {**AB, "c": above_zero(4, 8)}
finite = partial(rule, law=Law.DISTRIBUTIVE, numeric_class=NumericClass.CONDITIONAL)


@finite(lhs=lambda a, b, c: op.maximum(a + c, b + c), **ABC)
def maximum_of_shifted(a: Term, b: Term, c: Term) -> Term:
    """max(a + c, b + c) -> max(a, b) + c."""
    return op.maximum(a, b) + c


@finite(lhs=lambda a, b, c: op.minimum(a + c, b + c), **ABC)
def minimum_of_shifted(a: Term, b: Term, c: Term) -> Term:
    """min(a + c, b + c) -> min(a, b) + c."""
    return op.minimum(a, b) + c


@finite(lhs=lambda a, b, c: op.maximum(a - c, b - c), **ABC)
def maximum_of_differences(a: Term, b: Term, c: Term) -> Term:
    """max(a - c, b - c) -> max(a, b) - c."""
    return op.maximum(a, b) - c


@finite(lhs=lambda a, b, c: op.minimum(a - c, b - c), **ABC)
def minimum_of_differences(a: Term, b: Term, c: Term) -> Term:
    """min(a - c, b - c) -> min(a, b) - c."""
    return op.minimum(a, b) - c


@finite(lhs=lambda a, b, c: op.maximum(a * c, b * c), when=positive("c"), **POSITIVE_FACTOR)
def maximum_of_scaled(a: Term, b: Term, c: Term) -> Term:
    """max(a*c, b*c) -> max(a, b)*c where c is above zero."""
    return op.maximum(a, b) * c


@finite(lhs=lambda a, b, c: op.minimum(a * c, b * c), when=positive("c"), **POSITIVE_FACTOR)
def minimum_of_scaled(a: Term, b: Term, c: Term) -> Term:
    """min(a*c, b*c) -> min(a, b)*c where c is above zero."""
    return op.minimum(a, b) * c


@distributive(lhs=lambda a, b: op.maximum(_monotone(a), _monotone(b)), domain=FLOAT, **AB)
def maximum_of_monotone(a: Term, b: Term) -> Term:
    """max(f(a), f(b)) -> f(max(a, b)) for a function that never falls."""
    return _monotone(op.maximum(a, b))


@distributive(lhs=lambda a, b: op.minimum(_monotone(a), _monotone(b)), domain=FLOAT, **AB)
def minimum_of_monotone(a: Term, b: Term) -> Term:
    """min(f(a), f(b)) -> f(min(a, b)) for a function that never falls."""
    return _monotone(op.minimum(a, b))


@distributive(lhs=lambda a, b: op.maximum(-a, -b), domain=FLOAT, **AB)
def maximum_of_negatives(a: Term, b: Term) -> Term:
    """max(-a, -b) -> -min(a, b)."""
    return -op.minimum(a, b)


@distributive(lhs=lambda a, b: op.minimum(-a, -b), domain=FLOAT, **AB)
def minimum_of_negatives(a: Term, b: Term) -> Term:
    """min(-a, -b) -> -max(a, b)."""
    return -op.maximum(a, b)


@finite(lhs=lambda a: op.maximum(a, -a), a=(4, 8))
def maximum_with_negative(a: Term) -> Term:
    """max(a, -a) -> |a|."""
    return op.abs(a)


@finite(lhs=lambda a: op.nn.relu(a) - op.nn.relu(-a), a=(4, 8))
def difference_of_halves(a: Term) -> Term:
    """relu(a) - relu(-a) -> a."""
    return a


@finite(lhs=lambda a: op.nn.relu(a) + op.nn.relu(-a), a=(4, 8))
def sum_of_halves(a: Term) -> Term:
    """relu(a) + relu(-a) -> |a|."""
    return op.abs(a)


@finite(lhs=lambda a: a - op.nn.relu(a), a=(4, 8))
def negative_half(a: Term) -> Term:
    """a - relu(a) -> min(a, 0): the lower branch of a PReLU in pieces."""
    return op.minimum(a, 0.0)


@finite(lhs=lambda a: (a + op.abs(a)) * 0.5, a=(4, 8))
def positive_half(a: Term) -> Term:
    """(a + |a|)*0.5 -> relu(a)."""
    return op.nn.relu(a)


def _why_not_slope(k: Value) -> str | None:
    if not k.is_constant or k.shape:
        return "the slope is not one constant number"
    return None


def _leaky(writing: Writing, value: Value, slope: Value) -> Value:
    attrs = default_attributes("nn.leaky_relu", alpha=float(slope.array))
    return writing.graph.call("nn.leaky_relu", [value], attrs, name=writing.name)


leaky = computed(_leaky)


@finite(lhs=lambda a, k: op.nn.relu(a) - op.nn.relu(-a) * k, when=_why_not_slope, a=(4, 8), k=0.25)
def leaky_halves(a: Term, k: Term) -> Term:
    """relu(a) - relu(-a)*k -> leaky_relu(a, k): a leaky ReLU in pieces."""
    return leaky(a, k)


RULES = (
    merge_constant_maxima,
    merge_constant_minima,
    apply_idempotent_once,
    merge_clips,
    relu_of_clip,
    clip_of_relu,
    maximum_of_minimum_as_clip,
    minimum_of_maximum_as_clip,
    minimum_of_relu_as_clip,
    relu_of_minimum_as_clip,
    maximum_of_shifted,
    minimum_of_shifted,
    maximum_of_differences,
    minimum_of_differences,
    maximum_of_scaled,
    minimum_of_scaled,
    maximum_of_monotone,
    minimum_of_monotone,
    maximum_of_negatives,
    minimum_of_negatives,
    maximum_with_negative,
    leaky_halves,
    difference_of_halves,
    sum_of_halves,
    negative_half,
    positive_half,
)
