"""Compute an ONNX node in NumPy when all its inputs are known."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tvm_fusionx._tvm.arrays import is_brain, is_floating
from tvm_fusionx.frontend.tensors import array_of

logger = logging.getLogger(__name__)

# What they draw depends on their input, so it cannot be drawn while compiling.
RANDOM_OPERATORS = frozenset({"Bernoulli", "Multinomial"})


def _divide(a: Any, b: Any, **_: Any) -> Any:
    """Divide as ONNX does: integers are truncated toward zero, without a detour over floats."""
    if is_floating(a.dtype):
        return np.divide(a, b)
    if np.any(b == 0):
        return None
    quotient = np.floor_divide(a, b)
    is_rounded_down = (quotient < 0) & (quotient * b != a)
    return (quotient + is_rounded_down).astype(a.dtype)


def _gather_elements(data: Any, indices: Any, axis: int = 0) -> Any:
    """Take one element for each index; negative ones count from the end."""
    size = data.shape[axis]
    positive = np.where(indices < 0, indices + size, indices)
    # Other axes of the indices may be shorter than the data's.
    fitting = [
        slice(None) if i == axis % data.ndim else slice(n) for i, n in enumerate(indices.shape)
    ]
    return np.take_along_axis(data[tuple(fitting)], positive, axis)


def _one_hot(indices: Any, depth: Any, values: Any, axis: int = -1) -> Any:
    """Set one place of a new axis; negative indices count from its end."""
    size, rank = int(depth.reshape(-1)[0]), indices.ndim + 1
    places = np.arange(size).reshape([-1 if i == axis % rank else 1 for i in range(rank)])
    whole = indices.astype("int64")
    found = np.where(whole < 0, whole + size, whole)
    return np.where(np.expand_dims(found, axis) == places, values[1], values[0])


def _reduce_log_sum_exp(
    data: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Any:
    """Add exponentials of what is left over the largest: of nothing, and of -inf, it is -inf."""
    if data.dtype.kind != "f":
        return None
    chosen = tuple(int(axis) for axis in (() if axes is None else axes))
    if not chosen and noop_with_empty_axes:
        return data
    over = chosen or None
    with np.errstate(all="ignore"):
        whole = data.astype("float64")
        largest = np.max(whole, axis=over, keepdims=True, initial=-np.inf)
        shift = np.where(np.isfinite(largest), largest, 0)
        total = np.log(np.sum(np.exp(whole - shift), axis=over, keepdims=True)) + shift
        found = total if keepdims else np.squeeze(total, axis=over)
        return found.astype(data.dtype)


# The reference evaluator divides integers as floats, which is inexact above 2**53, gathers elements
# by the first index of each row, multiplies what is not hot by zero, which infinities are not, and
# subtracts -inf from itself.
OWN_EVALUATORS: dict[str, Callable[..., Any]] = {
    "Div": _divide,
    "GatherElements": _gather_elements,
    "OneHot": _one_hot,
    "ReduceLogSumExp": _reduce_log_sum_exp,
}

# Operators that onnx's reference evaluator computes rightly in every version. Of others it
# has wrong ones: scatters that multiply, grouped and padded windows, softmax before opset 13,
# quotients beyond 32 bits, which it quantizes to the other end.
TRUSTED = frozenset(
    {
        "Abs",
        "Acos",
        "Acosh",
        "Add",
        "And",
        "ArgMax",
        "ArgMin",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "BitShift",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "BlackmanWindow",
        "Cast",
        "CastLike",
        "Ceil",
        "Clip",
        "Compress",
        "Concat",
        "ConstantOfShape",
        "Cos",
        "Cosh",
        "CumSum",
        "DequantizeLinear",
        "Einsum",
        "Equal",
        "Erf",
        "Exp",
        "Expand",
        "EyeLike",
        "Flatten",
        "Floor",
        "Gather",
        "GatherND",
        "Gemm",
        "Greater",
        "GreaterOrEqual",
        "HammingWindow",
        "HannWindow",
        "Identity",
        "IsInf",
        "IsNaN",
        "Less",
        "LessOrEqual",
        "Log",
        "MatMul",
        "Max",
        "Mean",
        "MelWeightMatrix",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "NonZero",
        "Not",
        "Or",
        "Pad",
        "Pow",
        "Range",
        "Reciprocal",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "Relu",
        "Reshape",
        "Round",
        "Shape",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Size",
        "Slice",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Sum",
        "Tan",
        "Tanh",
        "Tile",
        "TopK",
        "Transpose",
        "Trilu",
        "Unique",
        "Unsqueeze",
        "Where",
        "Xor",
    }
)


def evaluate(
    proto: Any, inputs: Sequence[Any], opsets: Mapping[str, int]
) -> list[np.ndarray[Any, Any]] | None:
    """Return the outputs of one node on known inputs, or None where NumPy cannot tell.

    Parameters
    ----------
    proto
        ``onnx.NodeProto`` without subgraphs.
    inputs
        One array per input; None for an optional input left out.
    opsets
        Opset version per domain.

    Returns
    -------
    list of numpy.ndarray or None
        One array per output, empty names included.
    """
    attributes = {a.name: attribute_value(a) for a in proto.attribute}
    # Old opsets align operands by an attribute that the reference evaluator ignores.
    if proto.domain not in ("", "ai.onnx") or attributes.get("broadcast"):
        return None
    own = OWN_EVALUATORS.get(proto.op_type)
    if own is not None:
        result = own(*inputs, **attributes)
        return None if result is None else [np.asarray(result)]
    if proto.op_type not in TRUSTED:
        return None
    names = [name for name in proto.output if name]
    feeds = {n: v for n, v in zip(proto.input, inputs, strict=True) if n}
    graph = helper.make_graph(
        [proto],
        "node",
        [helper.make_empty_tensor_value_info(name) for name in feeds],
        [helper.make_empty_tensor_value_info(name) for name in names],
    )
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(graph, opsets=dict(opsets)).run(None, feeds)
    except Exception as error:  # the evaluator raises whatever its operators raise
        logger.debug("%s %s is not folded: %s", proto.op_type, proto.name, error)
        return None
    by_name = dict(zip(names, results, strict=True))
    if any(not isinstance(v, (np.ndarray, np.generic)) for v in by_name.values()):
        return None
    arrays = [np.asarray(by_name[name]) if name else np.zeros(0) for name in proto.output]
    if proto.op_type == "ReduceSumSquare":
        # NumPy adds 32-bit integers up to 64-bit ones.
        arrays = [array.astype(inputs[0].dtype) for array in arrays]
    # TVM does not know other element types (float8, int4).
    is_plain = all((a.dtype.kind in "biuf" or is_brain(a)) for a in arrays)
    return arrays if is_plain else None


def attribute_value(attribute: Any) -> Any:
    """Return an attribute's value: bytes become text, tensors become arrays."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, onnx.TensorProto):
        return array_of(value, f"attribute {attribute.name!r}")
    if attribute.type == onnx.AttributeProto.STRINGS:
        return [item.decode("utf-8", errors="replace") for item in value]
    if attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        return list(value)
    return value
