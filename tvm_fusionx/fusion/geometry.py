"""The loop nests of Many-to-Many operators: what is reduced, and over which rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.operators import (
    AXIS_NORMALIZATIONS,
    AXIS_REDUCTIONS,
    CONTRACTIONS,
    MOVEMENTS,
    REORGANIZE,
)

# Contractions whose result is a matrix of rows, the last axis being a row.
MATRIX_PRODUCTS = frozenset(
    [
        *("fusionx.batched_integers", "nn.batch_matmul", "nn.contrib_dense_pack"),
        *("nn.dense", "nn.matmul"),
    ]
)

# Axes of an image tensor: batch, channel, row, column.
IMAGE_AXES = 4
CHANNEL_AXIS = 1


@dataclass(frozen=True)
class Rows:
    """Independent rows of contiguous elements.

    Parameters
    ----------
    count
        Number of rows; the parallel extent.
    length
        Elements a row.
    """

    count: int
    length: int


def is_contraction(node: Node) -> bool:
    """Tell whether the call is a matrix product or a convolution."""
    return node.op in CONTRACTIONS


def is_movement(node: Node) -> bool:
    """Tell whether the call only moves or repeats data."""
    return node.op in MOVEMENTS


def reduced_axes(node: Node) -> tuple[int, ...]:
    """Return the axes of operand 0 that a reduction or normalisation runs over, ascending."""
    rank = len(node.operands[0].shape)
    axis = node.attrs.get("axis")
    if axis is None or axis == ():
        return tuple(range(rank))
    axes = axis if isinstance(axis, tuple) else (axis,)
    named = {int(item) % rank for item in axes}
    if node.attrs.get("exclude"):
        named = set(range(rank)) - named
    return tuple(sorted(named))


def reduces_each_element_once(node: Node) -> bool:
    """Tell whether a reduction reads every input element a bounded number of times."""
    return node.op in AXIS_REDUCTIONS or node.op in AXIS_NORMALIZATIONS


def row_reduction(node: Node) -> Rows | None:
    """Return the rows that a reduction runs over, or None if it is not over the innermost axes."""
    if not reduces_each_element_once(node) or not node.operands[0].shape:
        return None
    shape = node.operands[0].shape
    axes = reduced_axes(node)
    rank = len(shape)
    # Axes of one element do not count: reducing them changes nothing.
    outer = [axis for axis in range(rank) if axis not in axes and shape[axis] > 1]
    inner = [axis for axis in axes if shape[axis] > 1]
    if outer and inner and max(outer) > min(inner):
        return None
    return Rows(math.prod(shape[axis] for axis in outer), math.prod(shape[axis] for axis in inner))


def keeps_rows(node: Node, rows: Rows) -> bool:
    """Tell whether every operand and result of a call is a whole number of whole rows.

    True also for one value a row, and for tensors without data of their own in a row.
    """
    if node.op == "transpose":
        return _transpose_keeps(node, rows)
    if is_movement(node) and node.op not in REORGANIZE:
        return False
    # A reshape must keep the rows of what it reads as well.
    shapes = [node.outputs[0].shape]
    if is_movement(node):
        shapes.append(node.operands[0].shape)
    return all(_has_rows(shape, rows) for shape in shapes)


def cuts_columns(node: Node) -> bool:
    """Tell whether a call keeps the first columns of a matrix, and all its rows.

    That is what follows a product whose columns were padded to whole panels.
    """
    return _keeps_first(node, -1)


def cuts_channels(node: Node) -> bool:
    """Tell whether a call keeps the first channels of an image, and all its pixels.

    That is what follows a convolution whose channels were padded to whole vectors.
    """
    return len(node.outputs[0].shape) == IMAGE_AXES and _keeps_first(node, CHANNEL_AXIS)


def _keeps_first(node: Node, axis: int) -> bool:
    """Tell whether a call keeps the first elements along `axis`, and all along the others."""
    if node.op != "strided_slice" or node.attrs.get("slice_mode", "end") != "end":
        return False
    whole, part = list(node.operands[0].shape), list(node.outputs[0].shape)
    begin, strides = node.attrs.get("begin") or (), node.attrs.get("strides") or ()
    whole[axis] = part[axis]
    return (
        whole == part
        and all(int(start) == 0 for start in begin)
        and all(int(step) == 1 for step in strides)
    )


def _has_rows(shape: tuple[int, ...], rows: Rows) -> bool:
    elements = math.prod(shape)
    if elements == rows.count:
        return True
    if elements != rows.count * rows.length:
        return False
    suffix = 1
    for extent in reversed(shape):
        if suffix == rows.length:
            return True
        suffix *= extent
    return suffix == rows.length


def _transpose_keeps(node: Node, rows: Rows) -> bool:
    shape = node.operands[0].shape
    rank = len(shape)
    axes = node.attrs.get("axes") or tuple(reversed(range(rank)))
    suffix = 1
    for position in reversed(range(rank)):
        if suffix == rows.length:
            return True
        if int(axes[position]) % rank != position:
            return False
        suffix *= shape[position]
    return suffix == rows.length
