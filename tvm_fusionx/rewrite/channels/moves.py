"""Channels through operators that move, join, pick, pool or reduce."""

from __future__ import annotations

import math

import numpy as np

from tvm_fusionx.ecg.construct import transpose_axes
from tvm_fusionx.ecg.graph import Attributes, Node, Value
from tvm_fusionx.ecg.numpy_operators import reduced_axes
from tvm_fusionx.rewrite.channels.flow import Axes, Flow, Marks, Tie, count, never, whole

RESHAPES = frozenset(["expand_dims", "nn.batch_flatten", "reshape", "squeeze"])
REDUCTIONS = frozenset(["max", "mean", "min", "prod", "sum"])
# They leave channels apart, and know by a layout where those lie.
WITH_LAYOUT = frozenset(
    [
        "image.resize1d",
        "image.resize2d",
        "image.resize3d",
        "nn.upsampling",
        "nn.upsampling3d",
        *(f"nn.{kind}_pool{rank}d" for kind in ("avg", "max") for rank in (1, 2, 3)),
        *(f"nn.adaptive_{kind}_pool{rank}d" for kind in ("avg", "max") for rank in (1, 2, 3)),
        *(f"nn.global_{kind}_pool2d" for kind in ("avg", "max")),
    ]
)


def follow_layout(node: Node, axes: Axes) -> Flow | str:
    """Follow channels through a pool or the sampling of an image."""
    data, result = node.operands[0], node[0]
    layout = str(node.attrs["layout"])
    if len(node.operands) != 1 or layout != str(node.attrs.get("out_layout") or layout):
        return "another layout, or several operands"
    if not layout.isalpha() or layout.index("C") != axes[data]:
        return f"channels that are not those of layout {layout}"
    moved = {result: axes[data]}
    keeps = _keeps_zero(node)
    ties = (whole(data, result, data.shape[axes[data]]),)
    return Flow(moved, ties, zeros=None if keeps else never(moved))


def _keeps_zero(node: Node) -> bool:
    """Tell whether zeros stay zeros: not where a window may lie outside of the image."""
    if node.attrs.get("extrapolation_value"):
        return False
    if "max_pool" not in node.op or "pool_size" not in node.attrs:
        return True
    is_inside = max(node.attrs["padding"]) < min(node.attrs["pool_size"])
    return is_inside and not node.attrs["ceil_mode"]


def follow_reduction(node: Node, axes: Axes) -> Flow | str:
    """Follow channels through a reduction along other axes."""
    data, result = node.operands[0], node[0]
    axis, reduced = axes[data], reduced_axes(node)
    if axis in reduced or not result.type.is_float:
        return "it reduces the channels"
    before = 0 if node.attrs["keepdims"] else sum(each < axis for each in reduced)
    return Flow({result: axis - before}, (whole(data, result, data.shape[axis]),))


def follow_transpose(node: Node, axes: Axes) -> Flow | str:
    """Follow channels to another axis."""
    data, result = node.operands[0], node[0]
    axis = axes[data]
    ties = (whole(data, result, data.shape[axis]),)
    return Flow({result: transpose_axes(node).index(axis)}, ties)


def follow_reshape(node: Node, axes: Axes) -> Flow | str:
    """Follow channels into a shape that keeps them apart, or puts all of an image into one row."""
    data, result = node.operands[0], node[0]
    axis = axes[data]
    channels, before = data.shape[axis], math.prod(data.shape[:axis])
    for place, extent in enumerate(result.shape):
        # Behind them may lie an image, some axes of which join the channels: all or none are cut.
        if extent % channels == 0 and math.prod(result.shape[:place]) == before:
            break
    else:
        return "channels that it takes apart, or joins with what lies before them"
    each = extent // channels
    tie = Tie(data, result, np.repeat(np.arange(channels), each), np.arange(extent))

    def attributes(stays: Marks) -> Attributes:
        if node.op != "reshape":
            return node.attrs
        shape = list(result.shape)
        shape[place] = count(stays, result, place)
        return node.attrs.replace(newshape=tuple(shape))

    return Flow({result: place}, (tie,), attributes=attributes)


def follow_pad(node: Node, axes: Axes) -> Flow | str:
    """Follow channels through a pad of other axes."""
    data, result = node.operands[0], node[0]
    axis = axes[data]
    if any(int(each) for each in node.attrs["pad_width"][axis]):
        return "it pads the channels"
    moved = {result: axis}
    filling = node.operands[1] if len(node.operands) > 1 else None
    is_zero = filling is None or (filling.is_constant and not filling.array.any())
    keeps = is_zero or node.attrs.get("pad_mode", "constant") != "constant"
    ties = (whole(data, result, data.shape[axis]),)
    return Flow(moved, ties, zeros=None if keeps else never(moved))


def follow_concatenation(node: Node, axes: Axes) -> Flow | str:
    """Follow channels side by side, or of values joined along another axis."""
    result = node[0]
    found = {axes[value] for value in node.operands if value in axes}
    joined = int(node.attrs["axis"]) % len(result.shape)
    if len(found) != 1:
        return "its operands have channels along different axes"
    (axis,) = found
    if joined != axis:
        if any(value not in axes for value in node.operands):
            return "an operand has no channels that can be followed"
        ties = [whole(value, result, result.shape[axis]) for value in dict.fromkeys(node.operands)]
        # Joined values are zero where each of them is.
        return Flow({result: axis}, tuple(ties), zeros=lambda known: _all_zero(node, known))
    ties, start = [], 0
    for value in node.operands:
        places = np.arange(value.shape[axis])
        if value in axes:
            ties.append(Tie(value, result, places, places + start))
        start += len(places)
    return Flow({result: axis}, tuple(ties))


def _all_zero(node: Node, known: Marks) -> dict[Value, np.ndarray]:
    return {node[0]: np.logical_and.reduce([known[value] for value in node.operands])}


def follow_slice(node: Node, axes: Axes) -> Flow | str:
    """Follow the channels that a slice takes."""
    data, result = node.operands[0], node[0]
    axis, begins, ends = axes[data], node.attrs["begin"], node.attrs["end"]
    channels = data.shape[axis]
    named = node.attrs.get("axes") or range(len(begins))
    places = [place for place, each in enumerate(named) if int(each) % len(data.shape) == axis]
    if not places:
        return Flow({result: axis}, (whole(data, result, channels),))
    place, strides = places[0], node.attrs.get("strides") or (1,)
    step = int(strides[place % len(strides)])
    if step != 1 or node.attrs["slice_mode"] != "end":
        return "a slice of channels in steps, or that is told by its size"
    start, stop, _ = slice(int(begins[place]), int(ends[place])).indices(channels)
    here = np.arange(start, stop)

    def attributes(stays: Marks) -> Attributes:
        mask = stays.get(data, np.ones(channels, bool))
        first = int(mask[:start].sum())
        last = first + int(mask[start:stop].sum())
        changed = [*begins[:place], first, *begins[place + 1 :]]
        until = [*ends[:place], last, *ends[place + 1 :]]
        return node.attrs.replace(begin=tuple(changed), end=tuple(until))

    return Flow({result: axis}, (Tie(data, result, here, here - start),), attributes=attributes)


def follow_split(node: Node, axes: Axes) -> Flow | str:
    """Follow channels into the parts of a split."""
    data, axis = node.operands[0], axes[node.operands[0]]
    moved = dict.fromkeys(node, axis)
    if int(node.attrs["axis"]) % len(data.shape) != axis:
        return Flow(moved, tuple(whole(data, part, data.shape[axis]) for part in node))
    ties, start = [], 0
    for part in node:
        places = np.arange(part.shape[axis])
        ties.append(Tie(data, part, places + start, places))
        start += len(places)

    def attributes(stays: Marks) -> Attributes:
        ends = np.cumsum([count(stays, part, axis) for part in node])
        return node.attrs.replace(indices_or_sections=tuple(int(end) for end in ends[:-1]))

    return Flow(moved, tuple(ties), attributes=attributes)
