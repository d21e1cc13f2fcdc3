"""Channels through convolutions and matrix products with constant weights."""

from __future__ import annotations

import numpy as np

from tvm_fusionx.ecg.graph import Attributes, Node, Value
from tvm_fusionx.rewrite.channels.flow import Axes, Cut, Flow, Marks, Product, Tie, count

CONVOLUTIONS = frozenset(["nn.conv1d", "nn.conv2d", "nn.conv3d"])
# The only order of axes that TVM has for their weights.
TRANSPOSED = {
    "nn.conv1d_transpose": "IOW",
    "nn.conv2d_transpose": "IOHW",
    "nn.conv3d_transpose": "IODHW",
}


def follow_convolution(node: Node, axes: Axes) -> Flow | str:
    """Follow channels through a convolution: of one group, or of a group a channel."""
    data, weights = node.operands
    result = node[0]
    refused = _why_not_float_weights(data, weights, result)
    if refused is not None:
        return refused
    layout, kernel = str(node.attrs["data_layout"]), str(node.attrs["kernel_layout"])
    out_layout = str(node.attrs["out_layout"] or layout)
    if not (layout + kernel + out_layout).isalpha():
        return f"layouts {layout}, {kernel}"
    if kernel != TRANSPOSED.get(node.op, kernel):
        return f"weights in the order {kernel}"
    axis, out_axis = layout.index("C"), out_layout.index("C")
    if axes.get(data, axis) != axis:
        return "it adds up another axis"
    groups = int(node.attrs["groups"])
    out, into = kernel.index("O"), kernel.index("I")
    if groups == 1:
        return _sums(node, axes, (axis, out_axis), (out, into))
    if data not in axes or groups != data.shape[axis]:
        return f"{groups} groups"
    if node.op in TRANSPOSED:
        out, into = into, out
    return _apart(node, (axis, out_axis), (out, into))


def follow_dense(node: Node, axes: Axes) -> Flow | str:
    """Follow channels through a product of rows with a constant matrix."""
    data, weights = node.operands
    refused = _why_not_float_weights(data, weights, node[0])
    if refused is not None:
        return refused
    if node.attrs.get("transpose_a"):
        return "a transposed operand"
    last, out_last = len(data.shape) - 1, len(node[0].shape) - 1
    if axes.get(data, last) != last:
        return "it adds up another axis"
    is_transposed = node.op == "nn.matmul" and not node.attrs["transpose_b"]
    return _sums(node, axes, (last, out_last), (1, 0) if is_transposed else (0, 1))


def _why_not_float_weights(data: Value, weights: Value, result: Value) -> str | None:
    if not weights.is_constant:
        return "weights that are computed"
    if not all(value.type.is_float for value in (data, weights, result)):
        return "integers"
    return None


def _sums(node: Node, axes: Axes, places: tuple[int, int], sides: tuple[int, int]) -> Flow | str:
    """Return the flow of a call that adds up all channels of its operand.

    Parameters
    ----------
    places
        Axis of the channels in the operand, and in the result.
    sides
        Axis of the result's channels in the weights, and of the operand's.
    """
    data, weights = node.operands
    result, (axis, out_axis), (out, into) = node[0], places, sides
    if (weights.shape[out], weights.shape[into]) != (result.shape[out_axis], data.shape[axis]):
        return f"weights of {weights.shape}"
    reads = _is_not_zero(weights.array, (out, into))
    followed = data if data in axes else None
    is_finite = followed is None or _is_finite(weights.array)
    product = Product(followed, result, reads if out < into else reads.T, is_finite)
    cuts = [Cut(out, result), *([Cut(into, data)] if followed is not None else [])]
    return Flow(
        {result: out_axis},
        cuts={1: tuple(cuts)},
        product=product,
        attributes=lambda stays: _with_channels(node, stays, out_axis),
    )


def _apart(node: Node, places: tuple[int, int], sides: tuple[int, int]) -> Flow | str:
    """Return the flow of a call that makes some results of each channel alone."""
    data, weights = node.operands
    result, (axis, out_axis), (out, into) = node[0], places, sides
    channels, results = data.shape[axis], result.shape[out_axis]
    each = results // channels
    if (weights.shape[out], weights.shape[into]) != (results, 1):
        return f"weights of {weights.shape} in {channels} groups"
    is_nothing, is_finite = ~_is_not_zero(weights.array, (out,)), _is_finite(weights.array)
    tie = Tie(data, result, np.repeat(np.arange(channels), each), np.arange(results))

    def zeros(known: Marks) -> dict[Value, np.ndarray]:
        return {result: is_nothing | (known[data][tie.here] & is_finite)}

    def attributes(stays: Marks) -> Attributes:
        groups = count(stays, data, axis)
        return _with_channels(node, stays, out_axis).replace(groups=groups)

    return Flow(
        {result: out_axis},
        ties=(tie,),
        cuts={1: (Cut(out, result),)},
        zeros=zeros,
        attributes=attributes,
    )


def _is_not_zero(weights: np.ndarray, kept: tuple[int, ...]) -> np.ndarray:
    """Tell along some axes whether any weight there is not zero."""
    others = tuple(axis for axis in range(weights.ndim) if axis not in kept)
    found: np.ndarray = weights != 0
    return np.any(found, axis=others) if others else found


def _is_finite(weights: np.ndarray) -> bool:
    """Tell whether all are; a NaN is the smallest and the largest of its array."""
    ends = np.array([weights.min(initial=0), weights.max(initial=0)])
    return bool(np.isfinite(ends).all())


def _with_channels(node: Node, stays: Marks, axis: int) -> Attributes:
    """Return attributes with the number of channels that the result has."""
    name = "channels" if "channels" in node.attrs else "units"
    if node.attrs.get(name) is None or node[0] not in stays:
        return node.attrs
    return node.attrs.replace(**{name: count(stays, node[0], axis)})
