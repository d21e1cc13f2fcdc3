"""Largest and smallest elements and signs, with NaN where ONNX Runtime has it.

Of two numbers one of which is NaN, `Max` and `Min` give NaN. `ArgMax` and `ArgMin` go from element
to element and take one that is beyond the best so far: a NaN never is, and where it is the first
nothing is beyond it. Of rows with NaN, ONNX Runtime's `TopK` is in the
order of its heap, and `ReduceMax` in that of its vectors: neither can be told from the model.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx._tvm.arrays import is_floating
from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant


def is_float(dtype: str) -> bool:
    """Tell whether a dtype has NaN."""
    return is_floating(dtype)


def _extreme(node: Node, function: Any) -> Any:
    tensors = [node.tensor(i) for i in range(len(node.inputs))]
    if not is_float(node.dtype()):
        return reduce(function, [tensor.expr for tensor in tensors])
    # In a kernel max(a, b) is a > b ? a : b: what is NaN must stand on the right (Arm's keep it on
    # either side). Constants, which are not NaN, go first; of two computed operands the left one is
    # looked at.
    known = [t for t in tensors if t.array is not None and not np.isnan(t.array).any()]
    computed = [t for t in tensors if t not in known]
    result = reduce(function, [tensor.expr for tensor in known]) if known else None
    for position, tensor in enumerate(computed):
        if result is None:
            result = tensor.expr
        elif position == 0:
            result = function(result, tensor.expr)
        else:
            is_number = relay.less_equal(result, scalar(np.inf, node.dtype()))
            result = relay.where(is_number, function(result, tensor.expr), result)
    return result


@converter("Max", through=13)
def convert_max(node: Node) -> Any:
    """Return the largest of any number of broadcast inputs; NaN where one is."""
    return _extreme(node, relay.maximum)


@converter("Min", through=13)
def convert_min(node: Node) -> Any:
    """Return the smallest of any number of broadcast inputs; NaN where one is."""
    return _extreme(node, relay.minimum)


@converter("Sign", through=13)
def convert_sign(node: Node) -> Any:
    """Return 1, -1, or the element itself where it is neither above nor below zero: zero or NaN."""
    x, dtype = node.expr(), node.dtype()
    zero, one = scalar(0, dtype), scalar(1, dtype)
    if dtype.startswith("uint"):
        return relay.minimum(x, one)  # TVM's own makes a -1 of the type
    if not is_float(dtype):
        return relay.sign(x)
    below = relay.where(relay.less(x, zero), scalar(-1, dtype), x)
    return relay.where(relay.greater(x, zero), one, below)


def _without_nan(x: Any, size: int, axis: int, rank: int, dtype: str, is_largest: bool) -> Any:
    """Return `x` with NaN replaced: what nothing is beyond where it is first, else the worst.

    A kernel's max(a, b) is a > b ? a : b, which of a NaN on the left makes b, and infinite bounds
    stay on the right (``late_passes.let_nans_through``). (TVM 0.19 cannot lower ``isnan`` in the
    kernel of a reduction with an index.)
    """
    shape = [1] * rank
    shape[axis] = size
    first = constant((np.arange(size) == 0).reshape(shape))
    best = relay.minimum(x, scalar(np.inf, dtype))
    worst = relay.maximum(x, scalar(-np.inf, dtype))
    return relay.where(first, best, worst) if is_largest else relay.where(first, worst, best)


@converter("ArgMax", "ArgMin", through=13)
def convert_arg_extreme(node: Node) -> Any:
    """Return the index of the largest or smallest element along an axis."""
    is_largest = node.op_type == "ArgMax"
    function = relay.argmax if is_largest else relay.argmin
    keepdims, axis, dtype = bool(node.attribute("keepdims", 1)), node.axis(0), node.dtype()
    x = node.expr()
    if is_float(dtype):
        # Other extents may depend on the data.
        size = node.tensor(0).dims[axis]
        size = node.shape()[axis] if size is None else size
        x = _without_nan(x, size, axis, node.rank(), dtype, is_largest)
    is_last = bool(node.attribute("select_last_index", 0))
    best = function(x, axis=axis, keepdims=keepdims, select_last_index=is_last)
    if is_float(dtype):
        # Where no element is beyond the type's limit, as of infinities, the reduction ends at -1.
        best = relay.maximum(best, relay.const(0, "int32"))
    return relay.cast(best, "int64")
