"""Sampling at computed places of an image."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.linear import matmul
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape, transpose
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant

# ONNX's names before and since opset 20 -> Relay's.
SAMPLE_METHODS = {
    "bilinear": "bilinear",
    "linear": "bilinear",
    "bicubic": "bicubic",
    "cubic": "bicubic",
    "nearest": "nearest",
}
HALF_PIXEL_SINCE = 16


@converter("GridSample", through=22, because="TVM does not know the mode names of opset 20")
def convert_grid_sample(node: Node) -> Any:
    """Sample the image at each point of the grid."""
    rank = node.rank()
    method = SAMPLE_METHODS[node.attribute("mode", "linear")]
    layout = {4: "NCHW", 5: "NCDHW"}.get(rank)
    if layout is None:
        raise node.refuse("an input of 4 or 5 dimensions", str(rank))
    grid = relay.transpose(node.expr(1), (0, rank - 1, *range(1, rank - 1)))
    return relay.image.grid_sample(
        node.expr(),
        grid,
        method,
        layout,
        node.attribute("padding_mode", "zeros"),
        bool(node.attribute("align_corners", 0)),
    )


@converter("AffineGrid", through=20, because="ONNX's own body of it loses a batch of one")
def convert_affine_grid(node: Node) -> Any:
    """Return where an affine map puts each element of an image, in coordinates from -1 to 1."""
    batch, _, *extents = node.ints(1)
    rank, dtype = len(extents), node.dtype()
    if 0 in (batch, *extents):
        return np.zeros((batch, *extents, rank), dtype)
    is_aligned = bool(node.attribute("align_corners", 0))
    places = np.meshgrid(*(_coordinates(each, is_aligned) for each in extents), indexing="ij")
    # The last axis of the image is the first coordinate; a one is what the map's shift is for.
    points = np.stack([*(each.ravel() for each in reversed(places)), np.ones(places[0].size)])
    known = points.astype(dtype)
    theta = (batch, rank, rank + 1)
    moved = matmul(node.expr(), theta, None, known.shape, b_turned=constant(known.T))
    return reshape(transpose(moved, (0, 2, 1)), (batch, *extents, rank))


def _coordinates(extent: int, is_aligned: bool) -> Any:
    if is_aligned:
        return np.linspace(-1, 1, extent)
    return (2 * np.arange(extent) + 1) / extent - 1


@converter("RoiAlign", through=22, because="TVM ignores coordinate_transformation_mode")
def convert_roi_align(node: Node) -> Any:
    """Average samples of each region on a grid of bins."""
    default = "half_pixel" if node.version >= HALF_PIXEL_SINCE else "output_half_pixel"
    mode = node.attribute("coordinate_transformation_mode", default)
    if mode != "output_half_pixel" or node.attribute("mode", "avg") != "avg":
        raise node.refuse(
            "mode='avg' with coordinate_transformation_mode='output_half_pixel'",
            f"mode={node.attribute('mode', 'avg')!r} with {mode!r}",
        )
    batch = relay.expand_dims(relay.cast(node.expr(2), node.dtype(1)), 1)
    size = [int(node.attribute("output_height", 1)), int(node.attribute("output_width", 1))]
    return relay.vision.roi_align(
        node.expr(),
        relay.concatenate([batch, node.expr(1)], 1),
        size,
        float(node.attribute("spatial_scale", 1.0)),
        int(node.attribute("sampling_ratio", 0)),
    )
