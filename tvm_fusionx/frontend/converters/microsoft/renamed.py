"""Operators that became ONNX's own later: the same calls under ONNX Runtime's name."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_fusionx.frontend.converters.gathering import convert_gather_nd
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.padding import convert_pad
from tvm_fusionx.frontend.converters.regions import convert_grid_sample
from tvm_fusionx.frontend.converters.shapes import (
    convert_range,
    convert_trilu,
    convert_unsqueeze,
)
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor


def _under_onnx_name(node: SchemaNode, *attributes: str) -> Node:
    inputs = [
        node.tensor(position) if node.has(position) else None
        for position in range(len(node.inputs))
    ]
    op_type = node.op_type.rpartition(".")[2]
    return node.as_standard(op_type, inputs, node.attributes_named(*attributes))


@microsoft("GatherND")
def convert_contrib_gather_nd(node: SchemaNode) -> Any:
    """Take slices by tuples of indices."""
    return convert_gather_nd(_under_onnx_name(node))


@microsoft("Pad")
def convert_contrib_pad(node: SchemaNode) -> Any:
    """Put elements around the data."""
    return convert_pad(_under_onnx_name(node, "mode"))


# ONNX calls the modes of a grid otherwise since it has grids of volumes.
MODES = {"bicubic": "cubic", "bilinear": "linear", "nearest": "nearest"}


@microsoft("GridSample")
def convert_contrib_grid_sample(node: SchemaNode) -> Any:
    """Sample pictures at the places of a grid."""
    called = _under_onnx_name(node, "align_corners", "padding_mode")
    mode = MODES[node.expects("mode", *MODES)]
    called.attributes = {**called.attributes, "mode": mode}
    return convert_grid_sample(called)


@microsoft("Trilu")
def convert_contrib_trilu(node: SchemaNode) -> Any:
    """Keep the triangle above or below a diagonal."""
    return convert_trilu(_under_onnx_name(node, "upper"))


@microsoft("Range")
def convert_contrib_range(node: SchemaNode) -> Any:
    """Count from start to limit by delta, which is one where it is left out."""
    called = _under_onnx_name(node)
    one = Tensor.from_array(np.asarray(1, node.dtype()))
    called.inputs = [node.tensor(0), node.tensor(1), node.maybe("delta") or one]
    return convert_range(called)


@microsoft("ExpandDims")
def convert_expand_dims(node: SchemaNode) -> Any:
    """Insert an axis of size one."""
    axis = Tensor.from_array(node.array(1).reshape(-1).astype("int64"))
    return convert_unsqueeze(node.as_standard("Unsqueeze", [node.tensor(0), axis], {}))
