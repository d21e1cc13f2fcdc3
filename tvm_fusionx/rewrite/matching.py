"""Match a rule's left side on a graph, in any order and grouping of its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tvm_fusionx.ecg.graph import CONSTANT, Attributes, Graph, Node, Value
from tvm_fusionx.operators import COMMUTATIVE
from tvm_fusionx.rewrite.term import LITERAL, ONE_OF, VARIABLE, Term

# Operators whose chains are matched flat: neither order nor grouping matters.
CHAINS = frozenset(
    [
        "add",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "logical_and",
        "logical_or",
        "maximum",
        "minimum",
        "multiply",
    ]
)
# Of these, the ones for which regrouping changes the last bits of floating point numbers.
ROUNDING_CHAINS = frozenset(["add", "multiply"])

# A longer chain is matched in pieces: matching is exponential in its length.
_LONGEST_CHAIN = 8
# In a longer one nothing is looked for before it is matched.
_MOST_CALLS_OF_A_CHAIN = 64
# Ways to match one rule at one call; symmetric patterns find each several times.
_MOST_MATCHES = 32


@dataclass(frozen=True)
class Group:
    """Several links of a chain that one variable stands for."""

    op: str
    values: tuple[Value, ...]


_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Match(NamedTuple):
    """Where a left side was found.

    Parameters
    ----------
    values
        The value that each variable stands for.
    nodes
        The calls of the left side's operators, root first.
    operators
        The operator that each ``one of`` stands for.
    attributes
        Attributes of each operator (and tag) of the left side.
    rest
        Links of the root's chain that the left side does not cover.
    """

    values: Mapping[str, Value | Group] = _NOTHING
    nodes: tuple[Node, ...] = ()
    operators: Mapping[str, str] = _NOTHING
    attributes: Mapping[tuple[str, str], Attributes] = _NOTHING
    rest: tuple[Value, ...] = ()

    def first(self, ops: frozenset[str]) -> Node | None:
        """Return the first matched call of one of the operators `ops`."""
        return next((node for node in self.nodes if node.op in ops), None)


Regroups = Callable[[Node], bool]


def find_matches(
    graph: Graph, pattern: Term, root: Value, *, keeps_bits: bool = False
) -> Iterator[Match]:
    """Yield the ways in which `pattern` matches at `root`.

    Operands of commutative operators match in any order; chains of associative ones in any grouping
    too, and may be longer than the pattern: at the root, what is left over is kept as
    :attr:`Match.rest`; below, one variable stands for it.

    Parameters
    ----------
    graph
        Tells who else reads a link: only a link with one reader is opened.
    pattern
        A left side.
    root
        Where to match.
    keeps_bits
        Whether chains whose regrouping rounds differently stay as they are.
    """

    def regroups(node: Node) -> bool:
        if node.op not in CHAINS:
            return False
        return not (keeps_bits and node.op in ROUNDING_CHAINS and node.outputs[0].is_float)

    found = _matches(graph, pattern, root, Match(), regroups, is_root=True)
    for number, match in enumerate(found):
        if number == _MOST_MATCHES:
            return
        yield match


class Outline(NamedTuple):
    """What a left side asks of a call whatever its variables are: a quick way to say no.

    Parameters
    ----------
    operators
        Operators that the call may be of; ``constant`` for a number.
    below
        What it asks of what the call reads: each of some operand, or link of the call's chain.
    """

    operators: frozenset[str]
    below: tuple[Outline, ...]


def outline(pattern: Term) -> Outline:
    """Return what a left side asks of operators; of what a variable stands for it asks nothing."""
    operators = frozenset([CONSTANT] if pattern.op == LITERAL else pattern.operators)
    links = _pattern_links(pattern) if operators <= CHAINS else pattern.operands
    return Outline(operators, tuple(outline(item) for item in links if item.op != VARIABLE))


def may_match(asked: Outline, node: Node) -> bool:
    """Tell whether a left side may match at a call, by operators alone; if not, it does not."""
    if node.op not in asked.operators:
        return False
    if not asked.below:
        return True
    read = _read_through_chain(node)
    if read is None:
        return True
    return all(any(may_match(item, other) for other in read) for item in asked.below)


def operators_read(node: Node) -> frozenset[str] | None:
    """Return the operators of what a call reads, or the links of its chain; None for too many."""
    read = _read_through_chain(node)
    return None if read is None else frozenset([other.op for other in read])


def _read_through_chain(node: Node) -> list[Node] | None:
    read = [value.node for value in node.operands]
    if node.op in CHAINS:
        for other in read:  # which grows meanwhile
            if other.op == node.op:
                read.extend(value.node for value in other.operands)
                if len(read) > _MOST_CALLS_OF_A_CHAIN:
                    return None
    return read


def _matches(
    graph: Graph, term: Term, value: Value, match: Match, regroups: Regroups, *, is_root: bool
) -> Iterator[Match]:
    if term.op == VARIABLE:
        yield from _bound(term, value, match)
        return
    if term.op == LITERAL:
        if is_filled_with(value, term.number):
            yield match
        return
    node = value.node
    if node.op not in term.operators or node.returns_tuple:
        return
    entered = _entered(term, node, match)
    if entered is None:
        return
    if regroups(node):
        patterns = _pattern_links(term)
        links = chain_links(graph, node)
        if len(links) >= len(patterns):
            yield from _assigned(
                graph, node.op, patterns, links, entered, regroups, is_root=is_root
            )
        return
    if len(node.operands) != len(term.operands):
        return
    for operands in _orders(node):
        yield from _all(graph, tuple(zip(term.operands, operands, strict=True)), entered, regroups)


def _all(
    graph: Graph, pairs: tuple[tuple[Term, Value], ...], match: Match, regroups: Regroups
) -> Iterator[Match]:
    if not pairs:
        yield match
        return
    (term, value), others = pairs[0], pairs[1:]
    for found in _matches(graph, term, value, match, regroups, is_root=False):
        yield from _all(graph, others, found, regroups)


def _bound(term: Term, value: Value | Group, match: Match) -> Iterator[Match]:
    known = match.values.get(term.name)
    if known is None:
        yield match._replace(values={**match.values, term.name: value})
    elif known is value or (isinstance(known, Group) and known == value):
        yield match


def _entered(term: Term, node: Node, match: Match) -> Match | None:
    """Return the match with a call's operator and attributes noted, or None if they disagree."""
    if term.attrs is not None and any(node.attrs.get(key) != item for key, item in term.attrs):
        return None
    operators: Mapping[str, str] = match.operators
    if term.op == ONE_OF:
        if operators.get(term.name, node.op) != node.op:
            return None
        operators = {**operators, term.name: node.op}
    key = (node.op, term.tag or (term.name if term.op == ONE_OF else ""))
    if match.attributes.get(key, node.attrs) != node.attrs:
        return None
    return Match(
        match.values,
        (*match.nodes, node),
        operators,
        {**match.attributes, key: node.attrs},
        match.rest,
    )


def _orders(node: Node) -> list[tuple[Value, ...]]:
    if node.op in COMMUTATIVE and node.operands[0] is not node.operands[1]:
        return [node.operands, (node.operands[1], node.operands[0])]
    return [node.operands]


# ---- chains -------------------------------------------------------------------------------------


def chain_links(graph: Graph, top: Node) -> tuple[Value, ...]:
    """Return the operands of a chain of one operator, left to right.

    A link that somebody else reads too is not opened, nor the square of a link.
    """
    links: list[Value] = list(top.operands)
    position = 0
    while position < len(links) and len(links) < _LONGEST_CHAIN:
        value = links[position]
        node = value.node
        if (
            node.op == top.op
            and node.operands[0] is not node.operands[1]
            and links.count(value) == 1
            and graph.has_single_user(value)
        ):
            links[position : position + 1] = node.operands
        else:
            position += 1
    return tuple(links)


def _pattern_links(term: Term) -> tuple[Term, ...]:
    links: list[Term] = []
    for operand in term.operands:
        is_link = (operand.op, operand.name) == (term.op, term.name)
        # A square is a link of its own, on both sides.
        is_link = is_link and operand.operands[0] != operand.operands[1]
        links.extend(_pattern_links(operand) if is_link else (operand,))
    return tuple(links)


def _assigned(
    graph: Graph,
    op: str,
    patterns: tuple[Term, ...],
    links: tuple[Value, ...],
    match: Match,
    regroups: Regroups,
    *,
    is_root: bool,
) -> Iterator[Match]:
    """Yield the ways to give each pattern a link; a variable below the root may take the rest."""
    if not patterns:
        if not links:
            yield match
        elif is_root:
            yield match._replace(rest=links)
        return
    position = min(range(len(patterns)), key=lambda item: _freedom(patterns[item], match))
    pattern = patterns[position]
    others = (*patterns[:position], *patterns[position + 1 :])
    if not others and not is_root and len(links) > 1:
        if pattern.op == VARIABLE:
            yield from _bound(pattern, Group(op, links), match)
        return
    for index, link in enumerate(links):
        if link in links[:index]:
            continue
        left = (*links[:index], *links[index + 1 :])
        for found in _matches(graph, pattern, link, match, regroups, is_root=False):
            yield from _assigned(graph, op, others, left, found, regroups, is_root=is_root)


def _freedom(pattern: Term, match: Match) -> int:
    """Order patterns so that those with the fewest candidates choose first."""
    if pattern.op != VARIABLE:
        return 0
    return 1 if pattern.name in match.values else 2


def is_filled_with(value: Value, number: float) -> bool:
    """Tell whether a value is a constant all of whose elements are `number`."""
    if not value.is_constant or value.array.size == 0 or value.array.flat[0] != number:
        return False
    return bool(np.all(value.array == number))


def with_groups_joined(graph: Graph, match: Match, name: str) -> dict[str, Value]:
    """Return the value of each variable, the links of a group joined by calls."""
    values: dict[str, Value] = {}
    for variable, value in match.values.items():
        values[variable] = (
            joined(graph, value.op, value.values, name) if isinstance(value, Group) else value
        )
    return values


def joined(graph: Graph, op: str, values: tuple[Value, ...], name: str) -> Value:
    """Add the calls of a chain, constants and small links first: those cost least together."""
    by_size = sorted(values, key=_size)
    out = by_size[0]
    for value in by_size[1:]:
        out = graph.call(op, [out, value], name=name)
    return out


def _size(value: Value) -> tuple[Any, ...]:
    return (not value.is_constant, value.type.elements)
