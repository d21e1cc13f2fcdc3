"""Operators of half precision that are translated in float32: one of them becomes several calls.

A kernel computes in float32 whatever it stores (``passes.ComputeInFloat32``). But the planner may
cut between two calls, and what a norm or a sum of squares keeps in between (the square of 300, a
sum of a hundred thousand exponentials) is beyond a half. So these see float32 operands, and their
results are rounded to the type they have in the model.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor, Value

HALF, SINGLE = "float16", "float32"

# Each operator, and for each of its results the input whose type it has; None where the converter
# gives it the right type. Results that are not listed have the type of the first.
Types = tuple[int | None, ...]
COMPUTED_IN_SINGLE: Mapping[str, Types] = {
    **dict.fromkeys(
        [
            *("GroupNormalization", "InstanceNormalization", "LRN", "LpNormalization"),
            *("MeanVarianceNormalization", "LogSoftmax", "LpPool", "GlobalLpPool"),
            *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"),
            *("ReduceProd", "ReduceSum", "ReduceSumSquare", "CumSum", "Einsum", "Gelu", "Mish"),
            "Mean",
        ],
        (0,),
    ),
    "BatchNormalization": (0, 3, 4, 3, 4),
    # The statistics are of `stash_type`.
    "LayerNormalization": (0, None, None),
    "com.microsoft.EmbedLayerNormalization": (2, None),
    "com.microsoft.SkipLayerNormalization": (0,),
}


def is_computed_in_single(node: Node) -> bool:
    """Tell whether a node's operands are halves that its translation must see as float32."""
    return node.op_type in COMPUTED_IN_SINGLE and any(map(_is_half, node.inputs))


def with_single_inputs(node: Node) -> Node:
    """Return a node with float32 in the place of each half among its inputs."""
    wide = copy.copy(node)
    wide.inputs = [_widened(value) if _is_half(value) else value for value in node.inputs]
    return wide


def rounded_results(node: Node, wide: Node, converted: Any) -> list[Any]:
    """Return what a converter made of :func:`with_single_inputs`, in the types of the model.

    Parameters
    ----------
    node, wide
        The node as it is, and with float32 inputs.
    converted
        One result or a list: Relay expressions, arrays, tensors, or None.
    """
    items: Sequence[Any] = converted if isinstance(converted, (list, tuple)) else [converted]
    sources = COMPUTED_IN_SINGLE[node.op_type]
    rounded = []
    for place, item in enumerate(items):
        source = sources[place] if place < len(sources) else sources[0]
        given = next(
            (old for old, new in zip(node.inputs, wide.inputs, strict=True) if new is item), None
        )
        if item is None or source is None:
            rounded.append(item)
        elif given is not None:
            rounded.append(given)
        elif isinstance(item, relay.Expr):
            rounded.append(relay.cast(item, node.dtype(source)))
        else:
            rounded.append(cast_array(item, node.dtype(source)))
    return rounded


def single_arrays(arrays: Sequence[Any]) -> list[Any]:
    """Return known inputs with halves as float32."""
    return [cast_array(each, SINGLE) if _is_half_array(each) else each for each in arrays]


def cast_array(array: Any, dtype: str) -> np.ndarray[Any, Any]:
    """Return an array rounded to a type; too large for it is infinite, as a cast has it."""
    with np.errstate(over="ignore"):
        return np.asarray(array).astype(dtype)


def _widened(value: Any) -> Tensor:
    if value.array is not None:
        return Tensor.from_array(cast_array(value.array, SINGLE))
    tensor = Tensor(relay.cast(value.expr, SINGLE), value.dims, SINGLE)
    tensor.maker = value.maker
    return tensor


def _is_half(value: Value) -> bool:
    return isinstance(value, Tensor) and value.dtype == HALF


def _is_half_array(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == HALF
