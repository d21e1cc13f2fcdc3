"""Walk a Relay function and find its blocks: inline functions marked ``Primitive``."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.ecg.to_relay import BLOCK_NAME

# Attribute of functions that call others and compute nothing that passes could fuse.
STEERS = "fusionx.steers"


def is_block_call(expr: Any) -> bool:
    """Tell whether `expr` calls an inline function marked ``Primitive``."""
    return (
        isinstance(expr, relay.Call)
        and isinstance(expr.op, relay.Function)
        and "Primitive" in (expr.op.attrs or {})
    )


def count_blocks(mod: tvm.IRModule) -> int:
    """Return how many calls in the functions of `mod` are of blocks that a plan of ours made."""
    return sum(
        is_block_call(expr) and BLOCK_NAME in expr.op.attrs
        for func in mod.functions.values()
        if isinstance(func, relay.Function)
        for expr in post_order(func.body)
    )


def is_in_blocks(mod: tvm.IRModule) -> bool:
    """Tell whether all that the functions of `mod` compute is computed by inline blocks."""
    return all(
        not isinstance(expr, relay.Call) or is_block_call(expr)
        for func in mod.functions.values()
        if isinstance(func, relay.Function)
        for expr in post_order(func.body)
    )


def post_order(root: Any, known: Container[Any] = ()) -> list[Any]:
    """Return every expression below `root`, operands before users, without entering functions.

    Iterative: a model can be thousands of operators deep.

    Parameters
    ----------
    known
        Expressions to leave out, with what only they need.
    """
    order: list[Any] = []
    done: set[Any] = set()
    stack = [(root, False)]
    while stack:
        expr, operands_done = stack.pop()
        if expr in done or expr in known:
            continue
        if operands_done:
            done.add(expr)
            order.append(expr)
            continue
        stack.append((expr, True))
        stack.extend((operand, False) for operand in reversed(operands_of(expr)))
    return order


def operands_of(expr: Any) -> list[Any]:
    """Return the expressions that `expr` is computed from, in order."""
    if isinstance(expr, relay.Call):
        return list(expr.args)
    if isinstance(expr, relay.Tuple):
        return list(expr.fields)
    if isinstance(expr, relay.TupleGetItem):
        return [expr.tuple_value]
    return []


def with_operands(expr: Any, operands: list[Any]) -> Any:
    """Return the expression that computes from `operands` what `expr` does from its own."""
    if isinstance(expr, relay.Call):
        return relay.Call(expr.op, operands, expr.attrs, expr.type_args, expr.span)
    if isinstance(expr, relay.Tuple):
        return relay.Tuple(operands, expr.span)
    if isinstance(expr, relay.TupleGetItem):
        return relay.TupleGetItem(operands[0], expr.index, expr.span)
    return expr


def with_body(function: relay.Function, body: Any) -> relay.Function:
    """Return `function` with another body of its parameters; not typed."""
    return relay.Function(
        function.params, body, function.ret_type, function.type_params, function.attrs
    )
