"""ECG to Relay function, with or without blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.ecg.graph import CONSTANT, INPUT, Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import FUNCTION, to_attrs
from tvm_fusionx.ecg.relay_constants import to_constant
from tvm_fusionx.ecg.relay_types import arguments, relay_type

BLOCK_NAME = "fusionx.block"
BLOCK_NODES = "fusionx.nodes"


@dataclass(frozen=True)
class RelayBlock:
    """A group of nodes that becomes one primitive function.

    Parameters
    ----------
    name
        Unique name; becomes part of the kernel's name.
    nodes
        Its calls, operands before users.
    is_reshape_only
        Whether the block moves no data, so that no kernel is needed.
    """

    name: str
    nodes: tuple[Node, ...]
    is_reshape_only: bool = False


def to_relay(graph: Graph, blocks: Sequence[RelayBlock] = ()) -> relay.Function:
    """Turn a graph back into a Relay function.

    Parameters
    ----------
    graph
        Any graph.
    blocks
        Groups of nodes, disjoint and each without a path that leaves and re-enters it. Each becomes
        an inline ``Primitive`` function; nodes in no block stay plain calls.

    Returns
    -------
    func
        A function with the parameters of the function the graph came from, not type-inferred.
    """
    exprs: dict[Value, Any] = {}
    for node in graph.inputs:
        exprs[node[0]] = _parameter(node)
    block_of = {node: block for block in blocks for node in block.nodes}
    done: set[str] = set()
    for node in _order(graph, block_of):
        if node.op == CONSTANT:
            exprs[node[0]] = to_constant(node.payload)
        elif node in block_of:
            block = block_of[node]
            if block.name not in done:
                done.add(block.name)
                _emit_block(graph, block, exprs)
        elif node.op != INPUT:
            _emit_call(node, exprs, exprs)
    results = [exprs[value] for value in graph.outputs]
    body = relay.Tuple(results) if graph.returns_tuple else results[0]
    params = [exprs[node[0]] for node in graph.inputs]
    origin = graph.payload
    attrs = origin.attrs if origin is not None else None
    return relay.Function(params, body, None, [], attrs)


def _parameter(node: Node) -> Any:
    if node.payload is not None:
        return node.payload
    return relay.Var(node.name, relay_type(node.outputs[0]))


def _order(graph: Graph, block_of: Mapping[Node, RelayBlock]) -> list[Node]:
    """Return the live nodes so that everything a block reads comes before any node of it."""
    order: list[Node] = []
    state: dict[Any, bool] = {}
    stack: list[Node] = [value.node for value in reversed(graph.outputs)]
    while stack:
        node = stack[-1]
        unit: Any = block_of.get(node, node)
        finished = state.get(unit)
        if finished is not None:
            stack.pop()
            if not finished:
                state[unit] = True
                order.append(node)
            continue
        state[unit] = False
        members = unit.nodes if isinstance(unit, RelayBlock) else (node,)
        for member in reversed(members):
            for value in reversed(member.operands):
                if state.get(block_of.get(value.node, value.node)) is None:
                    stack.append(value.node)
    return order


def _emit_call(node: Node, operands_from: Mapping[Value, Any], into: dict[Value, Any]) -> None:
    """Write one call; its results become projections of it when it returns a tuple."""
    values = [operands_from[value] for value in node.operands]
    op = node.payload if node.op == FUNCTION else relay.op.get(node.op)
    attrs = node.attrs.origin if node.op == FUNCTION else to_attrs(node.op, node.attrs)
    call = relay.Call(op, arguments(values, node.grouping), attrs, None, _span(node.name))
    if node.returns_tuple:
        for value in node:
            into[value] = relay.TupleGetItem(call, value.index)
    else:
        into[node[0]] = call


def _emit_block(graph: Graph, block: RelayBlock, exprs: dict[Value, Any]) -> None:
    members = set(block.nodes)
    inner: dict[Value, Any] = {}
    params: list[Any] = []
    actuals: list[Any] = []
    for node in block.nodes:
        for value in node.operands:
            if value in inner or value.node in members:
                continue
            if is_inline_constant(value):
                inner[value] = to_constant(value.array)
            else:
                param = relay.Var(f"p{len(params)}", relay_type(value.type))
                inner[value] = param
                params.append(param)
                actuals.append(exprs[value])
        _emit_call(node, inner, inner)
    results = block_outputs(graph, block.nodes)
    single = len(results) == 1
    body = inner[results[0]] if single else relay.Tuple([inner[value] for value in results])
    types = [relay_type(value.type) for value in results]
    function = relay.Function(params, body, types[0] if single else relay.TupleType(types))
    function = function.with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    function = function.with_attr(BLOCK_NAME, block.name)
    nodes = ",".join(dict.fromkeys(node.name for node in block.nodes if node.name))
    function = function.with_attr(BLOCK_NODES, nodes)
    if block.is_reshape_only:
        function = function.with_attr("relay.reshape_only", tvm.tir.IntImm("int32", 1))
    call = relay.Call(function, actuals, None, None, _span(block.name))
    for position, value in enumerate(results):
        exprs[value] = call if single else relay.TupleGetItem(call, position)


# TVM writes only these into a kernel's expressions; it aborts on a scalar of another type.
_INLINE_DTYPES = frozenset({"bool", "float32", "float64", "int32", "int64"})


def is_inline_constant(value: Value) -> bool:
    """Tell whether a constant is written into the kernel instead of being passed to it."""
    return value.is_constant and value.shape == () and value.dtype in _INLINE_DTYPES


def block_outputs(graph: Graph, nodes: Sequence[Node]) -> tuple[Value, ...]:
    """Return the results of `nodes` that are read outside of them, in order."""
    members = set(nodes)
    returned = set(graph.outputs)
    out = []
    for node in nodes:
        outside = [user for user in graph.users(node) if user not in members]
        for value in node:
            if value in returned or any(value in user.operands for user in outside):
                out.append(value)
    return tuple(out)


def _span(name: str) -> Any:
    return relay.Span(relay.SourceName(name), 0, 0, 0, 0) if name else None
