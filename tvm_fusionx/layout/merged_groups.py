"""Groups of channels that are computed together, so that instructions on integers are filled.

One instruction multiplies `depth` neighbouring inputs and sums vectors of outputs. A group that has
fewer is merged with those beside it, and the weights between channels of different groups are
zeros: more products, and no copy of the data. Of the ways to merge, the one of fewest instructions
is taken; one group of all channels is a convolution as any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.layout.blocked_tensor import CHANNEL_AXIS, block_for
from tvm_fusionx.processors.integers import DotInstruction
from tvm_fusionx.tir.numbers import divisors

# An element that changes its chunk is loaded and stored, out of one layout and into the other.
MOVED = 4


@dataclass(frozen=True)
class MergedGroups:
    """How the groups of a convolution are computed."""

    number: int
    """Groups that are left."""

    together: int
    """Groups of the model in each of them."""

    inputs: int
    """Input channels of one that is left."""

    outputs: int
    """Output channels of one that is left."""


def merge_groups(node: Node, vector: int, instruction: DotInstruction) -> MergedGroups:
    """Return how the groups of a ``nn.conv2d`` of integers are merged.

    Parameters
    ----------
    node
        The convolution.
    vector
        Lanes to fill.
    instruction
        What multiplies.
    """
    groups = int(node.attrs["groups"])
    inputs, outputs = (
        value.shape[CHANNEL_AXIS] // groups for value in (node.operands[0], node.outputs[0])
    )
    taps = math.prod(node.operands[1].shape[2:])
    lanes = [count for count, _ in instruction.by_lanes]
    ways = [
        MergedGroups(groups // each, each, each * inputs, each * outputs)
        for each in divisors(groups)
        if each == groups
        or (
            each * inputs % instruction.depth == 0
            and any(each * outputs % count == 0 for count in lanes)
        )
    ]

    def instructions(way: MergedGroups) -> float:
        steps = math.ceil(way.inputs / instruction.depth)
        fitting = [count for count in lanes if way.outputs % count == 0]
        width = max(fitting) if fitting else min(lanes)
        products = way.number * taps * steps * math.ceil(way.outputs / width)
        moved = MOVED * groups * inputs / vector if is_moved(way, vector) else 0
        return products + moved

    return min(ways, key=lambda way: (instructions(way), way.together))


def is_moved(way: MergedGroups, vector: int) -> bool:
    """Tell whether data in the chunks that its channels have elsewhere is cut into others."""
    return way.inputs % block_for(way.number * way.inputs, vector) != 0


def merge_weights(array: np.ndarray, way: MergedGroups) -> np.ndarray:
    """Return weights ``[O, I, h, w]`` of merged groups, zeros between channels of different ones.

    Parameters
    ----------
    array
        Weights of the model's groups.
    way
        How they are merged.
    """
    if way.together == 1:
        return array
    outputs, inputs, *window = array.shape
    each = way.outputs // way.together
    merged = np.zeros((way.number, way.together, each, way.together, inputs, *window), array.dtype)
    parts = array.reshape(way.number, way.together, each, inputs, *window)
    for place in range(way.together):
        merged[:, place, :, place] = parts[:, place]
    return merged.reshape(outputs, way.inputs, *window)
