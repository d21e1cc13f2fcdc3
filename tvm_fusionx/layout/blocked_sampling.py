"""Sample images in NCHWc at computed places: an operator of our own, and its way into a graph.

TVM samples images in NCHW alone, number by number: neighbouring channels of a place lie a plane
apart. In chunks they are a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relay, te, topi
from tvm.relay.op.op import OpPattern

from tvm_fusionx._tvm.registry import register_operator
from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.expressions.bicubic import sample_bicubic
from tvm_fusionx.layout.blocked_tensor import UNBLOCKED, Blocked, Convert

SAMPLE = "image.grid_sample"
SAMPLE_BLOCKED = "fusionx.grid_sample_NCHWc"


def register_sampling() -> None:
    """Make the operator known to Relay; idempotent.

    Of an image ``[N, C / c, H, W, c]`` and a grid ``[N, 2, OH, OW]`` of columns and rows, -1 to 1,
    it makes ``[N, C / c, OH, OW, c]``. Attributes and numbers are those of ``image.grid_sample`` on
    images in NCHW.
    """
    register_operator(
        SAMPLE_BLOCKED,
        {"data": "The image, in chunks of channels.", "grid": "The places."},
        _compute,
        pattern=OpPattern.INJECTIVE,
        type_relation=_type,
        attributes="relay.attrs.GridSampleAttrs",
    )


def _type(operands: Sequence[Any], attrs: Any) -> Any:
    """Return the result's type; None while an operand's is unknown."""
    if not all(isinstance(each, relay.TensorType) for each in operands):
        return None
    data, grid = operands
    batch, chunks, *_, block = data.shape
    return relay.TensorType((batch, chunks, *grid.shape[2:], block), data.dtype)


def _compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
    """Return TVM's definition, between a view of the chunks as an image and one of its result.

    Of cubics, one of our own that is shorter.
    """
    data, grid = inputs
    if attrs.method == "bicubic":
        how = (attrs.padding_mode, bool(attrs.align_corners))
        return [sample_bicubic(data, grid, *how, out_type.shape)]
    batch, chunks, rows, columns, block = data.shape
    image = te.compute(
        (batch, chunks * block, rows, columns),
        lambda n, channel, y, x: data[n, channel // block, y, x, channel % block],
        name="image",
    )
    sampled = topi.image.grid_sample(
        image, grid, attrs.method, UNBLOCKED, attrs.padding_mode, attrs.align_corners
    )
    return [
        te.compute(
            out_type.shape,
            lambda n, chunk, y, x, lane: sampled[n, chunk * block + lane, y, x],
            name="chunks",
        )
    ]


def block_sampling(graph: Graph, node: Node, blocked: Convert) -> Blocked | None:
    """Return the samples of a blocked image in NCHWc; the grid is read as it is."""
    image, grid = node.operands
    form = blocked(image)
    if form is None or node.attrs["layout"] != UNBLOCKED:
        return None
    register_sampling()
    value = graph.call(SAMPLE_BLOCKED, [form.value, grid], node.attrs, name=node.name)
    return Blocked(value, node.outputs[0].shape)
