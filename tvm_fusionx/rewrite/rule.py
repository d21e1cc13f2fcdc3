"""What a rewriting rule is, and how one is declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.rewrite.matching import Match, find_matches, may_match, outline, with_groups_joined
from tvm_fusionx.rewrite.term import Term, variable
from tvm_fusionx.rewrite.writing import CannotWriteError, Writing, write


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
    """Every bit stays, NaN and infinity included."""

    REASSOCIATES = "reassociates"
    """Equal over the reals; rounds differently, and overflows elsewhere."""

    CONDITIONAL = "conditional"
    """Holds only under a condition, which the rule checks; reassociates otherwise."""


class Domain(Enum):
    """Element types that a rule holds for."""

    FLOAT = "floating point"
    INTEGER = "integers"
    ANY = "any"


class Kind(Enum):
    """What an example's variable is."""

    INPUT = "input"
    CONSTANT = "constant"
    NON_NEGATIVE = "input that is never negative"
    POSITIVE = "input of 0.5 or more"
    FINITE = "input of whole numbers, cast"
    PRODUCT = "product of two matrices"


@dataclass(frozen=True)
class Example:
    """One variable of a rule's own test.

    Parameters
    ----------
    shape
        Its extents.
    kind
        What it is.
    number
        Its one element, for a constant; random when None.
    """

    shape: tuple[int, ...]
    kind: Kind = Kind.INPUT
    number: float | None = None


def constant(*shape: int) -> Example:
    """Return an example that is known at compile time."""
    return Example(shape, Kind.CONSTANT)


def non_negative(*shape: int) -> Example:
    """Return an example that the value analysis knows not to be negative."""
    return Example(shape, Kind.NON_NEGATIVE)


def positive(*shape: int) -> Example:
    """Return an example that the value analysis knows to be above zero."""
    return Example(shape, Kind.POSITIVE)


def finite(*shape: int) -> Example:
    """Return an example that the value analysis knows to be finite numbers."""
    return Example(shape, Kind.FINITE)


def _example(example: Any) -> Example:
    if isinstance(example, Example):
        return example
    if isinstance(example, tuple):
        return Example(example)
    return Example((), Kind.CONSTANT, float(example))


Replacement = tuple[Value, Value]
"""An old value, and the value that takes its place."""

Why = Callable[..., "str | None"]
"""Given some variables' values by name (and ``match``), the reason not to apply, or None."""


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
    law, numeric_class, domain
        What it rests on; what it does to the last bits; the element types it holds for.
    roots
        Operators of the calls that it is tried on.
    attempts
        ``attempts(graph, node)`` yields each way to apply the rule at a call, not yet made.
    equation
        The law, for people.
    examples
        Each variable of the rule's own test.
    attributes
        Attributes of the operators in the rule's own test, where TVM's defaults will not do.
    samples
        What the rule's own test applies it to: the left side, or the example of a rule in Python.
    lhs, rhs
        Both sides as terms; None for a rule in Python.
    conditions
        What must hold; each says why it does not.
    reads
        Sets of operators: the root, or its chain, reads a call of each. So the engine need not ask.
    """

    name: str
    law: Law
    numeric_class: NumericClass
    roots: tuple[str, ...]
    attempts: Callable[[Graph, Node], Iterator[Attempt]]
    equation: str
    domain: Domain = Domain.ANY
    examples: Mapping[str, Example] = field(default_factory=dict)
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    samples: tuple[Term, ...] = ()
    lhs: Term | None = None
    rhs: Term | None = None
    conditions: tuple[Why, ...] = ()
    reads: tuple[frozenset[str], ...] = ()

    def __repr__(self) -> str:
        # Terms, examples and samples take pages; the name finds the declaration.
        return f"<Rule {self.name}>"


def rule(
    *,
    lhs: Callable[..., Term],
    law: Law,
    numeric_class: NumericClass = NumericClass.REASSOCIATES,
    domain: Domain | None = None,
    when: Why | Sequence[Why] = (),
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
    **examples: Any,
) -> Callable[[Callable[..., Term]], Rule]:
    """Declare a rule by its two sides.

    Parameters
    ----------
    lhs
        Left side: a function of the variables.
    law, numeric_class
        See :class:`Rule`.
    domain
        Element types; any for an exact rule when None, floating point for another.
    when
        Conditions: each takes some variables by name, or ``match``, and returns the reason not to
        apply, or None.
    attributes
        Attributes of operators in the rule's own test: ``{"sum": {"axis": [1]}}``.
    **examples
        Shape, number or :class:`Example` of each variable, for the rule's own test.
    """
    names = list(inspect.signature(lhs).parameters)
    left = lhs(**{name: variable(name) for name in names})
    conditions = tuple(when) if isinstance(when, Sequence) else (when,)
    is_exact = numeric_class is NumericClass.EXACT
    holds_for = domain or (Domain.ANY if is_exact else Domain.FLOAT)

    def declare(function: Callable[..., Term]) -> Rule:
        right = function(
            **{name: variable(name) for name in inspect.signature(function).parameters}
        )
        return declared(
            Rule(
                name=function.__name__,
                law=law,
                numeric_class=numeric_class,
                roots=left.operators,
                attempts=lambda graph, node: iter(()),
                equation=f"{left} -> {right}",
                domain=holds_for,
                examples={name: _example(example) for name, example in examples.items()},
                attributes=dict(attributes or {}),
                samples=(left,),
                lhs=left,
                rhs=right,
                conditions=conditions,
            )
        )

    return declare


def declared(made: Rule) -> Rule:
    """Return a rule of two terms with its attempts made from them.

    Parameters
    ----------
    made
        A rule with both sides; whatever its `attempts` are is replaced.
    """
    left, right = made.lhs, made.rhs
    assert left is not None
    assert right is not None
    checks = [(check, frozenset(inspect.signature(check).parameters)) for check in made.conditions]
    keeps_bits = made.numeric_class is NumericClass.EXACT
    asked = outline(left)

    def attempts(graph: Graph, node: Node) -> Iterator[Attempt]:
        if not may_match(asked, node) or not _is_in(made.domain, node):
            return
        for match in find_matches(graph, left, node[0], keeps_bits=keeps_bits):
            yield _writer(graph, node, right, match, checks)

    reads = tuple(item.operators for item in asked.below)
    return replace(made, attempts=attempts, reads=reads)


_ANSWERS_ABOUT_OPERANDS = frozenset(["argmax", "argmin"])


def _is_in(domain: Domain, node: Node) -> bool:
    """Tell whether what a call computes with is in a domain."""
    type_ = node.outputs[0]
    while node.operands and (type_.dtype == "bool" or node.op in _ANSWERS_ABOUT_OPERANDS):
        type_ = node.operands[0].type
        node = node.operands[0].node
    if domain is Domain.FLOAT:
        return type_.is_float
    return domain is Domain.ANY or "int" in type_.dtype


def graph_rule(
    *,
    roots: tuple[str, ...],
    law: Law = Law.STRUCTURAL,
    numeric_class: NumericClass = NumericClass.EXACT,
    example: Callable[..., Term | tuple[Term, ...]] | None = None,
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
    **examples: Any,
) -> Callable[[Callable[[Graph, Node], list[Replacement] | Refused | None]], Rule]:
    """Declare a rule in Python: ``function(graph, node)`` adds calls and returns replacements.

    None says that the rule has nothing to do with this call.

    Parameters
    ----------
    roots
        Operators of the calls that it is tried on.
    law, numeric_class
        See :class:`Rule`.
    example
        What its own test applies it to: a function of the variables, as a left side is.
    attributes, **examples
        As for :func:`rule`.
    """
    samples: tuple[Term, ...] = ()
    if example is not None:
        names = list(inspect.signature(example).parameters)
        made = example(**{name: variable(name) for name in names})
        samples = made if isinstance(made, tuple) else (made,)

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
            examples={name: _example(item) for name, item in examples.items()},
            attributes=dict(attributes or {}),
            samples=samples,
        )

    return declare


def _writer(
    graph: Graph,
    node: Node,
    right: Term,
    match: Match,
    checks: Sequence[tuple[Why, frozenset[str]]],
) -> Attempt:
    def attempt() -> list[Replacement] | Refused:
        values = with_groups_joined(graph, match, node.name)
        known: dict[str, Any] = {**values, "match": match}
        for check, wanted in checks:
            reason = check(**{name: known[name] for name in wanted})
            if reason is not None:
                return Refused(reason)
        writing = Writing(graph, match, values, node[0].dtype, node.name)
        try:
            return [(node[0], write(writing, right))]
        except CannotWriteError as error:
            return Refused(str(error))

    return attempt
