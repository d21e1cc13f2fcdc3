"""Scales and shifts before a product, folded into its weights and its bias."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.ecg.construct import dense, reshape
from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.rewrite.matching import is_filled_with
from tvm_fusionx.rewrite.rule import Law, NumericClass, Refused, Replacement, constant, graph_rule
from tvm_fusionx.rewrite.term import op

ROWS: dict[str, Any] = {"x": (4, 8), "w": constant(6, 8)}
IMAGE: dict[str, Any] = {"x": (1, 2, 4, 4), "w": constant(3, 2, 3, 3)}


def _scaled_input(value: Value, op_name: str, last: int) -> tuple[Value, Value] | None:
    """Return what a call combines with one constant row; reshapes that keep rows may follow it."""
    while value.op == "reshape" and value.shape[-1:] == (last,):
        value = value.node.operands[0]
    if value.op != op_name:
        return None
    for data, row in (value.node.operands, tuple(reversed(value.node.operands))):
        is_row = row.is_constant and row.type.elements in (1, last)
        if is_row and data.type == value.type and row.shape[-1:] in ((), (row.type.elements,)):
            return data, row
    return None


def _why_not_own(graph: Graph, weight: Value) -> str | None:
    if not weight.is_constant or not weight.type.is_float:
        return "the weights are not floating-point constants"
    # A copy of an embedding that is also a table would take its memory twice.
    return None if len(graph.users(weight.node)) == 1 else "the weights are read elsewhere too"


@graph_rule(
    roots=("nn.dense",),
    law=Law.ASSOCIATIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, k, w: op.nn.dense(x * k, w),
    **ROWS,
    k=constant(8),
)
def fold_input_factor_into_dense(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """dense(x*k, W) -> dense(x, W*k) for a constant factor of each column: a norm's gain."""
    data, weight = node.operands
    found = _scaled_input(data, "multiply", data.shape[-1])
    if found is None:
        return None
    reason = _why_not_own(graph, weight)
    if reason is not None:
        return Refused(reason)
    source, factor = found
    row = reshape(graph, factor, (factor.type.elements,), node.name)
    weights = graph.call("multiply", [weight, row], name=node.name)
    flat = reshape(graph, source, data.shape, node.name)
    out = graph.call(node.op, [flat, weights], node.attrs, name=node.name)
    return [(node[0], out)]


@graph_rule(
    roots=("add",),
    law=Law.DISTRIBUTIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, b, w, c: op.nn.dense(x + b, w) + c,
    **ROWS,
    b=constant(8),
    c=constant(6),
)
def fold_input_summand_into_bias(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """dense(x + b, W) + c -> dense(x, W) + (c + W.b) for constants: a norm's shift."""
    for result, bias in (node.operands, tuple(reversed(node.operands))):
        product = result
        while product.op == "reshape" and graph.has_single_user(product):
            product = product.node.operands[0]
        if product.op != "nn.dense" or not bias.is_constant or result.type != node.outputs[0]:
            continue
        data, weight = product.node.operands
        units = weight.shape[0]
        if bias.shape[-1:] != (units,) or bias.type.elements != units or result.shape[-1] != units:
            continue
        found = _scaled_input(data, "add", data.shape[-1])
        if found is None or not weight.is_constant or not weight.type.is_float:
            continue
        source, summand = found
        row = summand
        if summand.type.elements != data.shape[-1]:
            attrs = default_attributes("broadcast_to", shape=[data.shape[-1]])
            row = graph.call("broadcast_to", [reshape(graph, summand, (1,))], attrs)
        moved = dense(graph, reshape(graph, row, (1, data.shape[-1])), weight, node.name)
        total = graph.call("add", [bias, reshape(graph, moved, (units,))], name=node.name)
        flat = reshape(graph, source, data.shape, node.name)
        out = graph.call("nn.dense", [flat, weight], product.node.attrs, name=product.node.name)
        shaped = reshape(graph, out, result.shape, node.name)
        return [(node[0], graph.call("add", [shaped, total], name=node.name))]
    return None


def _channel_factor(value: Value, op_name: str) -> tuple[Value, Value] | None:
    """Return what a call combines with one constant for each channel, or for all."""
    if value.op != op_name or len(value.shape) != 4:
        return None
    channels = value.shape[1]
    for data, factor in (value.node.operands, tuple(reversed(value.node.operands))):
        shape = (1,) * (len(value.shape) - len(factor.shape)) + factor.shape
        is_channels = shape == (1, channels, 1, 1) or factor.type.elements == 1
        if factor.is_constant and is_channels and data.type == value.type:
            return data, factor
    return None


def _is_plain(node: Node) -> bool:
    attrs = node.attrs
    return (
        attrs["data_layout"] == "NCHW"
        and attrs["kernel_layout"] == "OIHW"
        and attrs["out_layout"] in ("", "NCHW")
    )


def _unpadded(value: Value) -> Value:
    """Return what a padding of rows and columns surrounds; the value itself where there is none."""
    inner = value.node.operands[0] if value.op == "nn.pad" else value
    return inner if inner.shape[:2] == value.shape[:2] else value


def _why_not_scaled_alike(padding: Node) -> str | None:
    is_zero = padding.attrs["pad_mode"] == "constant" and is_filled_with(padding.operands[1], 0)
    return None if is_zero else "the padding is not of zeros, and not scaled"


@graph_rule(
    roots=("nn.conv2d",),
    law=Law.ASSOCIATIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, k, w, y, v: (op.nn.conv2d(x * k, w), op.nn.conv2d(op.nn.pad(y * k, 0.0), v)),
    **IMAGE,
    k=constant(2, 1, 1),
    y=(1, 2, 4, 4),
    v=constant(3, 2, 3, 3),
    attributes={
        "nn.conv2d": {"padding": [1, 1]},
        "nn.pad": {"pad_width": [[0, 0], [0, 0], [1, 0], [0, 2]]},
    },
)
def fold_input_factor_into_kernel(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """conv(x*k, W) -> conv(x, W*k) for a constant factor of each channel; zeros of pads stay."""
    data, weight = node.operands
    inner = _unpadded(data) if _is_plain(node) else data
    found = _channel_factor(inner, "multiply") if _is_plain(node) else None
    if found is None:
        return None
    source, factor = found
    groups, channels = int(node.attrs["groups"]), data.shape[1]
    is_depthwise = weight.shape[1] == 1 and groups == channels == weight.shape[0]
    if factor.type.elements > 1 and groups != 1 and not is_depthwise:
        return Refused("the factor differs between the groups' channels")
    reason = _why_not_own(graph, weight)
    if reason is None and inner is not data:
        reason = _why_not_scaled_alike(data.node)
    if reason is not None:
        return Refused(reason)
    if inner is not data:
        operands = [source, data.node.operands[1]]
        source = graph.call("nn.pad", operands, data.node.attrs, name=data.node.name)
    shape = (-1, 1, 1, 1) if is_depthwise else (1, -1, 1, 1)
    extents = [factor.type.elements if extent < 0 else 1 for extent in shape]
    scaled = graph.call("multiply", [weight, reshape(graph, factor, extents)], name=node.name)
    return [(node[0], graph.call(node.op, [source, scaled], node.attrs, name=node.name))]


def _shifted_image(product: Value) -> tuple[Value, Value] | None:
    """Return what a convolution with known weights reads, x + b, and then a padding or none."""
    if product.op != "nn.conv2d" or not _is_plain(product.node):
        return None
    data, weight = product.node.operands
    is_known = weight.is_constant and weight.type.is_float
    is_whole = product.node.attrs["groups"] == 1
    return _channel_factor(_unpadded(data), "add") if is_known and is_whole else None


def _is_padded(product: Node) -> bool:
    is_padding = any(int(item) for item in product.attrs["padding"])
    return is_padding or product.operands[0].op == "nn.pad"


def _shift_of_result(graph: Graph, summand: Value, product: Node) -> Value:
    """Return W.b: what a constant added to each channel of an image adds to its convolution."""
    data, weight = product.operands
    kernel_sum = default_attributes("sum", axis=[2, 3], keepdims=False)
    totals = graph.call("sum", [weight], kernel_sum, name=product.name)
    row = graph.call(
        "broadcast_to",
        [reshape(graph, summand, (1, summand.type.elements))],
        default_attributes("broadcast_to", shape=[1, data.shape[1]]),
    )
    moved = dense(graph, row, totals, product.name)
    return reshape(graph, moved, (1, weight.shape[0], 1, 1))


@graph_rule(
    roots=("add",),
    law=Law.DISTRIBUTIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, b, w, c: op.nn.conv2d(x + b, w) + c,
    **IMAGE,
    b=constant(2, 1, 1),
    c=constant(3, 1, 1),
)
def fold_input_summand_into_convolution(
    graph: Graph, node: Node
) -> list[Replacement] | Refused | None:
    """conv(x + b, W) + c -> conv(x, W) + (c + W.b) for constants, where no zeros are padded."""
    for result, bias in (node.operands, tuple(reversed(node.operands))):
        found = _shifted_image(result)
        if found is None or not bias.is_constant or result.type != node.outputs[0]:
            continue
        product = result.node
        if _is_padded(product):
            return Refused("what is padded with is not shifted")
        source, summand = found
        moved = _shift_of_result(graph, summand, product)
        total = graph.call("add", [bias, moved], name=node.name)
        operands = [source, product.operands[1]]
        out = graph.call(product.op, operands, product.attrs, name=product.name)
        return [(node[0], graph.call("add", [out, total], name=node.name))]
    return None


@graph_rule(
    roots=("nn.conv2d",),
    law=Law.DISTRIBUTIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, b, w: op.nn.conv2d(x + b, w),
    x=(1, 4, 4, 4),
    b=constant(4, 1, 1),
    w=constant(3, 4, 3, 3),
)
def shift_after_convolution(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """conv(x + b, W) -> conv(x, W) + W.b for constants, where the result is the smaller."""
    found = _shifted_image(node[0])
    if found is None:
        return None
    if _is_padded(node):
        return Refused("what is padded with is not shifted")
    source, summand = found
    moved = _shift_of_result(graph, summand, node)
    out = graph.call(node.op, [source, node.operands[1]], node.attrs, name=node.name)
    return [(node[0], graph.call("add", [out, moved], name=node.name))]


RULES = (
    fold_input_factor_into_dense,
    fold_input_summand_into_bias,
    fold_input_factor_into_kernel,
    fold_input_summand_into_convolution,
    shift_after_convolution,
)
