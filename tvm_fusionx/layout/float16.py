"""Keep what lies in memory between blocks, and weights, as float16; compute in float32.

A block takes its operands as they lie in memory, widens them, computes as before, and narrows its
result: half the bytes are moved and stored, and every sum is one of float32. The model's own inputs
and outputs stay float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.ecg.block_calls import is_block_call, operands_of, post_order

SINGLE, HALF = "float32", "float16"

# A smaller constant (a bias, a scale) is read once a kernel and costs no time worth its digits.
FEWEST_ELEMENTS = 1024

LARGEST_HALF = float(np.finfo(np.float16).max)

RESHAPE_ONLY = "relay.reshape_only"

# TVM's OpPatternKind: operators without tensor expressions, which TVM schedules by itself.
OPAQUE = 8

# One result of a call: the call, and its number among the results.
Place = tuple[Any, int]


def store_float16(function: relay.Function) -> relay.Function:
    """Return a function of blocks whose tensors between blocks, and large constants, are float16.

    Parameters
    ----------
    function
        Typed; its operators stand in inline functions marked ``Primitive``. What is called
        otherwise, and blocks with operators that TVM schedules by itself, keep float32.

    Returns
    -------
    relay.Function
        The same parameters and results; not typed.
    """
    order = post_order(function.body)
    narrow = _narrow_places(function.body, order)
    made: dict[Any, Any] = {}
    for expr in order:
        made[expr] = _block_call(expr, made, narrow) if is_block_call(expr) else _same(expr, made)
    return relay.Function(
        function.params, made[function.body], None, function.type_params, function.attrs
    )


def _narrow_places(result: Any, order: list[Any]) -> set[Place]:
    """Return the results of blocks that only blocks read, which take them in float16."""
    narrow = {
        (call, index)
        for call in order
        if is_block_call(call) and why_not_float16(call.op) is None
        for index, of in enumerate(_types(call))
        if of.dtype == SINGLE
    }
    kept = [_place(result)]
    for expr in order:
        if isinstance(expr, relay.TupleGetItem):
            continue
        if not is_block_call(expr) or why_not_float16(expr.op) is not None:
            kept += [_place(operand) for operand in operands_of(expr)]
    narrow -= {place for place in kept if place is not None}
    narrow -= {place for place in narrow if place[0].same_as(result)}
    views = [call for call in order if is_block_call(call) and _is_view(call)]
    changed = True
    while changed:
        changed = False
        for call in views:
            pair = (_place(call.args[0]), (call, 0))
            if pair[1] in narrow and pair[0] in narrow:
                continue
            changed |= bool(narrow & set(pair))
            narrow -= {place for place in pair if place is not None}
    return narrow


def why_not_float16(block: relay.Function) -> str | None:
    """Return why a block cannot take and give float16, or None."""
    for expr in post_order(block.body):
        if not isinstance(expr, relay.Call):
            continue
        if not isinstance(expr.op, tvm.ir.Op):
            return "it calls a function"
        pattern = expr.op.get_attr("TOpPattern")
        if pattern is None or int(pattern) >= OPAQUE:
            return f"TVM schedules {expr.op.name} by itself"
    return None


def _block_call(call: Any, made: dict[Any, Any], narrow: set[Place]) -> Any:
    block = call.op
    params, operands, inside = [], [], {}
    can_widen = why_not_float16(block) is None and not _is_view(call)
    for param, given in zip(block.params, call.args, strict=True):
        operand, is_half = made[given], _place(given) in narrow
        if can_widen and isinstance(given, relay.Constant) and _is_narrowed(given):
            operand = relay.Constant(tvm.nd.array(given.data.numpy().astype(HALF)))
            is_half = True
        operands.append(operand)
        of = given.checked_type
        kept = relay.Var(param.name_hint, relay.TensorType(of.shape, HALF) if is_half else of)
        params.append(kept)
        is_widened = is_half and not _is_view(call)
        inside[param] = relay.cast(kept, SINGLE) if is_widened else kept
    body = relay.bind(block.body, inside)
    if not _is_view(call):
        body = _narrowed(body, call, narrow)
    return relay.Call(
        relay.Function(params, body, None, block.type_params, block.attrs),
        operands,
        call.attrs,
        None,
        call.span,
    )


def _narrowed(body: Any, call: Any, narrow: set[Place]) -> Any:
    """Return a block's body with the results that lie in memory as float16 cast to it."""
    if not isinstance(call.checked_type, relay.TupleType):
        return relay.cast(body, HALF) if (call, 0) in narrow else body
    if not any((call, index) in narrow for index in range(len(call.checked_type.fields))):
        return body
    fields = list(body.fields) if isinstance(body, relay.Tuple) else None
    results = []
    for index in range(len(call.checked_type.fields)):
        field = fields[index] if fields is not None else relay.TupleGetItem(body, index)
        results.append(relay.cast(field, HALF) if (call, index) in narrow else field)
    return relay.Tuple(results)


def _same(expr: Any, made: dict[Any, Any]) -> Any:
    operands = [made[operand] for operand in operands_of(expr)]
    if isinstance(expr, relay.Call):
        return relay.Call(expr.op, operands, expr.attrs, expr.type_args, expr.span)
    if isinstance(expr, relay.Tuple):
        return relay.Tuple(operands, expr.span)
    if isinstance(expr, relay.TupleGetItem):
        return relay.TupleGetItem(operands[0], expr.index, expr.span)
    return expr


def _is_narrowed(constant: Any) -> bool:
    of = constant.checked_type
    value = constant.data.numpy()
    return bool(
        of.dtype == SINGLE and value.size >= FEWEST_ELEMENTS and np.abs(value).max() <= LARGEST_HALF
    )


def _is_view(call: Any) -> bool:
    """Tell whether a block only gives its operand another shape; no kernel runs."""
    return RESHAPE_ONLY in (call.op.attrs or {})


def _place(expr: Any) -> Place | None:
    if isinstance(expr, relay.TupleGetItem):
        return expr.tuple_value, int(expr.index)
    return (expr, 0) if isinstance(expr, relay.Call) else None


def _types(call: Any) -> list[Any]:
    of = call.checked_type
    return list(of.fields) if isinstance(of, relay.TupleType) else [of]
