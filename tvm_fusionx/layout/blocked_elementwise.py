"""Carry the NCHWc layout through operators that work element by element, with broadcasting.

Tensors of three axes are sequences, which come of images of one row by a reshape.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.layout.blocked_tensor import (
    CHANNEL_AXIS,
    IMAGE_AXES,
    Blocked,
    Convert,
    enter,
    image_shape,
    pack_channels,
    rechunk,
    reshape,
)

# Operators whose result depends only on the operands' elements at the same (broadcast) position.
ELEMENTWISE = frozenset(
    """
    abs add atan cast ceil clip copy cos divide equal erf exp fast_erf fast_exp fast_tanh floor
    floor_divide floor_mod fusionx.round_even greater greater_equal hardswish isfinite isinf isnan
    less less_equal log log10 log2 logical_and logical_not logical_or logical_xor maximum minimum
    mod multiply negative
    nn.dropout nn.leaky_relu nn.relu not_equal power round rsqrt sigmoid sign sin sqrt subtract tanh
    trunc where
    """.split()
)

LOOK_UP = "fusionx.look_up"
BIAS = "nn.bias_add"
RESHAPE = "reshape"
PRELU = "nn.prelu"


def block_elementwise(graph: Graph, node: Node, blocked: Convert) -> Blocked | None:
    """Return `node`'s result computed in NCHWc, or None where its operands do not allow it."""
    rank = len(node.outputs[0].shape)
    shape = image_shape(node.outputs[0].shape)
    if len(node.outputs) != 1 or shape is None:
        return None
    # One of another rank has its channels elsewhere.
    forms = [blocked(value) if len(value.shape) == rank else None for value in node.operands]
    full = [form for form in forms if form is not None and form.channels == shape[CHANNEL_AXIS]]
    if not full:
        return None
    block = full[0].block
    operands: list[Value] = []
    for value, form in zip(node.operands, forms, strict=True):
        operand = _operand(graph, value, form, shape, rank, block)
        if operand is None:
            return None
        operands.append(operand)
    return Blocked(graph.call(node.op, operands, node.attrs, name=node.name), shape)


def _operand(
    graph: Graph,
    value: Value,
    form: Blocked | None,
    shape: tuple[int, ...],
    rank: int,
    block: int,
) -> Value | None:
    """Return an operand so that it broadcasts against the blocked form of `shape`.

    The operator itself is on tensors of `rank` axes.
    """
    if form is not None and form.channels == shape[CHANNEL_AXIS]:
        same = rechunk(graph, form, block)
        if same is not None:
            return same.value
    if value.type.elements == 1 and len(value.shape) <= IMAGE_AXES:
        return value
    image = image_shape((1,) * (rank - len(value.shape)) + value.shape)
    if image is None:
        return None
    if image[CHANNEL_AXIS] == 1:
        return _as_shape(graph, value, (*image, 1))
    if image[CHANNEL_AXIS] != shape[CHANNEL_AXIS]:
        return None
    return enter(graph, _as_shape(graph, value, image), block).value


def _as_shape(graph: Graph, value: Value, shape: tuple[int, ...]) -> Value:
    if value.is_constant:
        return graph.constant(value.array.reshape(shape))
    return reshape(graph, value, shape)


def is_same_image(node: Node) -> bool:
    """Tell whether a reshape makes a sequence of an image of one row, or an image of a sequence."""
    before, after = (image_shape(each.shape) for each in (node.operands[0], node.outputs[0]))
    return before == after is not None


def block_reshape(graph: Graph, node: Node, blocked: Convert) -> Blocked | None:
    """Return the blocked tensor itself where a reshape leaves the image the same."""
    return blocked(node.operands[0]) if is_same_image(node) else None


def block_bias(graph: Graph, node: Node, blocked: Convert) -> Blocked | None:
    """Return ``nn.bias_add`` along the channels as an addition in NCHWc."""
    form = blocked(node.operands[0])
    bias = _channel_vector(node.operands[1], form)
    if form is None or bias is None or int(node.attrs["axis"]) % IMAGE_AXES != CHANNEL_AXIS:
        return None
    added = graph.call("add", [form.value, graph.constant(bias)], name=node.name)
    return Blocked(added, form.shape)


def block_look_up(graph: Graph, node: Node, blocked: Convert) -> Blocked | None:
    """Return a look-up of each byte in a table, which has no channels, in NCHWc."""
    form = blocked(node.operands[0])
    if form is None or form.shape != node.outputs[0].shape:
        return None
    found = graph.call(LOOK_UP, [form.value, node.operands[1]], node.attrs, name=node.name)
    return Blocked(found, form.shape)


def block_prelu(graph: Graph, node: Node, blocked: Convert) -> Blocked | None:
    """Return ``nn.prelu`` as max(x, 0) + slope * min(x, 0) in NCHWc."""
    form = blocked(node.operands[0])
    slope = _channel_vector(node.operands[1], form)
    if form is None or slope is None or int(node.attrs["axis"]) % IMAGE_AXES != CHANNEL_AXIS:
        return None
    zero = graph.constant(np.zeros((), slope.dtype))
    positive = graph.call("maximum", [form.value, zero])
    negative = graph.call("minimum", [form.value, zero])
    scaled = graph.call("multiply", [negative, graph.constant(slope)])
    return Blocked(graph.call("add", [positive, scaled], name=node.name), form.shape)


def _channel_vector(value: Value, form: Blocked | None) -> np.ndarray | None:
    """Return a constant of one number a channel, blocked like `form`."""
    if form is None or not value.is_constant or value.type.elements != form.channels:
        return None
    return pack_channels(value.array.reshape(1, form.channels, 1, 1), form.block)


def all_blocked(values: Sequence[Value], blocked: Convert) -> list[Blocked] | None:
    """Return the blocked forms of `values`, or None when one has none."""
    forms = [blocked(value) for value in values]
    known = [form for form in forms if form is not None]
    return known if len(known) == len(forms) else None
