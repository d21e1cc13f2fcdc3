"""Name and fold the Relay calls that one ONNX node became."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx._tvm.arrays import is_floating, numpy_of
from tvm_fusionx.ecg.block_calls import operands_of, post_order
from tvm_fusionx.frontend.values import constant


def _ints(values: Any) -> list[int]:
    return [int(v) for v in values]


def _reshape(args: list[Any], attrs: Any) -> Any:
    data = args[0]
    shape = _ints(attrs.newshape)
    if any(dim < -1 for dim in shape) or bool(attrs.allowzero):
        return None
    return data.reshape([data.shape[i] if dim == 0 else dim for i, dim in enumerate(shape)])


def _transpose(args: list[Any], attrs: Any) -> Any:
    return np.transpose(args[0], _ints(attrs.axes) if attrs.axes else None)


def _expand_dims(args: list[Any], attrs: Any) -> Any:
    data, axis = args[0], int(attrs.axis)
    axis = axis + data.ndim + 1 if axis < 0 else axis
    return data.reshape(data.shape[:axis] + (1,) * int(attrs.num_newaxis) + data.shape[axis:])


def _squeeze(args: list[Any], attrs: Any) -> Any:
    return np.squeeze(args[0], None if attrs.axis is None else tuple(_ints(attrs.axis)))


def _broadcast_to(args: list[Any], attrs: Any) -> Any:
    return np.broadcast_to(args[0], _ints(attrs.shape))


def _cast(args: list[Any], attrs: Any) -> Any:
    is_float_to_int = is_floating(args[0].dtype) and np.dtype(attrs.dtype).kind in "iu"
    # NumPy and the compiled code disagree on floats outside the integer's range.
    return None if is_float_to_int else args[0].astype(attrs.dtype)


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[list[Any], Any], Any]:
    return lambda args, attrs: function(args[0], args[1])


def _unary(function: Callable[[Any], Any]) -> Callable[[list[Any], Any], Any]:
    return lambda args, attrs: function(args[0])


# Relay operator -> its NumPy equivalent on constants, or None where the two could differ.
NUMPY_EQUIVALENTS: dict[str, Callable[[list[Any], Any], Any]] = {
    "add": _binary(np.add),
    "broadcast_to": _broadcast_to,
    "cast": _cast,
    "equal": _binary(np.equal),
    "expand_dims": _expand_dims,
    "greater": _binary(np.greater),
    "less": _binary(np.less),
    "logical_not": _unary(np.logical_not),
    "maximum": _binary(np.maximum),
    "minimum": _binary(np.minimum),
    "multiply": _binary(np.multiply),
    "negative": _unary(np.negative),
    "reshape": _reshape,
    "sqrt": _unary(np.sqrt),
    "squeeze": _squeeze,
    "subtract": _binary(np.subtract),
    "transpose": _transpose,
    "where": lambda args, attrs: np.where(args[0], args[1], args[2]),
}


def fold_call(call: Any) -> Any:
    """Return the constant that `call` computes, or `call` itself where none is known."""
    if not isinstance(call.op, tvm.ir.Op) or call.op.name not in NUMPY_EQUIVALENTS:
        return call
    if not call.args or not all(isinstance(arg, relay.Constant) for arg in call.args):
        return call
    arrays = [numpy_of(arg.data) for arg in call.args]
    result = NUMPY_EQUIVALENTS[call.op.name](arrays, call.attrs)
    return call if result is None else constant(result)


def _rebuild(expr: Any, operands: list[Any], span: Any) -> Any:
    if isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op):
        return fold_call(relay.Call(expr.op, operands, expr.attrs, expr.type_args, span))
    if isinstance(expr, relay.Call) and isinstance(expr.op, relay.GlobalVar):
        return relay.Call(expr.op, operands, expr.attrs, expr.type_args, span)
    if isinstance(expr, relay.Tuple):
        return relay.Tuple(operands, span)
    if isinstance(expr, relay.TupleGetItem):
        if isinstance(operands[0], relay.Tuple):
            return operands[0].fields[expr.index]
        return relay.TupleGetItem(operands[0], expr.index, span)
    if isinstance(expr, relay.Constant):
        return expr
    # Control flow would hide calls from the walk; a stray variable would never get a value.
    raise TypeError(f"the converter made a {type(expr).__name__}, expected calls of operators only")


def seal(outputs: Iterable[Any], name: str, known: dict[Any, Any]) -> list[Any]:
    """Give every call between `known` and `outputs` the span `name`, folding constants on the way.

    Parameters
    ----------
    outputs
        Relay expressions that a converter returned.
    name
        The ONNX node's name.
    known
        Expressions where the walk stops, with what takes their place: themselves, or the earlier
        result that a variable stood for. Equal keys are the same object.

    Returns
    -------
    list of relay.Expr
        The same values, with spans; their types are not inferred.
    """
    outputs = list(outputs)
    span = tvm.relay.Span(tvm.relay.SourceName(name), 0, 0, 0, 0)
    done = dict(known)
    for expr in post_order(relay.Tuple(outputs), known):
        done[expr] = _rebuild(expr, [done[operand] for operand in operands_of(expr)], span)
    return [done[expr] for expr in outputs]
