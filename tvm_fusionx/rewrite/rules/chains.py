"""Chains of matrix products, grouped by what they cost; rows and columns that nobody reads."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.ecg.construct import slice_axis
from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.rewrite.rule import Law, NumericClass, Replacement, constant, graph_rule
from tvm_fusionx.rewrite.rules.pieces import slice_range
from tvm_fusionx.rewrite.term import op

# A tall product in the middle, for which the other grouping is less work.
NARROW: dict[str, Any] = {"a": (2, 8, 2), "b": (2, 2, 8), "c": (2, 8, 2)}
PLAIN: dict[str, Any] = {"nn.batch_matmul": {"transpose_a": False, "transpose_b": False}}
ONE_ROW: dict[str, Any] = {"strided_slice": {"begin": [3], "end": [4], "strides": [1], "axes": [0]}}
TWO_COLUMNS: dict[str, Any] = {
    "strided_slice": {"begin": [1], "end": [3], "strides": [1], "axes": [1]}
}


def _factors(node: Node) -> tuple[tuple[Value, bool], tuple[Value, bool]]:
    first, second = node.operands
    return (
        (first, bool(node.attrs["transpose_a"])),
        (second, bool(node.attrs["transpose_b"])),
    )


def _product(
    graph: Graph, like: Node, first: tuple[Value, bool], second: tuple[Value, bool]
) -> Value:
    attrs = like.attrs.replace(transpose_a=first[1], transpose_b=second[1])
    return graph.call(like.op, [first[0], second[0]], attrs, name=like.name)


def _inner(graph: Graph, value: Value) -> Node | None:
    is_own = value.op == "nn.batch_matmul" and graph.has_single_user(value)
    return value.node if is_own else None


@graph_rule(
    roots=("nn.batch_matmul",),
    law=Law.ASSOCIATIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda a, b, c: op.nn.batch_matmul(op.nn.batch_matmul(a, b), c),
    attributes=PLAIN,
    **NARROW,
)
def group_products_to_the_right(graph: Graph, node: Node) -> list[Replacement] | None:
    """(a.b).c -> a.(b.c) where that is less work: attention without a softmax."""
    (left, is_transposed), last = _factors(node)
    inner = _inner(graph, left)
    if inner is None or is_transposed:
        return None
    first, second = _factors(inner)
    tail = _product(graph, inner, second, last)
    return [(node[0], _product(graph, node, first, (tail, False)))]


@graph_rule(
    roots=("nn.batch_matmul",),
    law=Law.ASSOCIATIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda a, b, c: op.nn.batch_matmul(c, op.nn.batch_matmul(a, b)),
    attributes=PLAIN,
    a=(2, 8, 2),
    b=(2, 2, 8),
    c=(2, 2, 8),
)
def group_products_to_the_left(graph: Graph, node: Node) -> list[Replacement] | None:
    """a.(b.c) -> (a.b).c where that is less work."""
    first, (right, is_transposed) = _factors(node)
    inner = _inner(graph, right)
    if inner is None or is_transposed:
        return None
    second, last = _factors(inner)
    head = _product(graph, inner, first, second)
    return [(node[0], _product(graph, node, (head, False), last))]


def _sliced_product(node: Node, op_name: str, axis: int) -> tuple[Node, int, int] | None:
    """Return the product that a slice along one axis reads, with the slice's start and stop."""
    value, sliced = node.operands[0], slice_range(node)
    if value.op != op_name or sliced is None or sliced[0] != axis:
        return None
    return value.node, sliced[1], sliced[2]


@graph_rule(
    roots=("strided_slice",),
    law=Law.COMMUTATIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, w: op.strided_slice(op.nn.dense(x, w)),
    attributes=ONE_ROW,
    x=(4, 8),
    w=(6, 8),
)
def slice_rows_before_dense(graph: Graph, node: Node) -> list[Replacement] | None:
    """slice(dense(x, W), rows) -> dense(slice(x, rows), W): the last token's logits."""
    found = _sliced_product(node, "nn.dense", 0)
    if found is None:
        return None
    product, start, stop = found
    data, weight = product.operands
    rows = slice_axis(graph, data, 0, start, stop, node.name)
    out = graph.call("nn.dense", [rows, weight], product.attrs, name=product.name)
    return [(node[0], out)]


def _with_sliced_weights(
    graph: Graph, node: Node, product: Node, start: int, stop: int, size: str
) -> list[Replacement] | None:
    """Return the product with only some of its constant weights; `size` is the attribute for it."""
    data, weight = product.operands
    if not weight.is_constant:
        return None
    part = slice_axis(graph, weight, 0, start, stop, node.name)
    attrs = product.attrs.replace(**{size: stop - start})
    return [(node[0], graph.call(product.op, [data, part], attrs, name=product.name))]


@graph_rule(
    roots=("strided_slice",),
    law=Law.COMMUTATIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, w: op.strided_slice(op.nn.dense(x, w)),
    attributes=TWO_COLUMNS,
    x=(4, 8),
    w=constant(6, 8),
)
def slice_weights_of_sliced_dense(graph: Graph, node: Node) -> list[Replacement] | None:
    """slice(dense(x, W), columns) -> dense(x, slice(W)): outputs that nobody reads."""
    found = _sliced_product(node, "nn.dense", 1)
    if found is None:
        return None
    return _with_sliced_weights(graph, node, *found, "units")


@graph_rule(
    roots=("strided_slice",),
    law=Law.COMMUTATIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, w: op.strided_slice(op.nn.conv2d(x, w)),
    attributes=TWO_COLUMNS,
    x=(1, 2, 4, 4),
    w=constant(6, 2, 3, 3),
)
def slice_kernels_of_sliced_convolution(graph: Graph, node: Node) -> list[Replacement] | None:
    """slice(conv(x, W), channels) -> conv(x, slice(W)): channels that nobody reads."""
    found = _sliced_product(node, "nn.conv2d", 1)
    if found is None:
        return None
    attrs = found[0].attrs
    is_plain = attrs["data_layout"] == "NCHW" and attrs["kernel_layout"] == "OIHW"
    if not is_plain or attrs["groups"] != 1:
        return None
    return _with_sliced_weights(graph, node, *found, "channels")


RULES = (
    group_products_to_the_right,
    group_products_to_the_left,
    slice_rows_before_dense,
    slice_weights_of_sliced_dense,
    slice_kernels_of_sliced_convolution,
)
