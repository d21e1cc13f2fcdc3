"""Channels through operators that compute each element by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.ecg.numpy_operators import ELEMENTWISE, NotInNumpyError, evaluate
from tvm_fusionx.ecg.types import TensorType
from tvm_fusionx.rewrite.channels.flow import Axes, Cut, Flow, Marks, whole

OPERATORS = frozenset([*ELEMENTWISE, "cast", "clip", "copy", "divide", "nn.leaky_relu"])

# Their second operand lies along the axis that an attribute names.
ALONG_AN_AXIS = frozenset(["nn.bias_add", "nn.prelu"])


def follow_elementwise(node: Node, axes: Axes) -> Flow | str:
    """Follow channels through an operator of elements; constants go with their channels."""
    result = node[0]
    found = {
        axes[value] + len(result.shape) - len(value.shape)
        for value in node.operands
        if value in axes
    }
    if len(found) != 1:
        return "its operands have channels along different axes"
    (axis,) = found
    return _follow(node, axes, axis, {})


def follow_along_axis(node: Node, axes: Axes) -> Flow | str:
    """Follow channels through an operator whose second operand lies along one axis."""
    data, along = node.operands
    if data not in axes:
        return "its operand is no value with channels"
    if not along.is_constant or int(node.attrs["axis"]) % len(data.shape) != axes[data]:
        return "its second operand is no constant along the channels"
    return _follow(node, axes, axes[data], {1: 0})


def _follow(node: Node, axes: Axes, axis: int, places: dict[int, int]) -> Flow | str:
    result = node[0]
    if not result.type.is_float:
        return f"it makes {result.dtype} of them"
    channels = result.shape[axis]
    cuts: dict[int, tuple[Cut, ...]] = {}
    for number, value in enumerate(node.operands):
        place = places.get(number, axis - len(result.shape) + len(value.shape))
        extent = value.shape[place] if place >= 0 else 1
        if extent == 1:
            continue
        if value.is_constant:
            cuts[number] = (Cut(place, result),)
        elif value not in axes:
            return "an operand has no channels that can be followed"
    ties = tuple(
        whole(value, result, channels) for value in dict.fromkeys(node.operands) if value in axes
    )
    if node.op == "nn.prelu":
        return Flow({result: axis}, ties, cuts)
    followed = frozenset(tie.first for tie in ties)
    zeros = _OfChannels(node, channels, cuts, followed).zeros
    return Flow({result: axis}, ties, cuts, zeros=zeros)


@dataclass(frozen=True)
class _OfChannels:
    """What an operator makes of channels of which some are zero and some constant."""

    node: Node
    channels: int
    cuts: dict[int, tuple[Cut, ...]]
    followed: frozenset[Value]
    """Operands with these channels: another may be one channel for all."""

    def zeros(self, known: Marks) -> dict[Value, np.ndarray]:
        """Return which channels of the result are zero."""
        numbers, is_known = [], []
        for number, value in enumerate(self.node.operands):
            held = self._held(number, value)
            if held is not None:
                numbers.append(held)
                is_known.append(np.ones(self.channels, bool))
            else:
                numbers.append(np.zeros(self.channels, value.dtype))
                is_followed = value in self.followed
                is_known.append(known[value] if is_followed else np.zeros(self.channels, bool))
        result = self._evaluated(numbers)
        found = np.logical_and.reduce(is_known) & (result == 0)
        if self.node.op == "multiply":
            nothing = [each & (array == 0) for each, array in zip(is_known, numbers, strict=True)]
            found = found | np.logical_or.reduce(nothing)
        return {self.node[0]: found}

    def _held(self, number: int, value: Value) -> np.ndarray | None:
        """Return a constant's one number for each channel; None for what has several, or none."""
        if not value.is_constant:
            return None
        array, along = value.array, self.cuts.get(number)
        if along is not None:
            array = np.moveaxis(array, along[0].axis, 0)
            array = array.reshape(self.channels, -1)
        else:
            array = array.reshape(1, -1)
        if array.shape[1] != 1:
            return None
        return np.broadcast_to(array[:, 0], (self.channels,))

    def _evaluated(self, numbers: list[np.ndarray]) -> np.ndarray:
        node, result = self.node, TensorType((self.channels,), self.node[0].dtype)
        op = "add" if node.op == "nn.bias_add" else node.op
        small = Node(node.number, op, node.attrs, (), (), (result,))
        try:
            return evaluate(small, numbers)[0]
        except NotInNumpyError:
            return np.ones(self.channels)
