"""Operators of half precision that are translated in float32: one of them becomes several calls.

A kernel computes in float32 whatever it stores (``passes.ComputeInFloat32``). But the planner may
cut between two calls, and what a norm or a sum of squares keeps in between (the square of 300, a
sum of a hundred thousand exponentials) is beyond a half. So these see float32 operands, and their
results are rounded to the type they have in the model.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.element_types import NARROW_OPERATORS
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor, Value

SINGLE = "float32"
BRAIN = "bfloat16"
NARROW = ("float16", BRAIN)

# Each operator, and for each of its results the input whose type it has; None where the converter
# gives it the right type. Results that are not listed have the type of the first.
Types = tuple[int | None, ...]
COMPUTED_IN_SINGLE: Mapping[str, Types] = {
    **dict.fromkeys(
        [
            *(
                "AffineGrid",
                "GroupNormalization",
                "InstanceNormalization",
                "LRN",
                "LpNormalization",
            ),
            *("MeanVarianceNormalization", "LogSoftmax", "LpPool", "GlobalLpPool"),
            *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"),
            *("ReduceProd", "ReduceSum", "ReduceSumSquare", "CumSum", "Einsum", "Gelu", "Mish"),
            "Mean",
            # Which side of a threshold a half is on: the threshold is a float.
            *("Shrink", "ThresholdedRelu"),
            # Their slopes and shifts are floats: near x = -3 a sixth of eleven bits moves HardSwish
            # by a fifth.
            *("Celu", "Elu", "HardSigmoid", "HardSwish", "Selu", "SwiGLU", "Swish"),
            *("com.microsoft.BiasGelu", "com.microsoft.FastGelu", "com.microsoft.Gelu"),
            "com.microsoft.QuickGelu",
        ],
        (0,),
    ),
    "BatchNormalization": (0, 3, 4, 3, 4),
    # The statistics are of `stash_type`.
    "LayerNormalization": (0, None, None),
    "com.microsoft.EmbedLayerNormalization": (2, None),
    "com.microsoft.SkipLayerNormalization": (0,),
}


# A bfloat16 has 8 bits: a converter's own numbers (the slope of a SELU, 1 / sqrt(2)) would lose
# digits in it, and tables by type have no row for it. So of it only these are translated as they
# are: they move elements, tell types themselves, or are one operator of Relay, with no number.
DIRECT_IN_BRAIN = NARROW_OPERATORS | {
    *("BitCast", "Compress", "Concat", "DepthToSpace", "Dropout", "Expand", "EyeLike", "Gather"),
    *("GatherElements", "GatherND", "OneHot", "Pad", "Range", "RandomNormalLike"),
    *("RandomUniformLike", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth", "Split"),
    *("TensorScatter", "Tile", "Trilu", "Where", "com.microsoft.ExpandDims"),
    *("com.microsoft.GatherND", "com.microsoft.Pad", "com.microsoft.Trilu"),
    *("Abs", "Add", "AveragePool", "Clip", "Conv", "ConvTranspose", "Div", "Equal", "Erf", "Exp"),
    *("Gemm", "GlobalAveragePool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "LeakyRelu"),
    *("Less", "LessOrEqual", "Log", "MatMul", "Max", "MaxPool", "Min", "Mul", "Neg", "PRelu"),
    *("Relu", "Sigmoid", "Softmax", "Sqrt", "Sub", "Sum", "Tanh"),
    *("com.microsoft.FusedConv", "com.microsoft.FusedGemm", "com.microsoft.FusedMatMul"),
}


def is_computed_in_single(node: Node) -> bool:
    """Tell whether a node's operands are halves that its translation must see as float32."""
    tensors = [value for value in node.inputs if isinstance(value, Tensor)]
    dtypes = {tensor.dtype for tensor in tensors if _is_half(tensor)}
    if node.op_type in COMPUTED_IN_SINGLE:
        return bool(dtypes)
    return BRAIN in dtypes and node.op_type not in DIRECT_IN_BRAIN


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
    given_first = next(place for place, value in enumerate(node.inputs) if _is_half(value))
    sources = COMPUTED_IN_SINGLE.get(node.op_type, (given_first,))
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
            rounded.append(_rounded(item, node.dtype(source)))
        elif isinstance(item, Tensor) or item.dtype != SINGLE:
            rounded.append(item)
        else:
            rounded.append(cast_array(item, node.dtype(source)))
    return rounded


def evaluated_in_single(
    op_type: str, arrays: Sequence[Any], evaluate: Callable[[Sequence[Any]], list[Any] | None]
) -> list[Any] | None:
    """Return what `evaluate` makes of known inputs, computed in float32 where they are halves.

    Parameters
    ----------
    op_type
        Operators that say themselves of which type their results are see what there is.
    """
    narrow = next((each.dtype for each in arrays if _is_half_array(each)), None)
    if narrow is None or op_type in NARROW_OPERATORS:
        return evaluate(arrays)
    wide = [cast_array(each, SINGLE) if _is_half_array(each) else each for each in arrays]
    found = evaluate(wide)
    if found is None:
        return None
    return [cast_array(each, narrow) if each.dtype == SINGLE else each for each in found]


def cast_array(array: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Return an array rounded to a type; too large for it is infinite, as a cast has it."""
    with np.errstate(over="ignore"):
        return np.asarray(array).astype(dtype)


def _rounded(expr: Any, dtype: str) -> Any:
    """Return a result in the model's type; what is whole numbers or booleans stays so."""
    relay.transform.InferTypeLocal(expr)
    return relay.cast(expr, dtype) if expr.checked_type.dtype == SINGLE else expr


def _widened(value: Any) -> Tensor:
    if value.array is not None:
        return Tensor.from_array(cast_array(value.array, SINGLE))
    tensor = Tensor(relay.cast(value.expr, SINGLE), value.dims, SINGLE)
    tensor.maker = value.maker
    return tensor


def _is_half(value: Value) -> bool:
    return isinstance(value, Tensor) and value.dtype in NARROW


def _is_half_array(array: Any) -> bool:
    return isinstance(array, np.ndarray) and str(array.dtype) in NARROW
