"""Write a graph anew without some channels."""

from __future__ import annotations

import numpy as np
import tvm

from tvm_fusionx.ecg.graph import Graph, Value
from tvm_fusionx.rewrite.channels.flow import Flow, Marks
from tvm_fusionx.rewrite.channels.following import Flows


class CannotCutError(Exception):
    """A call cannot be written without some channels."""


def cut(graph: Graph, flows: Flows, going: Marks) -> None:
    """Write every call that channels go from anew, and all that reads it; in place.

    Parameters
    ----------
    going
        For each value that channels are followed in, which of them go: such as
        :func:`~tvm_fusionx.rewrite.channels.liveness.can_go` found, and no other set.

    Raises
    ------
    CannotCutError
        A call does not have the type that it should have then; the graph is as it was.
    """
    mark = graph.mark()
    try:
        now = _written(graph, flows, going)
    except (CannotCutError, tvm.TVMError) as error:
        graph.rollback(mark)
        raise CannotCutError(str(error)) from error
    graph.outputs = tuple(now.get(value, value) for value in graph.outputs)
    graph.prune()


def _written(graph: Graph, flows: Flows, going: Marks) -> dict[Value, Value]:
    """Write the calls that change, and return what stands for each of their results."""
    stays = {value: ~marks for value, marks in going.items() if marks.any()}
    now: dict[Value, Value] = {}
    for node in graph.calls():
        flow = flows.of.get(node)
        operands = [
            _operand(graph, flow, number, value, stays)
            if value.is_constant
            else now.get(value, value)
            for number, value in enumerate(node.operands)
        ]
        is_cut = any(value in stays for value in node)
        if not is_cut and all(map(_is, operands, node.operands)):
            continue
        attrs = node.attrs
        if flow is not None and flow.attributes is not None:
            attrs = flow.attributes(stays)
        written = graph.call_node(
            node.op,
            operands,
            attrs,
            grouping=node.grouping,
            outputs=None if is_cut else node.outputs,
            returns_tuple=node.returns_tuple,
            payload=node.payload,
            name=node.name,
        )
        for value, new in zip(node, written, strict=True):
            if new.shape != _shape(value, flow, stays):
                raise CannotCutError(f"{node} became {written}")
            now[value] = new
    return now


def _is(one: Value, other: Value) -> bool:
    return one is other


def _operand(graph: Graph, flow: Flow | None, number: int, value: Value, stays: Marks) -> Value:
    """Return a constant without the places that go."""
    array = value.array
    for place in flow.cuts.get(number, ()) if flow is not None else ():
        if place.channels_of in stays:
            array = np.compress(stays[place.channels_of], array, place.axis)
    return value if array is value.array else graph.constant(array)


def _shape(value: Value, flow: Flow | None, stays: Marks) -> tuple[int, ...]:
    shape = list(value.shape)
    if flow is not None and value in stays:
        shape[flow.axes[value]] = int(stays[value].sum())
    return tuple(shape)
