"""Largest and smallest elements, with NaN where ONNX Runtime has it.

Of two numbers one of which is NaN, `Max` and `Min` give NaN. `ArgMax` and `ArgMin` go from element
to element and take one that is beyond the best so far: a NaN never is, and where it is the first
nothing is beyond it. (Of rows with NaN, `TopK` of ONNX Runtime has no order that could be told.)
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.slicing import slice_axis
from tvm_fusionx.frontend.node import Node


def is_float(dtype: str) -> bool:
    """Tell whether a dtype has NaN."""
    return dtype.startswith(("float", "bfloat"))


def _extreme(node: Node, function: Any) -> Any:
    tensors = [node.tensor(i) for i in range(len(node.inputs))]
    if not is_float(node.dtype()):
        return reduce(function, [tensor.expr for tensor in tensors])
    # In a kernel max(a, b) is a > b ? a : b: what is NaN must stand on the right. Constants, which
    # are not NaN, go first; of two computed operands the left one is looked at.
    known = [t for t in tensors if t.array is not None and not np.isnan(t.array).any()]
    computed = [t for t in tensors if t not in known]
    result = reduce(function, [tensor.expr for tensor in known]) if known else None
    for position, tensor in enumerate(computed):
        if result is None:
            result = tensor.expr
        elif position == 0:
            result = function(result, tensor.expr)
        else:
            result = relay.where(relay.isnan(result), result, function(result, tensor.expr))
    return result


@converter("Max", through=13)
def convert_max(node: Node) -> Any:
    """Return the largest of any number of broadcast inputs; NaN where one is."""
    return _extreme(node, relay.maximum)


@converter("Min", through=13)
def convert_min(node: Node) -> Any:
    """Return the smallest of any number of broadcast inputs; NaN where one is."""
    return _extreme(node, relay.minimum)


@converter("ArgMax", "ArgMin", through=13)
def convert_arg_extreme(node: Node) -> Any:
    """Return the index of the largest or smallest element along an axis."""
    is_largest = node.op_type == "ArgMax"
    function = relay.argmax if is_largest else relay.argmin
    keepdims, axis, dtype = bool(node.attribute("keepdims", 1)), node.axis(0), node.dtype()
    x = node.expr()
    if is_float(dtype):
        limits = np.finfo(dtype)
        worst = scalar(float(limits.min if is_largest else limits.max), dtype)
        x = relay.where(relay.isnan(x), worst, x)
    is_last = bool(node.attribute("select_last_index", 0))
    best = function(x, axis=axis, keepdims=keepdims, select_last_index=is_last)
    if is_float(dtype):
        # Where no element is beyond the type's limit, as of infinities, the reduction ends at -1.
        best = relay.maximum(best, relay.const(0, "int32"))
        first = relay.isnan(slice_axis(node.expr(), axis, range(1), node.tensor(0).dims[axis] or 0))
        first = first if keepdims else relay.squeeze(first, [axis])
        best = relay.where(first, relay.const(0, "int32"), best)
    return relay.cast(best, "int64")
