"""Rules on constant weights: products merged, scales folded."""

from __future__ import annotations

import numpy as np

from tvm_fusionx.ecg.construct import dense, reshape, slice_axis
from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.rewrite.rule import (
    Law,
    NumericClass,
    Refused,
    Replacement,
    constant,
    graph_rule,
)
from tvm_fusionx.rewrite.term import op


@graph_rule(
    roots=("nn.batch_matmul",),
    example=lambda x, w: op.nn.batch_matmul(x, w),
    x=(2, 4, 8),
    w=constant(1, 6, 8),
)
def product_with_shared_matrix(graph: Graph, node: Node) -> list[Replacement] | None:
    """batch_matmul(x, W) -> dense(x as one matrix, W) for one constant W: one large product."""
    data, weight = node.operands
    if not weight.is_constant or weight.shape[0] != 1 or node.attrs.get("transpose_a"):
        return None
    if data.dtype != weight.dtype or data.dtype != node.outputs[0].dtype:
        return None
    matrix = weight.array[0] if node.attrs.get("transpose_b") else weight.array[0].T
    batch, rows, length = data.shape
    flat = reshape(graph, data, (batch * rows, length), node.name)
    product = dense(graph, flat, graph.constant(matrix), node.name)
    return [(node[0], reshape(graph, product, node.outputs[0].shape, node.name))]


@graph_rule(
    roots=("nn.matmul",),
    example=lambda x, w: op.nn.matmul(x, w),
    x=(4, 8),
    w=constant(8, 6),
)
def matmul_as_dense(graph: Graph, node: Node) -> list[Replacement] | None:
    """matmul(x, W) -> dense(x, W^T) for a constant W, transposed at compile time."""
    data, weight = node.operands
    if (
        not weight.is_constant
        or node.attrs.get("transpose_a")
        or data.dtype != node.outputs[0].dtype
    ):
        return None
    matrix = weight.array if node.attrs.get("transpose_b") else weight.array.T
    return [(node[0], dense(graph, data, graph.constant(matrix), node.name))]


@graph_rule(
    roots=("nn.dense",),
    law=Law.DISTRIBUTIVE,
    example=lambda x, w, v: (op.nn.dense(x, w), op.nn.dense(x, v)),
    x=(4, 8),
    w=constant(6, 8),
    v=constant(3, 8),
)
def merge_products_of_one_input(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """dense(x, V), dense(x, W), ... -> slices of dense(x, V over W over ...): query, key, value."""
    siblings = _sibling_products(graph, node)
    if len(siblings) < 2 or siblings[0] is not node:
        return None
    biases = [_bias_of(graph, sibling) for sibling in siblings]
    weights = np.concatenate([sibling.operands[1].array for sibling in siblings])
    name = node.name
    merged = dense(graph, node.operands[0], graph.constant(weights), name)
    results = [sibling[0] for sibling in siblings]
    if all(bias is not None for bias in biases):
        rows = np.concatenate(
            [
                np.broadcast_to(bias.operand.array.reshape(-1), (sibling.operands[1].shape[0],))
                for bias, sibling in zip(biases, siblings, strict=True)
                if bias is not None
            ]
        )
        merged = graph.call("add", [merged, graph.constant(rows)], name=name)
        results = [bias.result for bias in biases if bias is not None]
    out: list[Replacement] = []
    start = 0
    for result, sibling in zip(results, siblings, strict=True):
        stop = start + sibling.operands[1].shape[0]
        part = slice_axis(graph, merged, 1, start, stop, sibling.name)
        out.append((result, reshape(graph, part, result.shape, sibling.name)))
        start = stop
    return out


def _sibling_products(graph: Graph, node: Node) -> list[Node]:
    """Return the products of the same input with constant matrices, in the order of the graph."""
    source = node.operands[0]
    return [
        user
        for user in graph.users(source.node)
        if user.op == "nn.dense"
        and user.operands[0] is source
        and user.operands[1].is_constant
        and user.outputs[0].dtype == node.outputs[0].dtype
        and user.operands[1].dtype == node.operands[1].dtype
        and user.attrs.get("out_dtype") == node.attrs.get("out_dtype")
    ]


class _Bias:
    """The constant added to a product, and the value after it."""

    def __init__(self, operand: Value, result: Value) -> None:
        self.operand = operand
        self.result = result


def _bias_of(graph: Graph, product: Node) -> _Bias | None:
    """Return a product's only reader if that adds one constant row; reshapes may stand between."""
    value = product[0]
    while True:
        users = graph.users(value.node)
        if len(users) != 1 or graph.is_output(value.node):
            return None
        user = users[0]
        if user.op == "reshape" and user.outputs[0].shape[-1:] == product.outputs[0].shape[-1:]:
            value = user[0]
            continue
        if user.op != "add":
            return None
        other = [operand for operand in user.operands if operand is not value]
        is_row = (
            len(other) == 1
            and other[0].is_constant
            and other[0].type.elements in (1, product.outputs[0].shape[-1])
            and (other[0].type.elements == 1 or other[0].shape[-1] == other[0].type.elements)
            and user.outputs[0] == value.type
        )
        return _Bias(other[0], user[0]) if is_row else None


# Operator -> axis of its weights along which the result's channels lie, for the plain layouts.
_OUTPUT_AXIS = {
    "nn.dense": 0,
    "nn.conv1d": 0,
    "nn.conv2d": 0,
    "nn.conv3d": 0,
    "nn.conv2d_transpose": 1,
}
_PLAIN_KERNEL_LAYOUTS = ("OIW", "OIHW", "OIDHW", "IOHW")


@graph_rule(
    roots=("multiply",),
    law=Law.ASSOCIATIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, w, b, k: (op.nn.conv2d(x, w) + b) * k,
    x=(1, 2, 4, 4),
    w=constant(3, 2, 3, 3),
    b=constant(3, 1, 1),
    k=constant(3, 1, 1),
)
def fold_factor_into_weights(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """(conv(x, W) + b)*k -> conv(x, W*k) + b*k for constants b, k; k one for all or a channel."""
    for scaled, factor in (node.operands, tuple(reversed(node.operands))):
        if not factor.is_constant or scaled.type != node.outputs[0]:
            continue
        product, bias = _product_and_bias(scaled)
        if product is None or not _may_scale(graph, product, scaled):
            continue
        channels = _channel_axis(product)
        factors = _per_channel(factor, product.outputs[0].shape, channels)
        if factors is None:
            return Refused("the factor differs within a channel")
        data, weight = product.operands
        shape = [1] * len(weight.shape)
        shape[_OUTPUT_AXIS[product.op]] = -1
        weights = (weight.array * factors.reshape(shape)).astype(weight.dtype)
        out = graph.call(
            product.op, [data, graph.constant(weights)], product.attrs, name=product.name
        )
        if bias is not None:
            moved = graph.constant((bias.array * factor.array).astype(bias.dtype))
            out = graph.call("add", [out, moved], name=scaled.node.name)
        return [(node[0], out)]
    return None


def _product_and_bias(value: Value) -> tuple[Node | None, Value | None]:
    if value.op in _OUTPUT_AXIS:
        return value.node, None
    if value.op == "add":
        for product, bias in (value.node.operands, tuple(reversed(value.node.operands))):
            if product.op in _OUTPUT_AXIS and bias.is_constant and product.type == value.type:
                return product.node, bias
    return None, None


def _may_scale(graph: Graph, product: Node, scaled: Value) -> bool:
    """Tell whether a product's weights may take a factor: nobody else sees the unscaled result."""
    return (
        product.operands[1].is_constant
        and product.outputs[0].is_float
        and graph.has_single_user(product[0])
        and graph.has_single_user(scaled)
        and product.attrs.get("kernel_layout", "OIHW") in _PLAIN_KERNEL_LAYOUTS
        and product.attrs.get("out_layout", "") in ("", product.attrs.get("data_layout", ""))
        and (product.op != "nn.conv2d_transpose" or product.attrs["groups"] == 1)
    )


def _channel_axis(product: Node) -> int:
    layout = product.attrs.get("data_layout")
    return str(layout).index("C") if layout else len(product.outputs[0].shape) - 1


def _per_channel(factor: Value, shape: tuple[int, ...], axis: int) -> np.ndarray | None:
    """Return the factor of each channel (or of all), or None if it differs within a channel."""
    if factor.type.elements == 1:
        return factor.array.reshape(-1)
    padded = (1,) * (len(shape) - len(factor.shape)) + factor.shape
    is_channels = len(padded) == len(shape) and all(
        extent == (shape[axis] if position == axis else 1) for position, extent in enumerate(padded)
    )
    return factor.array.reshape(-1) if is_channels else None


RULES = (
    product_with_shared_matrix,
    matmul_as_dense,
    fold_factor_into_weights,
    merge_products_of_one_input,
)
