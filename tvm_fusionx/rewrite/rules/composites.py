"""Recognition: a softmax, sigmoid or tanh that a framework spelled out is one operator again."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm_fusionx.ecg.graph import Value
from tvm_fusionx.ecg.numpy_operators import reduced_axes
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.rewrite.matching import Match
from tvm_fusionx.rewrite.rule import Law, rule
from tvm_fusionx.rewrite.term import Term, computed, op
from tvm_fusionx.rewrite.writing import Writing

recognition = partial(rule, law=Law.STRUCTURAL)

A: dict[str, Any] = {"a": (4, 8)}


@recognition(lhs=lambda a: 1.0 / (op.exp(-a) + 1.0), **A)
def sigmoid_of_exponential(a: Term) -> Term:
    """1/(1 + exp(-a)) -> sigmoid(a)."""
    return op.sigmoid(a)


@recognition(lhs=lambda a, b: b / (op.exp(-a) + 1.0), a=(4, 8), b=(4, 8))
def product_with_sigmoid_of_exponential(a: Term, b: Term) -> Term:
    """b/(1 + exp(-a)) -> b*sigmoid(a): SiLU where b is a."""
    return b * op.sigmoid(a)


@recognition(lhs=lambda a: op.exp(a) / (op.exp(a) + 1.0), **A)
def sigmoid_of_two_exponentials(a: Term) -> Term:
    """exp(a)/(exp(a) + 1) -> sigmoid(a), which does not overflow."""
    return op.sigmoid(a)


@recognition(lhs=lambda a: op.tanh(a * 0.5) * 0.5 + 0.5, **A)
def sigmoid_of_tanh(a: Term) -> Term:
    """tanh(a/2)/2 + 1/2 -> sigmoid(a)."""
    return op.sigmoid(a)


@recognition(lhs=lambda a: op.sigmoid(a * 2.0) * 2.0 - 1.0, **A)
def tanh_of_sigmoid(a: Term) -> Term:
    """2*sigmoid(2*a) - 1 -> tanh(a)."""
    return op.tanh(a)


@recognition(
    lhs=lambda a: (op.exp(a) - op.exp(-a)) / (op.exp(a) + op.exp(-a)),
    **A,
)
def tanh_of_exponentials(a: Term) -> Term:
    """(exp(a) - exp(-a))/(exp(a) + exp(-a)) -> tanh(a), which does not overflow."""
    return op.tanh(a)


def _why_not_one_kept_axis(match: Match) -> str | None:
    node = match.first(frozenset(["sum"]))
    assert node is not None
    if not node.attrs.get("keepdims"):
        return "the sum drops its axes"
    return None if len(reduced_axes(node)) == 1 else "the sum runs over several axes"


def _softmax(name: str) -> Any:
    def write_softmax(writing: Writing, value: Value) -> Value:
        node = writing.match.first(frozenset(["sum"]))
        assert node is not None
        attrs = default_attributes(name, axis=reduced_axes(node)[0])
        return writing.graph.call(name, [value], attrs, name=writing.name)

    write_softmax.__name__ = name
    return computed(write_softmax)


def _log_of_softmax(writing: Writing, value: Value) -> Value:
    node = writing.match.first(frozenset(["nn.softmax"]))
    assert node is not None
    return writing.graph.call("nn.log_softmax", [value], node.attrs, name=writing.name)


log_of_softmax = computed(_log_of_softmax)
softmax, log_softmax = _softmax("nn.softmax"), _softmax("nn.log_softmax")


@recognition(lhs=lambda a: op.exp(a) / op.sum(op.exp(a)), when=_why_not_one_kept_axis, a=(8, 8))
def softmax_of_exponentials(a: Term) -> Term:
    """exp(a)/sum(exp(a)) -> softmax(a), which does not overflow."""
    return softmax(a)


@recognition(lhs=lambda a: a - op.log(op.sum(op.exp(a))), when=_why_not_one_kept_axis, a=(8, 8))
def log_softmax_of_exponentials(a: Term) -> Term:
    """a - log(sum(exp(a))) -> log_softmax(a), which does not overflow."""
    return log_softmax(a)


@recognition(lhs=lambda a: op.log(op.nn.softmax(a)), **A)
def logarithm_of_softmax(a: Term) -> Term:
    """log(softmax(a)) -> log_softmax(a), which does not underflow."""
    return log_of_softmax(a)


RULES = (
    softmax_of_exponentials,
    log_softmax_of_exponentials,
    logarithm_of_softmax,
    sigmoid_of_two_exponentials,
    sigmoid_of_exponential,
    product_with_sigmoid_of_exponential,
    sigmoid_of_tanh,
    tanh_of_sigmoid,
    tanh_of_exponentials,
)
