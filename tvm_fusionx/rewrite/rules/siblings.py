"""Products that share an operand, computed as one and cut apart again (Glow, TASO)."""

from __future__ import annotations

import numpy as np

from tvm_fusionx.ecg.construct import slice_axis
from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.operators import MOVEMENTS, REORGANIZE
from tvm_fusionx.rewrite.rule import (
    Law,
    NumericClass,
    Refused,
    Replacement,
    constant,
    graph_rule,
)
from tvm_fusionx.rewrite.term import op

# How far upwards a dependence is looked for; a larger graph is taken to have one.
_MOST_CALLS = 256


def _with_same_weights(graph: Graph, node: Node) -> list[Node]:
    """Return the calls of one kind with the same constant weights, in the order of the graph."""
    weight = node.operands[1]
    if not weight.is_constant or not node.outputs[0].is_float:
        return []
    return [
        user
        for user in graph.users(weight.node)
        if user.op == node.op and user.operands[1] is weight and user.attrs == node.attrs
    ]


def _may_depend(graph: Graph, first: Node, second: Node) -> bool:
    """Tell whether either call may need the other's result."""
    for start, goal in ((first, second), (second, first)):
        pending, seen = [start], {start}
        while pending:
            for value in pending.pop().operands:
                if value.node is goal or len(seen) > _MOST_CALLS:
                    return True
                if value.node.is_call and value.node not in seen:
                    seen.add(value.node)
                    pending.append(value.node)
    return False


def _moved_bytes(siblings: list[Node]) -> int:
    return sum(call.operands[0].type.bytes + call.outputs[0].bytes for call in siblings)


def _stacked(graph: Graph, first: Node, second: Node) -> list[Replacement]:
    """Return one call on both inputs, one below the other, and its two parts."""
    images = [first.operands[0], second.operands[0]]
    joined = graph.call(
        "concatenate",
        images,
        default_attributes("concatenate", axis=0),
        grouping=(2,),
        name=first.name,
    )
    both = graph.call(first.op, [joined, first.operands[1]], first.attrs, name=first.name)
    rows = images[0].shape[0]
    upper = slice_axis(graph, both, 0, 0, rows, first.name)
    lower = slice_axis(graph, both, 0, rows, both.shape[0], second.name)
    return [(first[0], upper), (second[0], lower)]


@graph_rule(
    roots=("nn.dense",),
    law=Law.DISTRIBUTIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, y, w: (op.nn.dense(x, w), op.tanh(op.nn.dense(y, w))),
    x=(1, 8),
    y=(2, 8),
    w=constant(6, 8),
)
def stack_skinny_products(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """dense(x, W), dense(y, W) -> slices of dense(x over y, W) where W is larger than they are."""
    siblings = _with_same_weights(graph, node)
    if len(siblings) < 2 or siblings[0] is not node:
        return None
    other = siblings[1]
    if _moved_bytes(siblings[:2]) > node.operands[1].type.bytes:
        return Refused("the inputs and results are larger than the matrix that is read once less")
    if _may_depend(graph, node, other):
        return Refused("one of the products may need the other")
    return _stacked(graph, node, other)


@graph_rule(
    roots=("nn.conv2d",),
    law=Law.DISTRIBUTIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, y, w: (op.nn.conv2d(x, w), op.tanh(op.nn.conv2d(y, w))),
    attributes={"nn.conv2d": {"padding": [1, 1]}},
    x=(1, 8, 2, 2),
    y=(2, 8, 2, 2),
    w=constant(8, 8, 3, 3),
)
def stack_images_of_one_kernel(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """conv(x, W), conv(y, W) -> parts of conv(x and y as one batch, W) where W is larger (TASO)."""
    siblings = [
        sibling
        for sibling in _with_same_weights(graph, node)
        if sibling.operands[0].shape[1:] == node.operands[0].shape[1:]
    ]
    if len(siblings) < 2 or siblings[0] is not node:
        return None
    if not str(node.attrs["data_layout"]).startswith("N"):
        return Refused("the images of a batch do not lie one behind the other")
    other = siblings[1]
    if _moved_bytes(siblings[:2]) > node.operands[1].type.bytes:
        return Refused("the images and results are larger than the kernel that is read once less")
    if _may_depend(graph, node, other):
        return Refused("one of the convolutions may need the other")
    return _stacked(graph, node, other)


# ---- convolutions of one image -----------------------------------------------------------------

# Functions of one element that convolutions commonly end in.
_ACTIVATIONS = ("clip", "nn.leaky_relu", "nn.relu", "sigmoid", "tanh")


def _convolutions_of(graph: Graph, node: Node) -> list[Node]:
    """Return the convolutions of one image that differ in weights and channels only, in order."""
    attrs = node.attrs
    if attrs["data_layout"] != "NCHW" or attrs["kernel_layout"] != "OIHW" or attrs["groups"] != 1:
        return []
    image, weight = node.operands
    return [
        user
        for user in graph.users(image.node)
        if user.op == node.op
        and user.operands[0] is image
        and user.operands[1].is_constant
        and user.operands[1].shape[1:] == weight.shape[1:]
        and user.attrs.replace(channels=None) == attrs.replace(channels=None)
    ]


def _next_calls(graph: Graph, values: list[Value]) -> list[Node]:
    """Return the only reader of each value where all do alike: add a bias, or one function."""
    if not all(graph.has_single_user(value) for value in values):
        return []
    readers = [graph.users(value.node)[0] for value in values]
    first = readers[0]
    if any(reader.op != first.op or reader.attrs != first.attrs for reader in readers):
        return []
    if first.op in _ACTIVATIONS:
        return readers
    biases = [_bias(reader, value) for reader, value in zip(readers, values, strict=True)]
    return readers if all(bias is not None for bias in biases) else []


def _bias(reader: Node, value: Value) -> np.ndarray | None:
    """Return what a call adds to each channel, or None if it does something else."""
    others = [operand for operand in reader.operands if operand is not value]
    if reader.op != "add" or len(others) != 1 or not others[0].is_constant:
        return None
    channels = value.shape[1]
    shape = (1,) * (4 - len(others[0].shape)) + others[0].shape
    if shape not in ((1, channels, 1, 1), (1, 1, 1, 1)):
        return None
    return np.broadcast_to(others[0].array.reshape(-1, 1, 1), (channels, 1, 1))


def _is_only_moved(graph: Graph, value: Value) -> bool:
    """Tell whether all readers move a value; a reshape does not, but hands it on as it lies."""
    moves = (user.op in MOVEMENTS - REORGANIZE for user in graph.users(value.node))
    return not graph.is_output(value.node) and all(moves)


@graph_rule(
    roots=("nn.conv2d",),
    law=Law.DISTRIBUTIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, w, v, b, c: (
        op.transpose(op.nn.relu(op.nn.conv2d(x, w) + b)),
        op.transpose(op.nn.relu(op.nn.conv2d(x, v) + c)),
    ),
    attributes={"nn.conv2d": {"padding": [1, 1]}, "transpose": {"axes": [0, 2, 3, 1]}},
    x=(1, 2, 4, 4),
    w=constant(3, 2, 3, 3),
    v=constant(2, 2, 3, 3),
    b=constant(3, 1, 1),
    c=constant(2, 1, 1),
)
def merge_convolutions_of_one_image(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """f(conv(x, W) + b), f(conv(x, V) + c) -> parts of f(conv(x, W over V) + (b over c)): heads.

    Only where whoever reads a part moves it anyway: for a reader that computes, it would be copied.
    """
    siblings = _convolutions_of(graph, node)
    if len(siblings) < 2 or siblings[0] is not node:
        return None
    weights = np.concatenate([sibling.operands[1].array for sibling in siblings])
    attrs = node.attrs.replace(channels=weights.shape[0])
    merged = graph.call(node.op, [node.operands[0], graph.constant(weights)], attrs, name=node.name)
    results = [sibling[0] for sibling in siblings]
    while readers := _next_calls(graph, results):
        if readers[0].op == "add":
            biases = [_bias(call, value) for call, value in zip(readers, results, strict=True)]
            rows = np.concatenate([bias for bias in biases if bias is not None])
            merged = graph.call("add", [merged, graph.constant(rows)], name=readers[0].name)
        else:
            merged = graph.call(readers[0].op, [merged], readers[0].attrs, name=readers[0].name)
        results = [reader[0] for reader in readers]
    if not all(_is_only_moved(graph, result) for result in results):
        return Refused("a part of the result would be copied for a reader that computes")
    out: list[Replacement] = []
    start = 0
    for result in results:
        stop = start + result.shape[1]
        out.append((result, slice_axis(graph, merged, 1, start, stop, result.node.name)))
        start = stop
    return out


RULES = (stack_skinny_products, stack_images_of_one_kernel, merge_convolutions_of_one_image)
