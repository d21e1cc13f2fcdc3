"""Convolutions in the form that layouts and templates know: over two axes, padded by themselves."""

from __future__ import annotations

import math

from tvm_fusionx.ecg.construct import reshape, transpose
from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.rewrite.matching import is_filled_with
from tvm_fusionx.rewrite.rule import Refused, Replacement, constant, graph_rule
from tvm_fusionx.rewrite.term import call, op


@graph_rule(
    roots=("nn.conv1d",),
    example=lambda x, w: op.nn.conv1d(x, w),
    attributes={"nn.conv1d": {"padding": [1, 2], "strides": [2], "dilation": [2]}},
    x=(1, 2, 7),
    w=constant(4, 2, 3),
)
def sequence_convolution_as_picture(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """conv1d(x, W) -> conv2d(x, W) of a picture of one row: reshapes move nothing."""
    data, weight = node.operands
    given = node.attrs
    layouts = (given["data_layout"], given["kernel_layout"], given["out_layout"] or "NCW")
    if layouts != ("NCW", "OIW", "NCW"):
        return Refused("its channels are not the second axis")
    pads = [int(each) for each in given["padding"]]
    attrs = default_attributes(
        "nn.conv2d",
        strides=[1, int(given["strides"][0])],
        padding=[0, pads[0], 0, pads[-1]],
        dilation=[1, int(given["dilation"][0])],
        groups=given["groups"],
        channels=weight.shape[0],
        kernel_size=[1, weight.shape[2]],
        out_dtype=given["out_dtype"],
    )
    rows = [
        reshape(graph, value, (*value.shape[:2], 1, value.shape[2]), node.name)
        for value in (data, weight)
    ]
    out = graph.call("nn.conv2d", rows, attrs, name=node.name)
    return [(node[0], reshape(graph, out, node.outputs[0].shape, node.name))]


def _padding_of(data: Value) -> Node | None:
    """Return the padding that a picture is; or that a sequence is, of which it is the one row."""
    if data.op == "reshape":
        sequence = data.node.operands[0]
        if data.shape != (*sequence.shape[:2], 1, *sequence.shape[2:]):
            return None
        data = sequence
    return data.node if data.op == "nn.pad" else None


@graph_rule(
    roots=("nn.conv2d",),
    example=lambda x, w, y, v: (
        op.nn.conv2d(op.nn.pad(x, 0.0), w),
        op.nn.conv2d(op.reshape(call("nn.pad", y, 0.0, tag="sequence")), v),
    ),
    attributes={
        "nn.conv2d": {"padding": [0, 1, 0, 0], "dilation": [1, 2]},
        "nn.pad": {"pad_width": [[0, 0], [0, 0], [1, 0], [0, 2]]},
        "sequence": {"pad_width": [[0, 0], [0, 0], [3, 0]]},
        "reshape": {"newshape": [0, 0, 1, -1]},
    },
    x=(1, 2, 4, 5),
    w=constant(3, 2, 3, 3),
    y=(1, 2, 6),
    v=constant(3, 2, 1, 3),
)
def padding_by_convolution(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """conv(pad(x, 0), W) -> conv(x, W) that pads itself: also through a sequence's one row."""
    data, weight = node.operands
    padding = _padding_of(data)
    if padding is None or node.attrs["data_layout"] != "NCHW":
        return None
    if padding.attrs["pad_mode"] != "constant" or not is_filled_with(padding.operands[1], 0):
        return Refused("it is not padded with zeros")
    batch, channels, *widths = (
        tuple(int(item) for item in each) for each in padding.attrs["pad_width"]
    )
    if any(batch + channels):
        return Refused("batches or channels are padded")
    # A sequence is one row.
    rows, columns = ((0, 0), *widths)[-2:]
    top, left, bottom, right = (int(each) for each in node.attrs["padding"])
    added = (top + rows[0], left + columns[0], bottom + rows[1], right + columns[1])
    source = padding.operands[0]
    extents = source.shape if len(source.shape) > 3 else (*source.shape[:2], 1, source.shape[2])
    picture = reshape(graph, source, extents, node.name)
    out = graph.call(node.op, [picture, weight], node.attrs.replace(padding=added), name=node.name)
    return [(node[0], out)]


@graph_rule(
    roots=("nn.conv3d_transpose",),
    example=lambda x, w: op.nn.conv3d_transpose(x, w),
    attributes={"nn.conv3d_transpose": {"strides": [2, 3, 3], "kernel_size": [2, 3, 3]}},
    x=(1, 4, 2, 5, 6),
    w=constant(4, 7, 2, 3, 3),
)
def volumes_side_by_side(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """conv3d_transpose(x, W) -> conv2d(x, W) of pixels, each put in place as a window of its own.

    Where windows lie side by side, a number of the result is a product of one place only.
    """
    data, weight = node.operands
    attrs = node.attrs
    if (attrs["data_layout"], attrs["kernel_layout"]) != ("NCDHW", "IODHW"):
        return Refused("its channels are not the second axis")
    if int(attrs["groups"]) != 1:
        return Refused("its channels are in groups")
    window = weight.shape[2:]
    if tuple(int(each) for each in attrs["strides"]) != window:
        return Refused("its windows do not lie side by side")
    batch, channels, *sizes = data.shape
    outputs = weight.shape[1]
    whole = tuple(size * extent for size, extent in zip(sizes, window, strict=True))
    if node.outputs[0].shape[2:] != whole:
        return Refused("it is padded or dilated")
    rows = reshape(graph, data, (batch, channels, sizes[0] * sizes[1], sizes[2]), node.name)
    count = outputs * math.prod(window)
    turned = transpose(graph, weight, (1, 2, 3, 4, 0), node.name)
    weights = reshape(graph, turned, (count, channels, 1, 1), node.name)
    pointwise = default_attributes(
        "nn.conv2d",
        padding=[0, 0, 0, 0],
        channels=count,
        kernel_size=[1, 1],
        out_dtype=attrs["out_dtype"],
    )
    out = graph.call("nn.conv2d", [rows, weights], pointwise, name=node.name)
    apart = reshape(graph, out, (batch, outputs, *window, *sizes), node.name)
    placed = transpose(graph, apart, (0, 1, 5, 2, 6, 3, 7, 4), node.name)
    return [(node[0], reshape(graph, placed, node.outputs[0].shape, node.name))]


RULES = (sequence_convolution_as_picture, padding_by_convolution, volumes_side_by_side)
