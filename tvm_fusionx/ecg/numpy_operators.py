"""What operator calls compute, in numpy: constants are folded and rules are proved with it.

Structural operators and contractions work on arrays of objects too, so that a proof may put symbols
into them; elementwise functions are then looked up in the table of whoever evaluates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.ecg.numpy_windows import (
    NotInNumpyError,
    avg_pool2d,
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d_transpose,
    max_pool2d,
)
from tvm_fusionx.operators import MOVEMENTS

__all__ = ["NUMPY_OPERATORS", "NotInNumpyError", "elementwise", "evaluate", "reduced_axes"]

SINGLE, NARROW = "float32", ("float16", "bfloat16")

Arrays = Sequence[np.ndarray]
Evaluate = Callable[[Node, Arrays], "np.ndarray | list[np.ndarray]"]


def evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    """Return the results of a call on `arrays`; those of 16-bit floats are computed in float32.

    Raises
    ------
    NotInNumpyError
        The operator, or this form of it, is not in the table.
    """
    function = NUMPY_OPERATORS.get(node.op)
    if function is None:
        raise NotInNumpyError(f"{node.op} is not in the table of numpy operators")
    if node.op not in MOVEMENTS:
        arrays = [array.astype(SINGLE) if str(array.dtype) in NARROW else array for array in arrays]
    with np.errstate(all="ignore"):
        found = function(node, arrays)
    results = found if isinstance(found, list) else [found]
    return [
        np.asarray(result).astype(value.dtype, copy=False).reshape(value.shape)
        for value, result in zip(node, results, strict=True)
    ]


# ---- moving elements ----------------------------------------------------------------------------


def _reshape(node: Node, arrays: Arrays) -> np.ndarray:
    return arrays[0].reshape(node.outputs[0].shape)


def _transpose(node: Node, arrays: Arrays) -> np.ndarray:
    axes = node.attrs.get("axes")
    return np.transpose(arrays[0], [int(axis) for axis in axes] if axes else None)


def _strided_slice(node: Node, arrays: Arrays) -> np.ndarray:
    out = arrays[0]
    begins, ends = node.attrs["begin"], node.attrs["end"]
    axes = node.attrs.get("axes") or range(len(begins))
    strides = node.attrs.get("strides") or ()
    for position, axis in enumerate(axes):
        extent = out.shape[int(axis)]
        step = int(strides[position % len(strides)]) if strides else 1
        start, stop = int(begins[position]), int(ends[position])
        if node.attrs.get("slice_mode") == "size":
            step, stop = 1, extent if stop < 0 else start + stop
        low, high = (0, extent) if step > 0 else (-1, extent - 1)
        start = min(max(start + extent if start < 0 else start, low), high)
        stop = min(max(stop + extent if stop < 0 else stop, low), high)
        out = np.take(out, list(range(start, stop, step)), axis=int(axis))
    return out


def _split(node: Node, arrays: Arrays) -> list[np.ndarray]:
    axis = int(node.attrs["axis"])
    ends = list(itertools.accumulate(value.shape[axis] for value in node))
    return np.split(arrays[0], ends[:-1], axis=axis)


def _take(node: Node, arrays: Arrays) -> np.ndarray:
    if node.attrs["batch_dims"] or node.attrs["mode"] not in ("clip", "wrap"):
        raise NotInNumpyError(f"take with {node.attrs}")
    return np.take(arrays[0], arrays[1], axis=node.attrs["axis"], mode=node.attrs["mode"])


def _pad(node: Node, arrays: Arrays) -> np.ndarray:
    if node.attrs["pad_mode"] != "constant":
        raise NotInNumpyError(f"pad with mode {node.attrs['pad_mode']}")
    out = np.empty(node.outputs[0].shape, dtype=arrays[0].dtype)
    out[...] = arrays[1].reshape(())[()]
    starts = [int(before) for before, _ in node.attrs["pad_width"]]
    inside = tuple(
        slice(start, start + extent) for start, extent in zip(starts, arrays[0].shape, strict=True)
    )
    out[inside] = arrays[0]
    return out


def _upsampling(node: Node, arrays: Arrays) -> np.ndarray:
    if node.attrs["method"] != "nearest_neighbor" or node.attrs["layout"] != "NCHW":
        raise NotInNumpyError(f"upsampling with {node.attrs}")
    out = arrays[0]
    for axis, extent in ((2, node.outputs[0].shape[2]), (3, node.outputs[0].shape[3])):
        out = np.repeat(out, extent // out.shape[axis], axis=axis)
    return out


# ---- reductions ---------------------------------------------------------------------------------


def reduced_axes(node: Node) -> tuple[int, ...]:
    """Return the axes that a reduction reduces, non-negative and sorted."""
    rank = len(node.operands[0].shape)
    axis = node.attrs.get("axis")
    if axis is None or axis == ():
        axes = set() if node.attrs.get("exclude") and axis == () else set(range(rank))
        return tuple(sorted(axes))
    named = {int(item) % rank for item in (axis if isinstance(axis, tuple) else (axis,))}
    return tuple(sorted(set(range(rank)) - named if node.attrs.get("exclude") else named))


def _reduction(function: Callable[..., Any]) -> Evaluate:
    def reduce(node: Node, arrays: Arrays) -> np.ndarray:
        out: np.ndarray = function(arrays[0], axis=reduced_axes(node), keepdims=True)
        return np.asarray(out)

    return reduce


def _position(function: Callable[..., Any]) -> Evaluate:
    def find(node: Node, arrays: Arrays) -> np.ndarray:
        axes = reduced_axes(node)
        if node.attrs.get("select_last_index") or len(axes) != 1:
            raise NotInNumpyError(f"{node.op} with {node.attrs}")
        return np.asarray(function(arrays[0], axis=axes[0]))

    return find


def _mean(array: np.ndarray, axis: tuple[int, ...], keepdims: bool) -> np.ndarray:
    count = math.prod(array.shape[item] for item in axis)
    total: np.ndarray = np.sum(array, axis=axis, keepdims=keepdims)
    return total / count


def _variance(node: Node, arrays: Arrays) -> np.ndarray:
    axes = reduced_axes(node)
    count = math.prod(arrays[0].shape[item] for item in axes)
    if node.attrs.get("unbiased"):
        raise NotInNumpyError("an unbiased variance")
    centred = arrays[0] - arrays[1]
    total: np.ndarray = np.sum(centred * centred, axis=axes, keepdims=True)
    return total / count


def _softmax(node: Node, arrays: Arrays) -> np.ndarray:
    axis = int(node.attrs["axis"])
    shifted = arrays[0] - np.max(arrays[0], axis=axis, keepdims=True)
    powers = np.exp(shifted)
    total = np.sum(powers, axis=axis, keepdims=True)
    result: np.ndarray = powers / total if node.op == "nn.softmax" else shifted - np.log(total)
    return result


# ---- products and windows -----------------------------------------------------------------------


def _dense(node: Node, arrays: Arrays) -> np.ndarray:
    out: np.ndarray = np.matmul(arrays[0], arrays[1].T)
    return out


def _product(node: Node, arrays: Arrays) -> np.ndarray:
    first, second = (
        np.swapaxes(array, -1, -2) if node.attrs.get(flag) else array
        for array, flag in zip(arrays, ("transpose_a", "transpose_b"), strict=True)
    )
    out: np.ndarray = np.matmul(first, second)
    return out


# ---- elementwise --------------------------------------------------------------------------------


def elementwise(function: Callable[..., Any]) -> Evaluate:
    """Return the evaluator of a function of arrays that knows nothing of the call."""
    return lambda node, arrays: function(*arrays)


def _error_function(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=["float64"])(x)


def _clip(node: Node, arrays: Arrays) -> np.ndarray:
    return np.clip(arrays[0], node.attrs["a_min"], node.attrs["a_max"])


def _divide(node: Node, arrays: Arrays) -> np.ndarray:
    if node.outputs[0].is_float or arrays[0].dtype == object:
        return np.asarray(np.divide(*arrays))
    if bool(np.any(arrays[1] == 0)):
        raise NotInNumpyError("an integer divided by zero")
    # Relay truncates, numpy rounds down.
    quotient = np.abs(arrays[0]) // np.abs(arrays[1])
    return np.asarray(np.sign(arrays[0]) * np.sign(arrays[1]) * quotient)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "atan": np.arctan,
    "bitwise_and": np.bitwise_and,
    "bitwise_not": np.bitwise_not,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "equal": np.equal,
    "erf": _error_function,
    "exp": np.exp,
    "floor": np.floor,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "left_shift": np.left_shift,
    "less": np.less,
    "less_equal": np.less_equal,
    "log": np.log,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negative": np.negative,
    "nn.relu": lambda x: np.maximum(x, 0),
    "not_equal": np.not_equal,
    "power": np.power,
    "right_shift": np.right_shift,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "where": lambda condition, first, second: np.where(condition.astype(bool), first, second),
}

NUMPY_OPERATORS: dict[str, Evaluate] = {
    **{name: elementwise(function) for name, function in ELEMENTWISE.items()},
    "all": _reduction(np.all),
    "any": _reduction(np.any),
    "argmax": _position(np.argmax),
    "argmin": _position(np.argmin),
    "broadcast_to": lambda node, arrays: np.broadcast_to(arrays[0], node.outputs[0].shape),
    "cast": lambda node, arrays: arrays[0].astype(node.outputs[0].dtype),
    "clip": _clip,
    "concatenate": lambda node, arrays: np.concatenate(arrays, axis=int(node.attrs["axis"])),
    "copy": lambda node, arrays: arrays[0],
    "divide": _divide,
    "expand_dims": _reshape,
    "max": _reduction(np.max),
    "mean": _reduction(_mean),
    "min": _reduction(np.min),
    "nn.avg_pool2d": avg_pool2d,
    "nn.batch_flatten": _reshape,
    "nn.batch_matmul": _product,
    "nn.conv1d": conv1d,
    "nn.conv2d": conv2d,
    "nn.conv2d_transpose": conv2d_transpose,
    "nn.conv3d_transpose": conv3d_transpose,
    "nn.dense": _dense,
    "nn.global_avg_pool2d": lambda node, arrays: np.asarray(_mean(arrays[0], (2, 3), True)),
    "nn.global_max_pool2d": lambda node, arrays: np.max(arrays[0], axis=(2, 3), keepdims=True),
    "nn.leaky_relu": lambda node, arrays: np.where(
        arrays[0] > 0, arrays[0], arrays[0] * arrays[0].dtype.type(node.attrs["alpha"])
    ),
    "nn.log_softmax": _softmax,
    "nn.matmul": _product,
    "nn.max_pool2d": max_pool2d,
    "nn.pad": _pad,
    "nn.softmax": _softmax,
    "nn.upsampling": _upsampling,
    "prod": _reduction(np.prod),
    "repeat": lambda node, arrays: np.repeat(
        arrays[0], int(node.attrs["repeats"]), axis=int(node.attrs["axis"])
    ),
    "reshape": _reshape,
    "split": _split,
    "squeeze": _reshape,
    "strided_slice": _strided_slice,
    "sum": _reduction(np.sum),
    "take": _take,
    "tile": lambda node, arrays: np.tile(arrays[0], [int(item) for item in node.attrs["reps"]]),
    "transpose": _transpose,
    "variance": _variance,
}
