"""Blocks of a half precision model compute in float32; what lies between them stays as it is.

A model in float16 says how its tensors are stored. Summed up in it, 4,096 products are 10 % off,
and the square of 300 is infinite. So a block widens what it reads, does all of its arithmetic in
float32, and rounds once, what it stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.ecg.block_calls import (
    is_block_call,
    operands_of,
    post_order,
    with_body,
    with_operands,
)
from tvm_fusionx.ecg.relay_constants import cast_constant
from tvm_fusionx.ecg.retyped import retyped
from tvm_fusionx.layout.constant_uses import uses_of
from tvm_fusionx.layout.stored_floats import why_not_narrow
from tvm_fusionx.operators import MOVEMENTS

SINGLE = "float32"
NARROW = ("float16", "bfloat16")
WIDENED = dict.fromkeys(NARROW, SINGLE)


def compute_in_single(function: relay.Function, most_uses: float) -> relay.Function:
    """Return a function of blocks whose arithmetic is float32 wherever it was narrower.

    Parameters
    ----------
    function
        Typed; its operators stand in inline functions marked ``Primitive``. What is called
        otherwise, blocks that only move, and those that TVM schedules by itself stay as they are.
        A function without blocks, which the planner could not take, is computed in float32 whole.
    most_uses
        How often each element of a constant may be multiplied for it to stay narrow: one that is
        used more often is widened here, once, and not each time that it is read.

    Returns
    -------
    relay.Function
        The same parameters and results, and their types; not typed.
    """
    order = post_order(function.body)
    if not any(map(is_block_call, order)) and why_not_single(function) is None:
        return computed_in_single(function)
    made: dict[Any, Any] = {}
    for expr in order:
        made[expr] = _rebuilt(expr, made, most_uses)
    return with_body(function, made[function.body])


def _rebuilt(expr: Any, made: Mapping[Any, Any], most_uses: float) -> Any:
    operands = [made[operand] for operand in operands_of(expr)]
    if is_block_call(expr) and why_not_single(expr.op) is None:
        return _widened(expr, operands, most_uses)
    return with_operands(expr, operands)


def computed_in_single(function: relay.Function) -> relay.Function:
    """Return a function of operators that takes and gives what it did, and computes in float32.

    Parameters
    ----------
    function
        Typed, and :func:`why_not_single` has no reason against it.

    Returns
    -------
    relay.Function
        The same parameters; not typed.
    """
    inside = {
        param: relay.cast(param, SINGLE) if _is_narrow(param) else param
        for param in function.params
    }
    body = _stored(retyped(function, WIDENED, inside), function.body.checked_type)
    return relay.Function(function.params, body, None, function.type_params, function.attrs)


def why_not_single(block: relay.Function) -> str | None:
    """Return why a block's arithmetic stays in the types it has, or None."""
    calls = [expr for expr in post_order(block.body) if isinstance(expr, relay.Call)]
    if not any(_is_narrow(each.checked_type) for each in (*block.params, *calls)):
        return "nothing in it is narrow"
    reason = why_not_narrow(block)
    if reason is not None:
        return reason
    if all(call.op.name in MOVEMENTS for call in calls):
        return "it only moves"
    if any(call.op.name == "reinterpret" for call in calls):
        return "it reads bits"
    return None


def _widened(call: Any, operands: list[Any], most_uses: float) -> Any:
    block = call.op
    params, given, inside = [], [], {}
    for param, operand in zip(block.params, operands, strict=True):
        of = param.checked_type
        is_often_used = (
            isinstance(operand, relay.Constant)
            and _is_narrow(of)
            and uses_of(operand, block) > most_uses
        )
        given.append(cast_constant(operand, SINGLE) if is_often_used else operand)
        kept = relay.Var(
            param.name_hint, relay.TensorType(of.shape, SINGLE) if is_often_used else of
        )
        params.append(kept)
        is_cast = _is_narrow(of) and not is_often_used
        inside[param] = relay.cast(kept, SINGLE) if is_cast else kept
    body = _stored(retyped(block, WIDENED, inside), block.body.checked_type)
    return relay.Call(
        relay.Function(params, body, None, block.type_params, block.attrs),
        given,
        call.attrs,
        None,
        call.span,
    )


def _stored(body: Any, kind: Any) -> Any:
    """Return a body whose results have the types they had."""
    if isinstance(kind, tvm.ir.TensorType):
        return relay.cast(body, kind.dtype) if _is_narrow(kind) else body
    fields = [
        body.fields[index] if isinstance(body, relay.Tuple) else relay.TupleGetItem(body, index)
        for index in range(len(kind.fields))
    ]
    if not any(map(_is_narrow, kind.fields)):
        return body
    return relay.Tuple([_stored(each, of) for each, of in zip(fields, kind.fields, strict=True)])


def _is_narrow(kind: Any) -> bool:
    if isinstance(kind, relay.Expr):
        kind = kind.checked_type
    if isinstance(kind, tvm.ir.TupleType):
        return any(map(_is_narrow, kind.fields))
    return isinstance(kind, tvm.ir.TensorType) and str(kind.dtype) in NARROW
