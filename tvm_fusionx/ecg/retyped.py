"""A Relay function with other element types: the same operators, wider or narrower floats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.ecg.block_calls import post_order
from tvm_fusionx.ecg.node import Attributes
from tvm_fusionx.ecg.relay_attributes import from_attrs, to_attrs
from tvm_fusionx.ecg.relay_constants import cast_constant


def retyped(
    function: relay.Function, types: Mapping[str, str], operands: Mapping[Any, Any]
) -> relay.Expr:
    """Return a function's body in which each type that `types` names is the type that it gives.

    Parameters
    ----------
    function
        Typed; operators on its parameters and constants. No calls of other functions.
    types
        From dtypes to dtypes: ``{"float16": "float32"}``.
    operands
        What takes the place of each parameter, of the new types.

    Returns
    -------
    relay.Expr
        Not typed. Casts between types that became equal are gone.
    """
    replacement = dict(operands)
    kinds: dict[Any, str] = {}
    for expr in post_order(function.body):
        of = expr.checked_type
        if isinstance(of, tvm.ir.TensorType):
            kinds[expr] = types.get(of.dtype, of.dtype)
        if expr not in replacement:
            replacement[expr] = _rebuilt(expr, replacement, types, kinds)
    return replacement[function.body]


def _rebuilt(
    expr: Any, replacement: Mapping[Any, Any], types: Mapping[str, str], kinds: Mapping[Any, str]
) -> Any:
    if isinstance(expr, relay.Constant):
        return cast_constant(expr, kinds[expr])
    if isinstance(expr, relay.Call):
        operands = [replacement[operand] for operand in expr.args]
        if expr.op.name == "cast" and kinds[expr.args[0]] == kinds[expr]:
            return operands[0]
        attrs = _attributes(expr, types)
        return relay.Call(expr.op, operands, attrs, span=expr.span)
    if isinstance(expr, relay.Tuple):
        return relay.Tuple([replacement[field] for field in expr.fields], expr.span)
    if isinstance(expr, relay.TupleGetItem):
        return relay.TupleGetItem(replacement[expr.tuple_value], expr.index, expr.span)
    return expr


def _attributes(call: relay.Call, types: Mapping[str, str]) -> Any:
    given = from_attrs(call.attrs)
    if not any(value in types for value in given.values() if isinstance(value, str)):
        return call.attrs
    new = {k: types.get(v, v) if isinstance(v, str) else v for k, v in given.items()}
    return to_attrs(call.op.name, Attributes(new))
