"""What a convolution or a pool computes while it gathers its input: gates, pieces put together.

The convolution's kernel gathers its input once for each task. A few operations on each element cost
less there than a pass over memory would, and where the elements are taken from costs nothing. So a
tensor that another one scales, as squeeze-and-excite does, is scaled there, and tensors that are
concatenated or enlarged by repetition are put together there. Other elementwise work belongs to the
kernel that produces the tensor, where it is free.

A pool over unblocked channels computes one channel at a time, and puts pieces together for it. One
whose windows lie side by side reads every element once: what is computed of slices goes into it.

Minimal filtering transforms its input on the way into the cache. Where images of one tensor are
padded, sliced and put beside one another before it, it reads the one tensor, by index; so does a
sparse convolution.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.fusion.classify import broadcasts, is_elementwise
from tvm_fusionx.fusion.partition import Partition
from tvm_fusionx.fusion.pools import POOLS, WINOGRAD
from tvm_fusionx.operators import REORGANIZE, TRANSCENDENTALS

# Convolutions whose template gathers its input.
SPARSE = frozenset(["fusionx.sparse_conv2d_NCHWc", "fusionx.sparse_filters_NCHWc"])
GATHERING = SPARSE | {"nn.contrib_conv2d_NCHWc"}

# Pools, which read their own channel only, and the layouts in which channels are an outer axis.
_CHANNEL_POOLS = {"nn.max_pool1d": "NCW", "nn.max_pool2d": "NCHW", "nn.max_pool3d": "NCDHW"}
_OUTER_AXES = 2

# A gate and the hard-swish after it are five.
MOST_OPERATORS = 5

# Movements that keep the channels of a chunk together: one vector is one vector.
_MOVEMENTS = frozenset(["concatenate", "repeat"])

# Axes of a blocked image [N, C / c, H, W, c], and how many there are.
_IMAGES = 0
_CHUNKS = 1
_BLOCKED_RANK = 5


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
    if (window.op == WINOGRAD or window.op in SPARSE) and before:
        if all(map(_moves_images, before)) and len(_read_outside(before)) == 1:
            return True
        if window.op == WINOGRAD:
            return False
    if window.op not in GATHERING and not _reads_once(window):
        return False
    if not before or len(before) > MOST_OPERATORS:
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
    if node.op in _MOVEMENTS:
        return int(node.attrs["axis"]) % rank != rank - 1
    return _is_put_in_place(node)


def window_that_gathers(partition: Partition, source: Node, reader: Node) -> Node | None:
    """Return the window that gathers what `reader` and others make of a tensor, or None.

    Parameters
    ----------
    source
        The call that computes the tensor.
    reader
        A call that reads it.
    """
    if not _is_put_in_place(reader):
        return None
    pending = [user for user in partition.users(source) if _is_put_in_place(user)]
    moved, windows = set(pending), set()
    while pending and len(moved) <= MOST_OPERATORS:
        for user in partition.users(pending.pop()):
            if user.op in GATHERING or user.op == WINOGRAD or _reads_once(user):
                windows.add(user)
            elif user not in moved:
                moved.add(user)
                pending.append(user)
    before = sorted(moved, key=partition.index.__getitem__)
    if len(windows) != 1 or {value.node for value in _read_outside(before)} != {source}:
        return None
    (window,) = windows
    return window if are_gathered(before, window) else None


def is_channel_pool(node: Node) -> bool:
    """Tell whether a call is a pool whose channels are an outer axis."""
    return node.op in _CHANNEL_POOLS and node.attrs["layout"] == _CHANNEL_POOLS[node.op]


def moves_by_one(pool: Node) -> bool:
    """Tell whether a pool's windows lie one element apart: together they cover its operand."""
    return all(int(step) == 1 for step in pool.attrs["strides"])


def _moves_images(node: Node) -> bool:
    """Tell whether a call pads or slices a batch of blocked images, or puts chunks together."""
    shape = node.outputs[0].shape
    if len(shape) != _BLOCKED_RANK:
        return False
    if node.op == "concatenate":
        return int(node.attrs["axis"]) % _BLOCKED_RANK in (_IMAGES, _CHUNKS)
    if node.op == "nn.pad":
        is_zero = node.operands[1].is_constant and not node.operands[1].array.any()
        return is_zero and not any(any(widths) for widths in node.attrs["pad_width"][_CHUNKS:])
    if node.op == "strided_slice" and len(node.operands) == 1:
        axes = node.attrs["axes"] or tuple(range(len(node.attrs["begin"])))
        return all(
            int(axis) % _BLOCKED_RANK == _IMAGES or shape[axis] == node.operands[0].shape[axis]
            for axis in axes
        )
    return False


def _is_put_in_place(node: Node) -> bool:
    return _moves_images(node) or _pads_pixels(node)


def _pads_pixels(node: Node) -> bool:
    """Tell whether a call puts a number other than zero around blocked images.

    It is what stands for zero among integers; zeros are the window's own padding.
    """
    if node.op != "nn.pad" or len(node.outputs[0].shape) != _BLOCKED_RANK:
        return False
    value, widths = node.operands[1], node.attrs["pad_width"]
    is_other = value.is_constant and bool(value.array.any())
    return is_other and not any(widths[_CHUNKS]) and not any(widths[-1])


def _reads_once(window: Node) -> bool:
    """Tell whether a call is a pool of blocked channels whose windows lie side by side."""
    return (
        window.op in POOLS
        and len(window.operands[0].shape) == _BLOCKED_RANK
        and tuple(window.attrs["strides"]) == tuple(window.attrs["pool_size"])
        and all(int(step) == 1 for step in window.attrs["dilation"])
    )


def _read_outside(nodes: Sequence[Node]) -> set[Value]:
    """Return the values that are not constant and come from elsewhere."""
    own = set(nodes)
    return {
        value
        for node in nodes
        for value in node.operands
        if value.node not in own and not value.is_constant
    }


def _joins_channels(node: Node) -> bool:
    rank = len(node.outputs[0].shape)
    return node.op == "concatenate" and int(node.attrs["axis"]) % rank < _OUTER_AXES
