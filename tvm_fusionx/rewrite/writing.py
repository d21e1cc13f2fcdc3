"""Write a rule's right side into a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.ecg.graph import Attributes, Graph, Grouping, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.operators import AXIS_REDUCTIONS
from tvm_fusionx.rewrite.matching import Match, joined
from tvm_fusionx.rewrite.term import COMPUTED, LITERAL, ONE_OF, VARIABLE, Term
from tvm_fusionx.rewrite.value_range import range_of


class CannotWriteError(Exception):
    """A right side cannot be written for this match; carries the reason."""


@dataclass(frozen=True)
class Writing:
    """What a right side is written with.

    Parameters
    ----------
    graph
        Where to.
    match
        Where the left side was found.
    values
        What the variables stand for.
    dtype
        Element type of the result, and of literals that meet nothing else.
    name
        Name of the model's node, for the calls that are added.
    """

    graph: Graph
    match: Match
    values: Mapping[str, Value]
    dtype: str
    name: str = ""


def write(writing: Writing, term: Term) -> Value:
    """Add the calls of `term` to a graph and return its value, the chain's rest joined to it.

    Raises
    ------
    CannotWriteError
        A computed part does not exist for this match, or TVM would compute another value.
    """
    made: dict[int, Value] = {}
    stack: list[tuple[Term, bool]] = [(term, False)]
    while stack:
        item, is_ready = stack.pop()
        if id(item) in made:
            continue
        if item.op == VARIABLE:
            made[id(item)] = writing.values[item.name]
        elif item.op == LITERAL:
            made[id(item)] = writing.graph.constant(item.number, writing.dtype)
        elif is_ready:
            made[id(item)] = _call(writing, item, made)
        else:
            stack.append((item, True))
            stack.extend((operand, False) for operand in item.operands)
    match = writing.match
    if not match.rest:
        return made[id(term)]
    links = (made[id(term)], *match.rest)
    return joined(writing.graph, match.nodes[0].op, links, writing.name)


def _call(writing: Writing, term: Term, made: Mapping[int, Value]) -> Value:
    operands = [made[id(operand)] for operand in term.operands]
    if term.op == COMPUTED:
        assert term.compute is not None
        value = term.compute(writing, *operands)
        if not isinstance(value, Value):
            raise CannotWriteError(value)
        return value
    dtype = next(
        (
            value.dtype
            for value, operand in zip(operands, term.operands, strict=True)
            if operand.op != LITERAL and value.dtype != "bool"
        ),
        writing.dtype,
    )
    operands = [
        writing.graph.constant(operand.number, dtype) if operand.op == LITERAL else value
        for value, operand in zip(operands, term.operands, strict=True)
    ]
    op = writing.match.operators[term.name] if term.op == ONE_OF else term.op
    if op == "subtract" and operands[0] is operands[1] and not range_of(operands[0]).is_finite:
        # So does TVM's simplifier of kernels: `a + (-a)` would lose a NaN as `a - a`.
        raise CannotWriteError("a value less itself is taken for zero, and it may be NaN")
    return writing.graph.call(
        op,
        operands,
        _attributes(op, term, writing),
        grouping=grouping_of(op, len(operands)),
        name=writing.name,
    )


# Operators that read one tuple.
_OF_A_TUPLE = frozenset(["concatenate", "stack"])


def grouping_of(op: str, operands: int) -> Grouping:
    """Return how a call of `op` groups its operands into arguments."""
    return (operands,) if op in _OF_A_TUPLE else (None,) * operands


def _attributes(op: str, term: Term, writing: Writing) -> Mapping[str, Any]:
    if term.attrs is not None:
        return default_attributes(op, **dict(term.attrs))
    match = writing.match
    known = match.attributes.get((op, term.tag or (term.name if term.op == ONE_OF else "")))
    if known is not None:
        return known
    for family in (frozenset([op]), AXIS_REDUCTIONS):
        node = match.first(family)
        if op in family and node is not None:
            return node.attrs
    return Attributes()
