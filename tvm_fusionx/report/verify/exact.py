"""What a block's arithmetic gives without rounding to speak of: the same operators in float64.

Two float32 programs that differ may both be right, and the plain one is not always the nearer:
TVM's softmax adds thousands of probabilities one after the other and is off by 4e-5 where a sum in
lanes is off by 2e-6. Float64 decides between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.ecg.block_calls import post_order
from tvm_fusionx.ecg.node import Attributes
from tvm_fusionx.ecg.relay_attributes import from_attrs, to_attrs
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.report.verify.unoptimised import build_unoptimised

NARROW = ("float32", "float16", "bfloat16")
WIDE = "float64"


def exact_outputs(
    function: relay.Function, operands: Sequence[np.ndarray], target: Any
) -> list[np.ndarray]:
    """Run a block's function in float64.

    Parameters
    ----------
    function
        A block: operators on its parameters, float constants included.
    operands
        One array for each parameter, in order.
    target
        What to compile for; it must run on this machine.

    Returns
    -------
    list of np.ndarray
        One array for each output; floating point ones in float64.

    Raises
    ------
    tvm.TVMError
        TVM has no float64 version of an operator.
    """
    module = in_float64(function)
    inputs = {
        str(parameter.name_hint): operand.astype(_widened(str(operand.dtype)))
        for parameter, operand in zip(module["main"].params, operands, strict=True)
    }
    return run_once(build_unoptimised(module, target), inputs)


def in_float64(function: relay.Function) -> tvm.IRModule:
    """Return a module whose ``main`` is `function` with every narrower float made a float64."""
    replacement: dict[Any, Any] = {}
    parameters = []
    for position, parameter in enumerate(function.params):
        of = parameter.checked_type
        wide = relay.TensorType(of.shape, _widened(str(of.dtype)))
        replacement[parameter] = relay.Var(f"operand_{position}", wide)
        parameters.append(replacement[parameter])
    for expr in post_order(function.body):
        if expr not in replacement:
            replacement[expr] = _rebuilt(expr, replacement)
    body = replacement[function.body]
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(parameters, body)))


def _rebuilt(expr: Any, replacement: dict[Any, Any]) -> Any:
    if isinstance(expr, relay.Constant):
        array = expr.data.numpy()
        # Not relay.const, which makes float32 of float64.
        return relay.Constant(tvm.nd.array(array.astype(_widened(str(array.dtype)))))
    if isinstance(expr, relay.Call):
        operands = [replacement[operand] for operand in expr.args]
        return relay.Call(expr.op, operands, _wide_attributes(expr), span=expr.span)
    if isinstance(expr, relay.Tuple):
        return relay.Tuple([replacement[field] for field in expr.fields])
    if isinstance(expr, relay.TupleGetItem):
        return relay.TupleGetItem(replacement[expr.tuple_value], expr.index)
    return expr


def _wide_attributes(call: relay.Call) -> Any:
    given = from_attrs(call.attrs)
    if not any(value in NARROW for value in given.values() if isinstance(value, str)):
        return call.attrs
    wide = {k: _widened(v) if isinstance(v, str) else v for k, v in given.items()}
    return to_attrs(call.op.name, Attributes(wide))


def _widened(dtype: str) -> str:
    return WIDE if dtype in NARROW else dtype
