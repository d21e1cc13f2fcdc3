"""Chains of matrix products, grouped by what they cost; rows and columns that nobody reads."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.ecg.construct import slice_axis
from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.rewrite.rule import Law, NumericClass, Replacement, constant, graph_rule
from tvm_fusionx.rewrite.rules.pieces import slice_range
from tvm_fusionx.rewrite.term import op

# A tall product in the middle, for which the other grouping is less work.
NARROW: dict[str, Any] = {"a": (2, 8, 2), "b": (2, 2, 8), "c": (2, 8, 2)}
PLAIN: dict[str, Any] = {"nn.batch_matmul": {"transpose_a": False, "transpose_b": False}}
# Of images: batch, channel, row, column.
_ROW_AXIS = 2

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


def _is_constant_along(node: Node, axis: int) -> bool:
    """Tell whether a sum's second operand is the same all along an axis, and does not widen it."""
    data, other = node.operands
    place = axis - len(data.shape)
    is_narrow = len(other.shape) < -place or other.shape[place] == 1
    return is_narrow and data.shape == node.outputs[0].shape


@graph_rule(
    roots=("strided_slice",),
    example=lambda x, w: op.strided_slice(op.nn.conv2d(x, w)),
    attributes={
        "nn.conv2d": {"padding": [0, 2, 0, 2], "dilation": [1, 2]},
        "strided_slice": {"begin": [1], "end": [6], "strides": [1], "axes": [3]},
    },
    x=(1, 2, 3, 7),
    w=constant(4, 2, 1, 3),
)
def cut_padding_of_sliced_convolution(graph: Graph, node: Node) -> list[Replacement] | None:
    """slice(conv(x, pads), columns) -> conv(x, fewer pads): causal ones are padded on both sides.

    Through a bias, and through the reshape of a picture of one row to a sequence.
    """
    part, value, between = slice_range(node), node.operands[0], []
    if part is None:
        return None
    axis, start, stop = part
    while graph.has_single_user(value) and value.op in ("add", "reshape"):
        inner = value.node.operands[0]
        if value.op == "reshape":
            if axis != _ROW_AXIS or inner.shape != (*value.shape[:axis], 1, *value.shape[axis:]):
                return None
            axis += 1
        elif value.op == "add" and not _is_constant_along(value.node, axis):
            return None
        between.append(value.node)
        value = inner
    convolution = value.node
    if value.op != "nn.conv2d" or axis < _ROW_AXIS or not graph.has_single_user(value):
        return None
    attrs, place = convolution.attrs, axis - _ROW_AXIS
    padding = [int(each) for each in attrs["padding"]]
    if attrs["data_layout"] != "NCHW" or attrs["kernel_layout"] != "OIHW" or len(padding) != 4:
        return None
    data, weight = convolution.operands
    stride = int(attrs["strides"][place])
    extent = (weight.shape[axis] - 1) * int(attrs["dilation"][place]) + 1
    before = padding[place] - start * stride
    after = max(0, (stop - start - 1) * stride + extent - data.shape[axis] - before)
    results = (before + data.shape[axis] + after - extent) // stride + 1
    if before < 0 or results != stop - start:
        return None
    padding[place], padding[place + 2] = before, after
    attrs = attrs.replace(padding=tuple(padding))
    out = graph.call(convolution.op, [data, weight], attrs, name=convolution.name)
    for each in reversed(between):
        others, told = each.operands[1:], each.attrs
        if each.op == "reshape":
            told = default_attributes("reshape", newshape=tuple(node.outputs[0].shape))
        out = graph.call(each.op, [out, *others], told, name=each.name)
    return [(node[0], out)]


RULES = (
    group_products_to_the_right,
    group_products_to_the_left,
    slice_rows_before_dense,
    slice_weights_of_sliced_dense,
    slice_kernels_of_sliced_convolution,
    cut_padding_of_sliced_convolution,
)
