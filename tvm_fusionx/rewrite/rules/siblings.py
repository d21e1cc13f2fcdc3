"""Products of several inputs with one constant: stacked, they read it once (Glow, TASO)."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.ecg.construct import slice_axis
from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.rewrite.rule import (
    Law,
    NumericClass,
    Refused,
    Replacement,
    constant,
    graph_rule,
)
from tvm_fusionx.rewrite.term import op

# How far upwards a dependence is looked for; a larger graph is taken to have one.
_MOST_CALLS = 256

SHARED: dict[str, Any] = {
    "law": Law.DISTRIBUTIVE,
    "numeric_class": NumericClass.REASSOCIATES,
}


def _with_same_weights(graph: Graph, node: Node) -> list[Node]:
    """Return the calls of one kind with the same constant weights, in the order of the graph."""
    weight = node.operands[1]
    if not weight.is_constant or not node.outputs[0].is_float:
        return []
    return [
        user
        for user in graph.users(weight.node)
        if user.op == node.op and user.operands[1] is weight and user.attrs == node.attrs
    ]


def _may_depend(graph: Graph, first: Node, second: Node) -> bool:
    """Tell whether either call may need the other's result."""
    for start, goal in ((first, second), (second, first)):
        pending, seen = [start], {start}
        while pending:
            for value in pending.pop().operands:
                if value.node is goal or len(seen) > _MOST_CALLS:
                    return True
                if value.node.is_call and value.node not in seen:
                    seen.add(value.node)
                    pending.append(value.node)
    return False


def _stacked(graph: Graph, first: Node, second: Node) -> list[Replacement]:
    """Return one call on both inputs, one below the other, and its two parts."""
    images = [first.operands[0], second.operands[0]]
    joined = graph.call(
        "concatenate",
        images,
        default_attributes("concatenate", axis=0),
        grouping=(2,),
        name=first.name,
    )
    both = graph.call(first.op, [joined, first.operands[1]], first.attrs, name=first.name)
    rows = images[0].shape[0]
    upper = slice_axis(graph, both, 0, 0, rows, first.name)
    lower = slice_axis(graph, both, 0, rows, both.shape[0], second.name)
    return [(first[0], upper), (second[0], lower)]


@graph_rule(
    roots=("nn.dense",),
    example=lambda x, y, w: (op.nn.dense(x, w), op.tanh(op.nn.dense(y, w))),
    x=(1, 8),
    y=(2, 8),
    w=constant(6, 8),
    **SHARED,
)
def stack_skinny_products(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """dense(x, W), dense(y, W) -> slices of dense(x over y, W) where W is larger than they are."""
    siblings = _with_same_weights(graph, node)
    if len(siblings) < 2 or siblings[0] is not node:
        return None
    other = siblings[1]
    moved = sum(call.operands[0].type.bytes + call.outputs[0].bytes for call in siblings[:2])
    if moved > node.operands[1].type.bytes:
        return Refused("the inputs and results are larger than the matrix that is read once less")
    if _may_depend(graph, node, other):
        return Refused("one of the products may need the other")
    return _stacked(graph, node, other)


RULES = (stack_skinny_products,)
