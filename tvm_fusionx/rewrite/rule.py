"""What a rewriting rule is, and how one is declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.rewrite.matching import Match, find_matches, write
from tvm_fusionx.rewrite.term import Term, variable


class Law(Enum):
    """Which property of the operators a rule rests on; DNNFusion, section 4.2."""

    ASSOCIATIVE = "associative"
    DISTRIBUTIVE = "distributive"
    COMMUTATIVE = "commutative"
    STRUCTURAL = "structural"
    """Index arithmetic and weights; not one of the paper's three."""


class NumericClass(Enum):
    """What a rule does to the last bits."""

    EXACT = "exact"
    REASSOCIATES = "reassociates"
    CONDITIONAL = "conditional"
    """Holds only under a condition, which the rule checks; reassociates otherwise."""


Replacement = tuple[Value, Value]
"""An old value, and the value that takes its place."""

Why = Callable[..., "str | None"]


@dataclass(frozen=True)
class Refused:
    """A rule that matched and must not be applied, with the reason."""

    reason: str


Attempt = Callable[[], "list[Replacement] | Refused | None"]
"""One way to apply a rule: adds the new calls and returns what they replace, or why it must not.

None says that the rule has nothing to do with the call. Whatever was added, the engine takes back.
"""


@dataclass(frozen=True)
class Rule:
    """One law: where it applies, and what it puts there.

    Parameters
    ----------
    name
        Name of the function that declares it.
    law, numeric_class
        What it rests on; what it does to the last bits.
    roots
        Operators of the calls that it is tried on.
    attempts
        ``attempts(graph, node)`` yields each way to apply the rule at a call, not yet made.
    equation
        The law, for people.
    examples
        Shape (or number) of each variable, which the rule's test builds its left side from.
    lhs
        Left side as a term; None for a rule in Python.
    """

    name: str
    law: Law
    numeric_class: NumericClass
    roots: tuple[str, ...]
    attempts: Callable[[Graph, Node], Iterator[Attempt]]
    equation: str
    examples: Mapping[str, Any] = field(default_factory=dict)
    lhs: Term | None = None


def rule(
    *,
    lhs: Callable[..., Term],
    law: Law,
    numeric_class: NumericClass = NumericClass.REASSOCIATES,
    when: Why | None = None,
    **examples: Any,
) -> Callable[[Callable[..., Term]], Rule]:
    """Declare a rule by its two sides.

    Parameters
    ----------
    lhs
        Left side: a function of the variables.
    law, numeric_class
        See :class:`Rule`.
    when
        Given the variables' values by name, the reason not to apply, or None. May take fewer.
    **examples
        Shape or number of each variable, for the rule's own test.
    """
    names = list(inspect.signature(lhs).parameters)
    left = lhs(**{name: variable(name) for name in names})

    def declare(function: Callable[..., Term]) -> Rule:
        right = function(
            **{name: variable(name) for name in inspect.signature(function).parameters}
        )

        def attempts(graph: Graph, node: Node) -> Iterator[Attempt]:
            for match in find_matches(left, node[0]):
                yield _writer(graph, node, right, match, when)

        return Rule(
            name=function.__name__,
            law=law,
            numeric_class=numeric_class,
            roots=(left.op,),
            attempts=attempts,
            equation=f"{left} -> {right}",
            examples=examples,
            lhs=left,
        )

    return declare


def graph_rule(
    *,
    roots: tuple[str, ...],
    law: Law = Law.STRUCTURAL,
    numeric_class: NumericClass = NumericClass.EXACT,
) -> Callable[[Callable[[Graph, Node], list[Replacement] | Refused | None]], Rule]:
    """Declare a rule in Python: ``function(graph, node)`` adds calls and returns replacements.

    None says that the rule has nothing to do with this call.
    """

    def declare(function: Callable[[Graph, Node], list[Replacement] | Refused | None]) -> Rule:
        def attempts(graph: Graph, node: Node) -> Iterator[Attempt]:
            yield lambda: function(graph, node)

        doc = inspect.getdoc(function) or ""
        return Rule(
            name=function.__name__,
            law=law,
            numeric_class=numeric_class,
            roots=roots,
            attempts=attempts,
            equation=doc.partition("\n")[0],
        )

    return declare


def _why_not(when: Why | None, match: Match) -> str | None:
    if when is None:
        return None
    wanted = inspect.signature(when).parameters
    return when(**{name: value for name, value in match.values.items() if name in wanted})


def _writer(graph: Graph, node: Node, right: Term, match: Match, when: Why | None) -> Attempt:
    def attempt() -> list[Replacement] | Refused:
        reason = _why_not(when, match)
        if reason is not None:
            return Refused(reason)
        return [(node[0], write(graph, right, match, node[0].dtype))]

    return attempt
