"""Distributive laws of convolutions that share an input: their kernels are added or stacked."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.rewrite.rule import Law, NumericClass, Replacement, constant, graph_rule
from tvm_fusionx.rewrite.term import call, op

PADDED: dict[str, Any] = {"nn.conv2d": {"padding": [1, 1]}, "concatenate": {"axis": 1}}
SAME: dict[str, Any] = {"x": (1, 2, 4, 4), "w": constant(2, 2, 3, 3)}


def _convolution(graph: Graph, value: Value) -> Node | None:
    """Return a plain convolution with constant weights that only one call reads."""
    node = value.node
    if node.op != "nn.conv2d" or not graph.has_single_user(value):
        return None
    attrs = node.attrs
    is_plain = attrs["data_layout"] == "NCHW" and attrs["kernel_layout"] == "OIHW"
    is_ours = is_plain and attrs["groups"] == 1 and node.operands[1].is_constant
    return node if is_ours and value.type.is_float else None


def _halo(node: Node) -> tuple[int, int, int, int] | None:
    """Return how far a stride-one window reaches up, left, down and right of its pixel."""
    attrs, kernel = node.attrs, node.operands[1].shape[2:]
    padding = tuple(int(item) for item in attrs["padding"])
    top, left, bottom, right = padding if len(padding) == 4 else (padding * 4)[:4]
    if tuple(attrs["dilation"]) != (1, 1) or (top + bottom, left + right) != (
        kernel[0] - 1,
        kernel[1] - 1,
    ):
        return None
    return top, left, bottom, right


@graph_rule(
    roots=("add",),
    law=Law.DISTRIBUTIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, w: op.nn.conv2d(x, w) + x,
    attributes=PADDED,
    **SAME,
)
def add_identity_to_kernel(graph: Graph, node: Node) -> list[Replacement] | None:
    """conv(x, W) + x -> conv(x, W + 1 at each channel's centre): RepVGG's identity branch."""
    for product, image in (node.operands, tuple(reversed(node.operands))):
        found = _convolution(graph, product)
        if found is None or found.operands[0] is not image or product.type != image.type:
            continue
        halo = _halo(found)
        if halo is None or any(stride != 1 for stride in found.attrs["strides"]):
            continue
        weight = found.operands[1]
        identity = np.zeros(weight.shape, dtype=weight.dtype)
        channels = np.arange(weight.shape[0])
        identity[channels, channels, halo[0], halo[1]] = 1
        added = graph.call("add", [weight, graph.constant(identity)], name=node.name)
        out = graph.call(found.op, [image, added], found.attrs, name=found.name)
        return [(node[0], out)]
    return None


@graph_rule(
    roots=("add",),
    law=Law.DISTRIBUTIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, w, v: op.nn.conv2d(x, w) + call("nn.conv2d", x, v, tag="pointwise"),
    attributes={**PADDED, "pointwise": {"padding": [0, 0]}},
    v=constant(2, 2, 1, 1),
    **SAME,
)
def enlarge_and_add_kernels(graph: Graph, node: Node) -> list[Replacement] | None:
    """conv(x, W) + conv(x, V) -> conv(x, W + V padded to W's size) (TASO, RepVGG)."""
    pair = [_convolution(graph, value) for value in node.operands]
    for large, small in (pair, pair[::-1]):
        if large is None or small is None or large.operands[0] is not small.operands[0]:
            continue
        outer, inner = _halo(large), _halo(small)
        if outer is None or inner is None or large.attrs["strides"] != small.attrs["strides"]:
            continue
        before = [first - second for first, second in zip(outer, inner, strict=True)]
        if min(before) < 0 or max(before) == 0 or large[0].type != small[0].type:
            continue
        top, left, bottom, right = before
        attrs = default_attributes(
            "nn.pad", pad_width=[[0, 0], [0, 0], [top, bottom], [left, right]]
        )
        zero = graph.constant(0, large.operands[1].dtype)
        padded = graph.call("nn.pad", [small.operands[1], zero], attrs, name=node.name)
        added = graph.call("add", [large.operands[1], padded], name=node.name)
        out = graph.call(large.op, [large.operands[0], added], large.attrs, name=large.name)
        return [(node[0], out)]
    return None


@graph_rule(
    roots=("concatenate",),
    law=Law.DISTRIBUTIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, w, v: call(
        "concatenate", op.nn.conv2d(x, w), op.nn.conv2d(x, v), attrs={"axis": 1}
    ),
    attributes=PADDED,
    v=constant(2, 2, 3, 3),
    **SAME,
)
def stack_kernels_of_joined_convolutions(graph: Graph, node: Node) -> list[Replacement] | None:
    """concat(conv(x, W), conv(x, V)) -> conv(x, W over V): one larger product (TASO)."""
    found = [_convolution(graph, value) for value in node.operands]
    convolutions = [item for item in found if item is not None]
    if len(found) < 2 or len(convolutions) < len(found) or int(node.attrs["axis"]) != 1:
        return None
    first = convolutions[0]
    kernel = first.operands[1].shape[1:]
    for item in convolutions:
        attrs = item.attrs.replace(channels=first.attrs["channels"])
        is_like = attrs == first.attrs and item.operands[1].shape[1:] == kernel
        if item.operands[0] is not first.operands[0] or not is_like:
            return None
    weights = graph.call(
        "concatenate",
        [item.operands[1] for item in convolutions],
        default_attributes("concatenate", axis=0),
        grouping=(len(convolutions),),
        name=node.name,
    )
    attrs = first.attrs.replace(channels=weights.shape[0])
    return [(node[0], graph.call(first.op, [first.operands[0], weights], attrs, name=first.name))]


@graph_rule(
    roots=("concatenate",),
    law=Law.DISTRIBUTIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, w, v: call(
        "concatenate", op.nn.dense(x, w), op.nn.dense(x, v), attrs={"axis": 1}
    ),
    x=(4, 8),
    w=constant(6, 8),
    v=constant(3, 8),
)
def stack_weights_of_joined_products(graph: Graph, node: Node) -> list[Replacement] | None:
    """concat(dense(x, W), dense(x, V)) -> dense(x, W over V): one larger product (TASO)."""
    products = [value.node for value in node.operands]
    rank = len(node.outputs[0].shape)
    if len(products) < 2 or int(node.attrs["axis"]) % rank != rank - 1:
        return None
    for value in node.operands:
        if (
            value.op != "nn.dense"
            or not graph.has_single_user(value)
            or not value.node.operands[1].is_constant
            or value.node.operands[0] is not products[0].operands[0]
        ):
            return None
    weights = graph.call(
        "concatenate",
        [product.operands[1] for product in products],
        default_attributes("concatenate", axis=0),
        grouping=(len(products),),
        name=node.name,
    )
    attrs = products[0].attrs.replace(units=None)
    out = graph.call("nn.dense", [products[0].operands[0], weights], attrs, name=products[0].name)
    return [(node[0], out)]


RULES = (
    add_identity_to_kernel,
    enlarge_and_add_kernels,
    stack_kernels_of_joined_convolutions,
    stack_weights_of_joined_products,
)
