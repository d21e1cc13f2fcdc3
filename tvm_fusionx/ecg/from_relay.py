"""Relay function to ECG."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.ecg.block_calls import post_order
from tvm_fusionx.ecg.graph import Graph, Value
from tvm_fusionx.ecg.relay_attributes import FUNCTION, from_attrs
from tvm_fusionx.ecg.relay_constants import NotAnArrayError, to_array
from tvm_fusionx.ecg.relay_types import DynamicTypeError, infer_types, result_types, tensor_type


class NotAGraphError(ValueError):
    """The function is more than a static data-flow graph of operator calls."""


def from_relay(func: relay.Function) -> Graph:
    """Turn a type-inferred Relay function into a graph.

    Equal calls become one node. Tuples and their projections disappear: an operand or output is a
    value, a result of one node.

    Parameters
    ----------
    func
        Function without control flow, all of its types static tensors.

    Raises
    ------
    NotAGraphError
        The function has control flow, references, nested tuples or dynamic shapes.
    """
    graph = Graph(infer_types)
    graph.payload = func
    known: dict[Any, Value | tuple[Value, ...]] = {}
    try:
        for param in func.params:
            known[param] = graph.input(param.name_hint, tensor_type(param.checked_type), param)
        for expr in post_order(func.body, known):
            known[expr] = _convert(graph, expr, known)
    except DynamicTypeError as error:
        raise NotAGraphError(str(error)) from error
    result = known[func.body]
    graph.returns_tuple = isinstance(result, tuple)
    graph.outputs = result if isinstance(result, tuple) else (result,)
    return graph


def _convert(graph: Graph, expr: Any, known: dict[Any, Any]) -> Value | tuple[Value, ...]:
    if isinstance(expr, relay.Constant):
        return graph.constant(_array(expr))
    if isinstance(expr, relay.Tuple):
        fields = tuple(known[field] for field in expr.fields)
        if any(isinstance(field, tuple) for field in fields):
            raise NotAGraphError("a tuple of tuples")
        return fields
    if isinstance(expr, relay.TupleGetItem):
        fields = known[expr.tuple_value]
        value: Value = fields[expr.index]
        return value
    if isinstance(expr, relay.Call):
        return _convert_call(graph, expr, known)
    raise NotAGraphError(f"{type(expr).__name__} is not a data-flow expression")


def _array(constant: Any) -> np.ndarray:
    try:
        return to_array(constant)
    except NotAnArrayError as error:
        raise NotAGraphError(str(error)) from error


def _convert_call(graph: Graph, call: Any, known: dict[Any, Any]) -> Value | tuple[Value, ...]:
    operands: list[Value] = []
    grouping: list[int | None] = []
    for argument in call.args:
        value = known[argument]
        if isinstance(value, tuple):
            operands.extend(value)
            grouping.append(len(value))
        else:
            operands.append(value)
            grouping.append(None)
    outputs, returns_tuple = result_types(call.checked_type)
    is_operator = isinstance(call.op, tvm.ir.Op)
    if not is_operator and not isinstance(call.op, (relay.Function, relay.GlobalVar)):
        raise NotAGraphError(f"a call of a {type(call.op).__name__}")
    node = graph.call_node(
        call.op.name if is_operator else FUNCTION,
        operands,
        from_attrs(call.attrs),
        grouping=tuple(grouping),
        outputs=outputs,
        returns_tuple=returns_tuple,
        payload=None if is_operator else call.op,
        name=_source_name(call),
    )
    return tuple(node) if returns_tuple else node[0]


def _source_name(call: Any) -> str:
    span = call.span
    if span is None or getattr(span, "source_name", None) is None:
        return ""
    return str(span.source_name.name)
