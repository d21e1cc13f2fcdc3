"""Carry the NCHWc layout through pooling, resizing, padding, slices, pieces and reductions."""

from __future__ import annotations

from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.layout.blocked_elementwise import all_blocked
from tvm_fusionx.layout.blocked_tensor import (
    CHANNEL_AXIS,
    IMAGE_AXES,
    UNBLOCKED,
    WIDEST_CHUNK,
    Blocked,
    Convert,
    blocked_layout,
    rechunk,
)

# Operators that take an NCHWc layout as an attribute and keep channels apart.
LAYOUT_OPERATORS = frozenset(
    {
        "image.resize2d",
        "nn.adaptive_avg_pool2d",
        "nn.adaptive_max_pool2d",
        "nn.avg_pool2d",
        "nn.global_avg_pool2d",
        "nn.global_max_pool2d",
        "nn.max_pool2d",
        "nn.upsampling",
    }
)

REDUCTIONS = frozenset({"max", "mean", "min", "prod", "sum"})
SPATIAL_AXES = frozenset({2, 3})

PAD = "nn.pad"
CONCATENATE = "concatenate"
REPEAT = "repeat"
SLICE = "strided_slice"


def block_layout_operator(graph: Graph, node: Node, blocked: Convert) -> Blocked | None:
    """Return a pooling or resizing in NCHWc."""
    form = blocked(node.operands[0])
    attrs = node.attrs
    if form is None or attrs["layout"] != UNBLOCKED or len(node.outputs) != 1:
        return None
    changes = {"layout": blocked_layout(form.block)}
    value = graph.call(
        node.op, [form.value, *node.operands[1:]], attrs.replace(**changes), name=node.name
    )
    return Blocked(value, node.outputs[0].shape)


def block_reduction(graph: Graph, node: Node, blocked: Convert) -> Blocked | None:
    """Return a reduction over rows and columns in NCHWc; rows and columns stay as extents of 1."""
    form = blocked(node.operands[0])
    if form is None or not is_over_images(node):
        return None
    attrs = node.attrs.replace(axis=tuple(sorted(SPATIAL_AXES)), keepdims=True)
    value = graph.call(node.op, [form.value], attrs, name=node.name)
    return Blocked(value, (*form.shape[: CHANNEL_AXIS + 1], 1, 1))


def is_over_images(node: Node) -> bool:
    """Tell whether a reduction of images takes their rows and columns, and nothing else."""
    axis = node.attrs["axis"]
    if axis is None or node.attrs["exclude"]:
        return False
    axes = {int(each) % IMAGE_AXES for each in (axis if isinstance(axis, tuple) else (axis,))}
    return axes == SPATIAL_AXES


def block_pad(graph: Graph, node: Node, blocked: Convert) -> Blocked | None:
    """Return a padding of images, rows and columns in NCHWc."""
    form = blocked(node.operands[0])
    widths = node.attrs["pad_width"]
    if form is None or any(widths[CHANNEL_AXIS]):
        return None
    attrs = node.attrs.replace(pad_width=(*widths, (0, 0)))
    value = graph.call(PAD, [form.value, *node.operands[1:]], attrs, name=node.name)
    return Blocked(value, node.outputs[0].shape)


def block_slice(graph: Graph, node: Node, blocked: Convert) -> Blocked | None:
    """Return a slice of images, rows and columns in NCHWc, when it keeps all channels."""
    form = blocked(node.operands[0])
    attrs = node.attrs
    if form is None or len(node.operands) > 1 or attrs["slice_mode"] != "end":
        return None
    begins, ends = attrs["begin"], attrs["end"]
    axes = attrs["axes"] or tuple(range(len(begins)))
    steps = attrs["strides"] or (1,)
    steps = steps * len(axes) if len(steps) == 1 else steps
    shape = node.outputs[0].shape
    cuts = {
        int(axis) % IMAGE_AXES: cut
        for axis, *cut in zip(axes, begins, ends, steps, strict=True)
        if shape[int(axis)] != form.shape[int(axis)] or int(cut[-1]) < 0
    }
    if CHANNEL_AXIS in cuts:
        return None
    begins, ends, steps = zip(*cuts.values(), strict=True) if cuts else ((), (), ())
    attrs = attrs.replace(begin=begins, end=ends, strides=steps, axes=tuple(cuts))
    value = graph.call(SLICE, [form.value], attrs, name=node.name)
    return Blocked(value, shape)


def block_repeat(graph: Graph, node: Node, blocked: Convert) -> Blocked | None:
    """Return a repetition of rows or of columns in NCHWc."""
    form = blocked(node.operands[0])
    axis = int(node.attrs["axis"]) % IMAGE_AXES
    if form is None or axis not in SPATIAL_AXES:
        return None
    value = graph.call(REPEAT, [form.value], node.attrs.replace(axis=axis), name=node.name)
    return Blocked(value, node.outputs[0].shape)


def block_concatenate(graph: Graph, node: Node, blocked: Convert) -> Blocked | None:
    """Return a concatenation in NCHWc, when the narrowest chunks can be those of every operand."""
    forms = all_blocked(node.operands, blocked)
    if forms is None:
        return None
    narrowest = min(form.block for form in forms)
    if any(form.block not in (narrowest, WIDEST_CHUNK * narrowest) for form in forms):
        return None
    forms = [rechunk(graph, form, narrowest) or form for form in forms]
    attrs = node.attrs.replace(axis=int(node.attrs["axis"]) % IMAGE_AXES)
    value = graph.call(
        CONCATENATE,
        [form.value for form in forms],
        attrs,
        grouping=node.grouping,
        name=node.name,
    )
    return Blocked(value, node.outputs[0].shape)
