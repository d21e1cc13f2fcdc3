"""What a convolution or a pool computes while it gathers its input: gates, pieces put together.

The convolution's kernel gathers its input once for each task. A few operations on each element cost
less there than a pass over memory would, and where the elements are taken from costs nothing. So a
tensor that another one scales, as squeeze-and-excite does, is scaled there, and tensors that are
concatenated or enlarged by repetition are put together there. Other elementwise work belongs to the
kernel that produces the tensor, where it is free.

A pool over unblocked channels computes one channel at a time, and puts pieces together for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.fusion.classify import broadcasts, is_elementwise
from tvm_fusionx.operators import REORGANIZE, TRANSCENDENTALS

# Convolutions whose template gathers its input.
GATHERING = frozenset(["nn.contrib_conv2d_NCHWc"])

# Pools, which read their own channel only, and the layouts in which channels are an outer axis.
_CHANNEL_POOLS = {"nn.max_pool1d": "NCW", "nn.max_pool2d": "NCHW", "nn.max_pool3d": "NCDHW"}
_OUTER_AXES = 2

# A gate and the hard-swish after it are five.
MOST_OPERATORS = 5

# Movements that keep the channels of a chunk together: one vector is one vector.
_MOVEMENTS = frozenset(["concatenate", "repeat"])


def are_gathered(before: Sequence[Node], window: Node) -> bool:
    """Tell whether `before`, all that a block computes before `window`, can go into its gathering.

    Parameters
    ----------
    before
        Calls of one block whose results the window needs, operands before users.
    window
        A Many-to-Many call.
    """
    if is_channel_pool(window) and before:
        return all(node.op in REORGANIZE or _joins_channels(node) for node in before)
    if window.op not in GATHERING or not before or len(before) > MOST_OPERATORS:
        return False
    if any(value.node in before for value in window.operands[1:]):
        return False
    elements = window.operands[0].type.elements
    gathered: set[Node] = set()
    for node in before:
        if keeps_chunks(node):
            gathered.add(node)
            continue
        is_whole = is_elementwise(node) and node.outputs[0].elements == elements
        if not is_whole or node.op in TRANSCENDENTALS:
            return False
        if broadcasts(node) or any(value.node in gathered for value in node.operands):
            gathered.add(node)
    return len(gathered) == len(before)


def keeps_chunks(node: Node) -> bool:
    """Tell whether a call puts whole chunks of channels (the innermost axis) in other places."""
    rank = len(node.outputs[0].shape)
    return node.op in _MOVEMENTS and int(node.attrs["axis"]) % rank != rank - 1


def is_channel_pool(node: Node) -> bool:
    """Tell whether a call is a pool whose channels are an outer axis."""
    return node.op in _CHANNEL_POOLS and node.attrs["layout"] == _CHANNEL_POOLS[node.op]


def moves_by_one(pool: Node) -> bool:
    """Tell whether a pool's windows lie one element apart: together they cover its operand."""
    return all(int(step) == 1 for step in pool.attrs["strides"])


def _joins_channels(node: Node) -> bool:
    rank = len(node.outputs[0].shape)
    return node.op == "concatenate" and int(node.attrs["axis"]) % rank < _OUTER_AXES
