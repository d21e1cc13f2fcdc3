"""Numbers that scale a product further up, folded into its weights: the scale of an attention."""

from __future__ import annotations

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.rewrite.conditions import why_not_scalar
from tvm_fusionx.rewrite.rule import Law, NumericClass, Replacement, constant, graph_rule
from tvm_fusionx.rewrite.term import call, op

# What a number passes: calls that only move data, and sums with a constant.
_PASSED = frozenset(["expand_dims", "reshape", "squeeze", "strided_slice", "transpose"])
_LONGEST_WAY = 12


def _way_to_weights(graph: Graph, value: Value) -> list[tuple[Node, int]]:
    """Return the calls from a value to a product with constant weights, each with an operand on it.

    Only calls that nobody else reads are on it; through a product of two matrices it goes to the
    first whose own way ends in weights. Empty where there is none.
    """
    pending: list[tuple[Value, list[tuple[Node, int]]]] = [(value, [])]
    while pending:
        value, way = pending.pop()
        node = value.node
        if len(way) > _LONGEST_WAY or not graph.has_single_user(value) or not value.type.is_float:
            continue
        if node.op == "nn.dense" and node.operands[1].is_constant:
            return [*way, (node, 1)]
        if node.op in _PASSED:
            pending.append((node.operands[0], [*way, (node, 0)]))
        elif node.op == "nn.batch_matmul":
            # The last one pending is looked at first.
            pending += [(node.operands[side], [*way, (node, side)]) for side in (1, 0)]
        elif node.op == "add":
            sides = (side for side in (0, 1) if node.operands[1 - side].is_constant)
            pending += [(node.operands[side], [*way, (node, side)]) for side in sides]
    return []


@graph_rule(
    roots=("multiply",),
    law=Law.ASSOCIATIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda x, w, b, y, k: (
        call(
            "nn.batch_matmul",
            y,
            call("reshape", op.nn.dense(x, w) + b, attrs={"newshape": [2, 2, 6]}),
        )
        * k
    ),
    x=(4, 8),
    w=constant(6, 8),
    b=constant(6),
    y=(2, 3, 6),
    k=2.0,
)
def fold_number_into_weights_behind(graph: Graph, node: Node) -> list[Replacement] | None:
    """(a.f(dense(x, W) + b))*k -> a.f(dense(x, W*k) + b*k) for a number k, and f moving data."""
    for value, number in (node.operands, tuple(reversed(node.operands))):
        if why_not_scalar(number) is not None or value.type != node.outputs[0]:
            continue
        way = _way_to_weights(graph, value)
        if not any(passed.op in _PASSED or passed.op == "nn.batch_matmul" for passed, _ in way):
            continue  # the product is next to its factor: fold_factor_into_weights
        scaled = way[-1][0].operands[1]
        made = graph.call("multiply", [scaled, number], name=node.name)
        for passed, side in reversed(way):
            operands = list(passed.operands)
            operands[side] = made
            if passed.op == "add":
                operands[1 - side] = graph.call("multiply", [operands[1 - side], number])
            made = graph.call(passed.op, operands, passed.attrs, name=passed.name)
        return [(node[0], made)]
    return None


RULES = (fold_number_into_weights_behind,)
