"""Commutative laws of pooling and upsampling: work on the smaller of two tensors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tvm_fusionx.ecg.graph import Value
from tvm_fusionx.rewrite.conditions import positive, same_shape, scalars
from tvm_fusionx.rewrite.matching import Match
from tvm_fusionx.rewrite.rule import Domain, Law, NumericClass, rule
from tvm_fusionx.rewrite.rules.families import TOTAL_MONOTONE, UNARY
from tvm_fusionx.rewrite.term import Term, one_of, op

commutative = partial(rule, law=Law.COMMUTATIVE)
exact = partial(commutative, numeric_class=NumericClass.EXACT, domain=Domain.FLOAT)
distributive = partial(rule, law=Law.DISTRIBUTIVE)

IMAGE = (1, 2, 8, 8)
AB: dict[str, Any] = {"a": IMAGE, "b": IMAGE}
SCALED: dict[str, Any] = {"a": IMAGE, "s": 2.0}
POINTWISE: dict[str, Any] = {"x": IMAGE, "w": (3, 2, 1, 1)}
_monotone = one_of("f", TOTAL_MONOTONE)
_unary = one_of("f", UNARY)
_mean = one_of("p", ["nn.avg_pool2d", "nn.global_avg_pool2d"])
_scaling = one_of("g", ["add", "maximum", "minimum", "multiply"])


def _why_not_in_image(match: Match) -> str | None:
    """Refuse windows that lie in the padding alone: they hold what no element may become."""
    node = match.first(frozenset(["nn.max_pool2d"]))
    assert node is not None
    attrs, layout = node.attrs, str(node.attrs["layout"])
    padding = [int(item) for item in attrs["padding"]] * (4 // len(attrs["padding"]))
    for place, name in enumerate("HW"):
        axis = layout.index(name)
        extent, windows = node.operands[0].shape[axis], node.outputs[0].shape[axis]
        starts = np.arange(windows) * int(attrs["strides"][place]) - padding[place]
        taps = np.arange(int(attrs["pool_size"][place])) * int(attrs["dilation"][place])
        places = starts[:, np.newaxis] + taps
        if not bool(np.all(np.any((places >= 0) & (places < extent), axis=1))):
            return "a window lies in the padding alone"
    return None


@exact(lhs=lambda a: op.nn.max_pool2d(_monotone(a)), when=_why_not_in_image, a=IMAGE)
def monotone_after_max_pool(a: Term) -> Term:
    """max_pool(f(a)) -> f(max_pool(a)) for a function that never falls: relu, sigmoid, ..."""
    return _monotone(op.nn.max_pool2d(a))


@exact(lhs=lambda a: op.nn.global_max_pool2d(_monotone(a)), a=IMAGE)
def monotone_after_global_max_pool(a: Term) -> Term:
    """global_max_pool(f(a)) -> f(global_max_pool(a)) for a function that never falls."""
    return _monotone(op.nn.global_max_pool2d(a))


@exact(lhs=lambda a, s: op.nn.max_pool2d(a + s), when=(_why_not_in_image, scalars("s")), **SCALED)
def summand_after_max_pool(a: Term, s: Term) -> Term:
    """max_pool(a + s) -> max_pool(a) + s for a number s."""
    return op.nn.max_pool2d(a) + s


@commutative(
    lhs=lambda a, s: op.nn.max_pool2d(a * s),
    numeric_class=NumericClass.CONDITIONAL,
    when=(_why_not_in_image, scalars("s"), positive("s")),
    **SCALED,
)
def factor_after_max_pool(a: Term, s: Term) -> Term:
    """max_pool(a*s) -> max_pool(a)*s for a number s above zero."""
    return op.nn.max_pool2d(a) * s


def _why_not_by_channel(a: Value, s: Value) -> str | None:
    if len(s.shape) > len(a.shape):
        return "the operand makes it larger"
    if any(extent != 1 for extent in s.shape[-2:]):
        return "the operand varies within a window"
    return None


@commutative(
    lhs=lambda a, s: _mean(a * s),
    when=_why_not_by_channel,
    a=IMAGE,
    s=(2, 1, 1),
)
def factor_after_average_pool(a: Term, s: Term) -> Term:
    """avg_pool(a*s) -> avg_pool(a)*s for s constant within each channel; global too."""
    return _mean(a) * s


def _why_not_unpadded(match: Match) -> str | None:
    node = match.first(frozenset(["nn.avg_pool2d"]))
    if node is None or not any(node.attrs["padding"]) or not node.attrs["count_include_pad"]:
        return None
    return "the padding counts, and does not take the summand"


@commutative(
    lhs=lambda a, s: _mean(a + s),
    when=(_why_not_by_channel, _why_not_unpadded),
    a=IMAGE,
    s=(2, 1, 1),
)
def summand_after_average_pool(a: Term, s: Term) -> Term:
    """avg_pool(a + s) -> avg_pool(a) + s for s constant within each channel; global too."""
    return _mean(a) + s


@exact(lhs=lambda a: _mean(-a), a=IMAGE)
def sign_after_average_pool(a: Term) -> Term:
    """avg_pool(-a) -> -avg_pool(a); global too."""
    return -_mean(a)


@distributive(lhs=lambda a, b: _mean(a) + _mean(b), when=same_shape("a", "b"), **AB)
def sum_of_average_pools(a: Term, b: Term) -> Term:
    """avg_pool(a) + avg_pool(b) -> avg_pool(a + b): one pass."""
    return _mean(a + b)


@distributive(
    lhs=lambda a, b: op.nn.upsampling(a) + op.nn.upsampling(b),
    **AB,
)
def sum_of_upsampled(a: Term, b: Term) -> Term:
    """upsample(a) + upsample(b) -> upsample(a + b): a feature pyramid."""
    return op.nn.upsampling(a + b)


def _why_not_nearest(match: Match) -> str | None:
    node = match.first(frozenset(["nn.upsampling"]))
    assert node is not None
    nearest = node.attrs["method"] == "nearest_neighbor"
    return None if nearest else "the upsampling interpolates"


@exact(lhs=lambda a: _unary(op.nn.upsampling(a)), when=_why_not_nearest, a=IMAGE)
def function_before_upsampling(a: Term) -> Term:
    """f(upsample(a)) -> upsample(f(a)) for the nearest neighbour."""
    return op.nn.upsampling(_unary(a))


@exact(
    lhs=lambda a, s: _scaling(op.nn.upsampling(a), s),
    when=(_why_not_nearest, scalars("s")),
    **SCALED,
)
def number_before_upsampling(a: Term, s: Term) -> Term:
    """upsample(a)*s -> upsample(a*s) for a number s; and for +, max, min."""
    return op.nn.upsampling(_scaling(a, s))


def _why_not_pointwise(w: Value, match: Match) -> str | None:
    node = match.first(frozenset(["nn.conv2d"]))
    assert node is not None
    if any(node.attrs["padding"]) or any(stride != 1 for stride in node.attrs["strides"]):
        return "the convolution pads or strides"
    return None if w.shape[2:] == (1, 1) else "the kernel is larger than one pixel"


@commutative(lhs=lambda x, w: _mean(op.nn.conv2d(x, w)), when=_why_not_pointwise, **POINTWISE)
def average_pool_before_pointwise(x: Term, w: Term) -> Term:
    """avg_pool(conv(x, W)) -> conv(avg_pool(x), W) for a 1x1 kernel: DenseNet's transitions."""
    return op.nn.conv2d(_mean(x), w)


@commutative(
    lhs=lambda x, w: op.nn.conv2d(op.nn.upsampling(x), w), when=_why_not_pointwise, **POINTWISE
)
def pointwise_before_upsampling(x: Term, w: Term) -> Term:
    """conv(upsample(x), W) -> upsample(conv(x, W)) for a 1x1 kernel: segmentation heads."""
    return op.nn.upsampling(op.nn.conv2d(x, w))


RULES = (
    monotone_after_max_pool,
    monotone_after_global_max_pool,
    summand_after_max_pool,
    factor_after_max_pool,
    factor_after_average_pool,
    summand_after_average_pool,
    sign_after_average_pool,
    sum_of_average_pools,
    sum_of_upsampled,
    function_before_upsampling,
    number_before_upsampling,
    average_pool_before_pointwise,
    pointwise_before_upsampling,
)
