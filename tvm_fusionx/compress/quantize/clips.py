"""ReLUs and clips that a quantization behind them makes needless.

The integers of a quantization end where its range ends. Where that lies within the bounds of a
clip, what the clip would cut off is saturated to the same integer without it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tvm_fusionx.compress.quantize.affine import Affine
from tvm_fusionx.compress.quantize.model_graph import ModelGraph, attribute

QUANTIZE = "QuantizeLinear"


def drop_clips(model: Any) -> int:
    """Remove ``Relu`` and ``Clip`` nodes that only quantizations within their bounds read.

    Returns
    -------
    int
        How many went; the model is changed in place.
    """
    graph = ModelGraph(model)
    dropped = []
    for node in graph.nodes:
        bounds = clip_bounds(graph, node)
        if bounds is None or node.output[0] in graph.outputs:
            continue
        readers = [reader for reader, _ in graph.readers[node.output[0]]]
        if readers and all(_is_within(graph, reader, bounds) for reader in readers):
            for reader in readers:
                reader.input[0] = node.input[0]
            dropped.append(node)
            # A clip behind a clip is judged by what reads it now.
            graph.readers[node.input[0]] = [
                edge for edge in graph.readers[node.input[0]] if edge[0] is not node
            ] + [(reader, 0) for reader in readers]
    for node in dropped:
        model.graph.node.remove(node)
    return len(dropped)


def clip_bounds(graph: ModelGraph, node: Any) -> tuple[float, float] | None:
    """Return what a node clips its only data input to, or None where it does something else."""
    if node.op_type == "Relu":
        return 0.0, math.inf
    if node.op_type != "Clip":
        return None
    bounds = [-math.inf, math.inf]
    for position, name in enumerate(node.input[1:]):
        if name:
            array = graph.array(name)
            if array is None or array.size != 1:
                return None
            bounds[position] = float(array.reshape(()))
    return bounds[0], bounds[1]


def _is_within(graph: ModelGraph, reader: Any, bounds: tuple[float, float]) -> bool:
    """Tell whether a reader is a quantization whose range lies within `bounds`."""
    if reader.op_type != QUANTIZE or attribute(reader, "axis", None) is not None:
        return False
    scale, zero = (graph.array(name) for name in reader.input[1:3])
    if scale is None or zero is None or scale.size != 1:
        return False
    low, high = Affine(float(scale), int(zero), str(zero.dtype)).bounds
    # A bound is a level of its own, but for the rounding of the scale to float32.
    slack = float(np.finfo(np.float32).eps) * max(abs(low), abs(high))
    return bool(low >= bounds[0] - slack and high <= bounds[1] + slack)
