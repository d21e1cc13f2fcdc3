"""Laws of two reductions: side by side they are one pass, and so they are one after the other."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.ecg.numpy_operators import reduced_axes
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.rewrite.conditions import same_shape
from tvm_fusionx.rewrite.rule import Domain, Law, NumericClass, Replacement, graph_rule, rule
from tvm_fusionx.rewrite.term import Term, call, op

distributive = partial(rule, law=Law.DISTRIBUTIVE)

AB: dict[str, Any] = {"a": (4, 8), "b": (4, 8)}


@distributive(
    lhs=lambda a, b: op.sum(a) + op.sum(b), domain=Domain.ANY, when=same_shape("a", "b"), **AB
)
def sum_of_sums(a: Term, b: Term) -> Term:
    """sum(a) + sum(b) -> sum(a + b): one pass."""
    return op.sum(a + b)


@distributive(
    lhs=lambda a, b: op.sum(a) - op.sum(b), domain=Domain.ANY, when=same_shape("a", "b"), **AB
)
def difference_of_sums(a: Term, b: Term) -> Term:
    """sum(a) - sum(b) -> sum(a - b): one pass."""
    return op.sum(a - b)


@distributive(lhs=lambda a, b: op.mean(a) + op.mean(b), when=same_shape("a", "b"), **AB)
def sum_of_means(a: Term, b: Term) -> Term:
    """mean(a) + mean(b) -> mean(a + b): one pass."""
    return op.mean(a + b)


@distributive(lhs=lambda a, b: op.mean(a) - op.mean(b), when=same_shape("a", "b"), **AB)
def difference_of_means(a: Term, b: Term) -> Term:
    """mean(a) - mean(b) -> mean(a - b): one pass."""
    return op.mean(a - b)


@distributive(lhs=lambda a, b: op.prod(a) * op.prod(b), when=same_shape("a", "b"), **AB)
def product_of_products(a: Term, b: Term) -> Term:
    """prod(a)*prod(b) -> prod(a*b): one pass."""
    return op.prod(a * b)


@distributive(
    lhs=lambda a, b: op.maximum(op.max(a), op.max(b)),
    numeric_class=NumericClass.EXACT,
    when=same_shape("a", "b"),
    **AB,
)
def maximum_of_maxima(a: Term, b: Term) -> Term:
    """max(max(a), max(b)) -> max over max(a, b): one pass."""
    return op.max(op.maximum(a, b))


@distributive(
    lhs=lambda a, b: op.minimum(op.min(a), op.min(b)),
    numeric_class=NumericClass.EXACT,
    when=same_shape("a", "b"),
    **AB,
)
def minimum_of_minima(a: Term, b: Term) -> Term:
    """min(min(a), min(b)) -> min over min(a, b): one pass."""
    return op.min(op.minimum(a, b))


def _merged_reductions(graph: Graph, node: Node) -> list[Replacement] | None:
    """Return one reduction for two of the same kind, one after the other."""
    inner = node.operands[0].node
    if inner.op != node.op:
        return None
    source = inner.operands[0]
    first = reduced_axes(inner)
    kept = [axis for axis in range(len(source.shape)) if axis not in first]
    places = list(range(len(source.shape))) if inner.attrs.get("keepdims") else kept
    axes = sorted({*first, *(places[axis] for axis in reduced_axes(node))})
    keepdims = bool(node.attrs.get("keepdims"))
    if keepdims and not inner.attrs.get("keepdims"):
        return None
    if (
        inner.attrs.get("keepdims")
        and not keepdims
        and set(first) - {places[axis] for axis in reduced_axes(node)}
    ):
        return None
    attrs = default_attributes(node.op, axis=axes, keepdims=keepdims)
    return [(node[0], graph.call(node.op, [source], attrs, name=node.name))]


ROWS_OF_ROWS: dict[str, Any] = {"outer": {"axis": [1]}, "sum": {"axis": [2]}, "max": {"axis": [2]}}


@graph_rule(
    roots=("sum", "prod", "mean"),
    law=Law.ASSOCIATIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x: call(
        "sum", op.sum(x, attrs={"keepdims": False}), tag="outer", attrs={"keepdims": False}
    ),
    attributes=ROWS_OF_ROWS,
    x=(2, 4, 8),
)
def merge_totals(graph: Graph, node: Node) -> list[Replacement] | None:
    """sum(sum(x, i), j) -> sum(x, i and j) in one pass; and for prod, mean."""
    return _merged_reductions(graph, node)


@graph_rule(
    roots=("max", "min", "all", "any"),
    law=Law.ASSOCIATIVE,
    example=lambda x: call(
        "max", op.max(x, attrs={"keepdims": False}), tag="outer", attrs={"keepdims": False}
    ),
    attributes=ROWS_OF_ROWS,
    x=(2, 4, 8),
)
def merge_extremes(graph: Graph, node: Node) -> list[Replacement] | None:
    """max(max(x, i), j) -> max(x, i and j) in one pass; and for min, all, any."""
    return _merged_reductions(graph, node)


RULES = (
    sum_of_sums,
    difference_of_sums,
    sum_of_means,
    difference_of_means,
    product_of_products,
    maximum_of_maxima,
    minimum_of_minima,
    merge_totals,
    merge_extremes,
)
