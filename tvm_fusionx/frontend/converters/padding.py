"""Padding."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.slicing import slice_axis, take
from tvm_fusionx.frontend.node import Node

# ONNX's mode -> numpy.pad's, which computes the positions to read.
INDEX_MODES: dict[str, Any] = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def _pads_by_axis(node: Node) -> dict[int, tuple[int, int]]:
    """Return (before, after) of every axis that changes."""
    pads = node.ints_from("pads", 1) or node.attribute("paddings") or []
    axes = node.ints(3) if node.has(3) else list(range(node.rank()))
    count = len(axes)
    by_axis = {
        axis % node.rank(): (int(pads[i]), int(pads[i + count])) for i, axis in enumerate(axes)
    }
    return {axis: pair for axis, pair in by_axis.items() if pair != (0, 0)}


@converter("Pad", through=25, because="TVM ignores axes, and has no wrap mode")
def convert_pad(node: Node) -> Any:
    """Add elements around the data; negative pads cut off."""
    pads, shape = _pads_by_axis(node), list(node.shape())
    x, mode = node.expr(), node.attribute("mode", "constant")
    if mode != "constant":
        for axis, (before, after) in pads.items():
            # A negative pad cuts first, so that what is mirrored is what remains.
            kept = np.arange(max(0, -before), shape[axis] - max(0, -after))
            widths: Any = (max(0, before), max(0, after))
            positions = np.pad(kept, widths, mode=INDEX_MODES[mode])
            x = take(x, positions, axis)
        return x
    for axis, (before, after) in pads.items():
        kept_range = range(max(0, -before), shape[axis] - max(0, -after))
        x = slice_axis(x, axis, kept_range, shape[axis])
    widths = [tuple(max(0, p) for p in pads.get(axis, (0, 0))) for axis in range(len(shape))]
    if not any(any(pair) for pair in widths):
        return x if pads else node.tensor(0)
    return relay.nn.pad(x, widths, _pad_value(node))


def _pad_value(node: Node) -> Any:
    if not node.has(2):
        return relay.const(node.attribute("value", 0.0), node.dtype())
    return relay.reshape(cast(node.expr(2), node.dtype(2), node.dtype()), ())
