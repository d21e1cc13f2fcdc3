"""NCHWc tensors in a graph: how channels are cut, and the ways into and out of the layout.

A tensor ``[N, C, H, W]`` is blocked by ``c`` as ``[N, C / c, H, W, c]``: the ``c`` channels of a
chunk lie side by side, so that one vector holds them. A blocked tensor has no channels but its own.
A sequence ``[N, C, W]`` is an image of one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Value

# Axes of an unblocked image tensor: batch, channel, row, column.
IMAGE_AXES = 4
# Axes of a sequence: batch, channel, place.
SEQUENCE_AXES = 3
CHANNEL_AXIS = 1

UNBLOCKED = "NCHW"

# Chunks wider than a vector are only worth it when LLVM can cut them into whole half vectors.
WIDE_CHUNK_STEP = 4
# Lanes of the widest vector that chunks are made for, in vectors of the CPU.
WIDEST_CHUNK = 2
# Below this share of busy lanes any wider chunk is better.
POOR_UTILISATION = 0.5
# Wider vectors than AVX's are filled where they divide the channels; a part of one is no faster.
USUAL_VECTOR = 8
# Chunks of so many channels and more share a vector where their width divides it.
NARROWEST_JOINED = 4
# So many times more lanes have to be busy than in chunks that divide the channels, for channels of
# zeros to pay: the last vector may be stored element by element.
GAIN_TO_FILL = 1.1


def block_for(channels: int, vector: int) -> int:
    """Return the channels of a chunk for a tensor of `channels` channels.

    Parameters
    ----------
    channels
        Channels of the tensor.
    vector
        float32 lanes of the vectors to fill.

    Returns
    -------
    int
        A divisor of `channels`, at most twice `vector`: `vector` itself where it divides, otherwise
        the divisor that leaves the fewest lanes of a vector of at most 8 idle.
    """
    if channels % vector == 0:
        return vector
    vector = min(vector, USUAL_VECTOR)
    if channels % vector == 0:
        return vector
    divisors = [each for each in range(1, WIDEST_CHUNK * vector + 1) if channels % each == 0]
    usual = [each for each in divisors if each <= vector or each % WIDE_CHUNK_STEP == 0]
    best = max(usual, key=lambda each: (utilisation(each, vector), each))
    if utilisation(best, vector) < POOR_UTILISATION:
        best = max(divisors, key=lambda each: (utilisation(each, vector), each))
    return best


def channels_to_add(channels: int, vector: int) -> int:
    """Return the channels of zeros after which vectors are filled, or 0 where they do not pay.

    They are computed and thrown away.
    """
    missing = -channels % vector
    filled = channels / (channels + missing)
    block = block_for(channels, vector)
    is_joined = block >= NARROWEST_JOINED and vector % block == 0
    busy = filled if is_joined else utilisation(block, vector)
    return missing if filled > GAIN_TO_FILL * busy else 0


def utilisation(block: int, vector: int) -> float:
    """Return the share of vector lanes that a chunk of `block` channels keeps busy."""
    return block / (-(-block // vector) * vector)


def blocked_layout(block: int) -> str:
    """Return TVM's name of the NCHWc layout with chunks of `block` channels."""
    return f"{UNBLOCKED}{block}c"


def blocked_shape(shape: tuple[int, ...], block: int) -> tuple[int, ...]:
    """Return the NCHWc shape of an image shape."""
    batch, channels, rows, columns = shape
    return (batch, channels // block, rows, columns, block)


def image_shape(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape ``[N, C, H, W]`` of an image or a sequence; None of anything else."""
    if len(shape) == SEQUENCE_AXES:
        batch, channels, columns = shape
        return (batch, channels, 1, columns)
    return shape if len(shape) == IMAGE_AXES else None


@dataclass(frozen=True)
class Blocked:
    """A value of the graph in NCHWc layout."""

    value: Value
    """The tensor ``[N, C / c, H, W, c]``."""

    shape: tuple[int, ...]
    """The shape ``[N, C, H, W]`` that it stands for."""

    @property
    def block(self) -> int:
        """Channels of a chunk."""
        return self.value.shape[-1]

    @property
    def channels(self) -> int:
        """Channels of the tensor."""
        return self.shape[CHANNEL_AXIS]


def is_same_memory(shape: tuple[int, ...], block: int) -> bool:
    """Tell whether an image and its blocked form list their elements in one order."""
    _, channels, rows, columns = shape
    return block == 1 or rows * columns == 1 or channels == 1


def enter(graph: Graph, value: Value, block: int) -> Blocked:
    """Return an image tensor blocked by `block`; a reshape where no element moves."""
    shape = blocked_shape(value.shape, block)
    if value.is_constant:
        return Blocked(graph.constant(pack_channels(value.array, block)), value.shape)
    if is_same_memory(value.shape, block):
        return Blocked(reshape(graph, value, shape), value.shape)
    attrs = {"src_layout": UNBLOCKED, "dst_layout": blocked_layout(block)}
    return Blocked(graph.call("layout_transform", [value], attrs), value.shape)


def leave(graph: Graph, blocked: Blocked, shape: tuple[int, ...]) -> Value:
    """Return a blocked tensor's elements in order, as `shape`; a reshape where none moves."""
    if is_same_memory(blocked.shape, blocked.block):
        return reshape(graph, blocked.value, shape)
    attrs = {"src_layout": blocked_layout(blocked.block), "dst_layout": UNBLOCKED}
    return reshape(graph, graph.call("layout_transform", [blocked.value], attrs), shape)


def rechunk(graph: Graph, blocked: Blocked, block: int) -> Blocked | None:
    """Return a blocked tensor in chunks of `block`, or None where neither width divides the other.

    A reshape, a transposition and a reshape, which fuse with what is before them.
    """
    batch, channels, rows, columns = blocked.shape
    narrow, wide = sorted((block, blocked.block))
    if narrow == wide:
        return blocked
    if wide % narrow or channels % wide:
        return None
    parts = wide // narrow
    if block == narrow:
        cut, axes = (batch, channels // wide, rows, columns, parts, narrow), (0, 1, 4, 2, 3, 5)
    else:
        cut, axes = (batch, channels // wide, parts, rows, columns, narrow), (0, 1, 3, 4, 2, 5)
    moved = graph.call("transpose", [reshape(graph, blocked.value, cut)], {"axes": axes})
    shape = blocked_shape(blocked.shape, block)
    return Blocked(reshape(graph, moved, shape), blocked.shape)


def reshape(graph: Graph, value: Value, shape: tuple[int, ...]) -> Value:
    """Return `value` with another shape of as many elements."""
    if value.shape == shape:
        return value
    return graph.call("reshape", [value], {"newshape": shape, "allowzero": False})


def pack_channels(array: np.ndarray, block: int) -> np.ndarray:
    """Return an image array ``[n, C, h, w]`` as ``[n, C / block, h, w, block]``."""
    batch, channels, rows, columns = array.shape
    cut = array.reshape(batch, channels // block, block, rows, columns)
    return np.ascontiguousarray(cut.transpose(0, 1, 3, 4, 2))


Convert = Callable[[Value], Blocked | None]
"""Gives the blocked form of a value when the graph has one."""
