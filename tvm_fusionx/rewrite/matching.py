"""Match a rule's left side on a graph, and write its right side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.ecg.graph import Attributes, Graph, Node, Value
from tvm_fusionx.operators import AXIS_REDUCTIONS, COMMUTATIVE
from tvm_fusionx.rewrite.term import LITERAL, VARIABLE, Term


@dataclass(frozen=True)
class Match:
    """Where a left side was found.

    Parameters
    ----------
    values
        The value that each variable stands for.
    nodes
        The calls of the left side's operators, root first.
    """

    values: Mapping[str, Value]
    nodes: tuple[Node, ...]


# What is still to be matched, the variables so far, the calls so far.
_State = tuple[tuple[tuple[Term, Value], ...], dict[str, Value], tuple[Node, ...]]


def find_matches(pattern: Term, root: Value) -> Iterator[Match]:
    """Yield each way in which `pattern` matches at `root`, in any order of commutative operands."""
    states: list[_State] = [(((pattern, root),), {}, ())]
    while states:
        pending, values, nodes = states.pop()
        if not pending:
            yield Match(values, nodes)
            continue
        (term, value), rest = pending[0], pending[1:]
        if term.op == VARIABLE:
            known = values.get(term.name)
            if known is None:
                states.append((rest, {**values, term.name: value}, nodes))
            elif known is value:
                states.append((rest, values, nodes))
        elif term.op == LITERAL:
            if is_filled_with(value, term.number):
                states.append((rest, values, nodes))
        elif _is_call_of(term, value):
            for operands in _orders(term, value.node):
                pairs = tuple(zip(term.operands, operands, strict=True))
                states.append((pairs + rest, values, (*nodes, value.node)))


def _is_call_of(term: Term, value: Value) -> bool:
    node = value.node
    if node.op != term.op or len(node.operands) != len(term.operands) or node.returns_tuple:
        return False
    return term.attrs is None or all(node.attrs.get(key) == item for key, item in term.attrs)


def _orders(term: Term, node: Node) -> list[tuple[Value, ...]]:
    if node.op in COMMUTATIVE and node.operands[0] is not node.operands[1]:
        # Popped last first: the written order is tried first.
        return [(node.operands[1], node.operands[0]), node.operands]
    return [node.operands]


def is_filled_with(value: Value, number: float) -> bool:
    """Tell whether a value is a constant all of whose elements are `number`."""
    return value.is_constant and value.array.size > 0 and bool(np.all(value.array == number))


def write(graph: Graph, term: Term, match: Match, dtype: str) -> Value:
    """Add the calls of `term` to a graph and return its value.

    Parameters
    ----------
    graph
        Where to.
    term
        A right side.
    match
        What its variables stand for, and the calls its operators take attributes from.
    dtype
        Element type of literals.
    """
    made: dict[int, Value] = {}
    stack: list[tuple[Term, bool]] = [(term, False)]
    while stack:
        item, is_ready = stack.pop()
        if id(item) in made:
            continue
        if item.op == VARIABLE:
            made[id(item)] = match.values[item.name]
        elif item.op == LITERAL:
            made[id(item)] = graph.constant(item.number, dtype)
        elif is_ready:
            operands = [made[id(operand)] for operand in item.operands]
            made[id(item)] = graph.call(
                item.op, operands, _attributes(item, match), name=match.nodes[0].name
            )
        else:
            stack.append((item, True))
            stack.extend((operand, False) for operand in item.operands)
    return made[id(term)]


def _attributes(term: Term, match: Match) -> Mapping[str, Any]:
    if term.attrs is not None:
        return dict(term.attrs)
    for family in (frozenset([term.op]), AXIS_REDUCTIONS):
        for node in match.nodes:
            if term.op in family and node.op in family:
                return node.attrs
    return Attributes()
