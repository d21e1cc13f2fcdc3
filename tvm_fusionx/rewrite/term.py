"""Expressions over named variables: the two sides of a rewriting rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

LITERAL = "literal"
VARIABLE = "variable"
ONE_OF = "one of"
COMPUTED = "computed"

_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


@dataclass(frozen=True)
class Term:
    """An operator applied to terms, a variable, or a number.

    Parameters
    ----------
    op
        Relay operator name, or ``variable``, ``literal``, ``one of`` or ``computed``.
    operands
        Terms it reads.
    attrs
        Attributes that a match must have. Calls of one operator (and tag) on a left side must have
        the same attributes, and the right side's calls of it take them; a reduction that is only on
        the right side takes those of the first reduction.
    name
        Name of a variable, of an operator that is one of several, or of what computes a value.
    number
        Value of a literal: a constant all of whose elements are that number.
    choices
        Operators that a term of ``one of`` stands for.
    tag
        Tells calls of one operator apart whose attributes may differ.
    compute
        On a right side, what Python adds to the graph: ``compute(writing, *values) -> value``.
    """

    op: str
    operands: tuple[Term, ...] = ()
    attrs: tuple[tuple[str, Any], ...] | None = None
    name: str = ""
    number: float = 0.0
    choices: tuple[str, ...] = ()
    tag: str = ""
    compute: Callable[..., Any] | None = None

    @property
    def operators(self) -> tuple[str, ...]:
        """Operators that a match's call may be of."""
        return self.choices or (self.op,)

    def __add__(self, other: Term | float) -> Term:
        return call("add", self, other)

    def __radd__(self, other: float) -> Term:
        return call("add", other, self)

    def __sub__(self, other: Term | float) -> Term:
        return call("subtract", self, other)

    def __rsub__(self, other: float) -> Term:
        return call("subtract", other, self)

    def __mul__(self, other: Term | float) -> Term:
        return call("multiply", self, other)

    def __rmul__(self, other: float) -> Term:
        return call("multiply", other, self)

    def __truediv__(self, other: Term | float) -> Term:
        return call("divide", self, other)

    def __rtruediv__(self, other: float) -> Term:
        return call("divide", other, self)

    def __pow__(self, other: Term | float) -> Term:
        return call("power", self, other)

    def __neg__(self) -> Term:
        return call("negative", self)

    def __str__(self) -> str:
        if self.op == VARIABLE:
            return self.name
        if self.op == LITERAL:
            return f"{self.number:g}"
        if self.op in _INFIX:
            return f"({f' {_INFIX[self.op]} '.join(map(str, self.operands))})"
        return f"{self.name or self.op}({', '.join(map(str, self.operands))})"


def variable(name: str) -> Term:
    """Return a variable: any value, the same wherever the name stands."""
    return Term(VARIABLE, name=name)


def _terms(operands: Iterable[Term | float]) -> tuple[Term, ...]:
    return tuple(
        operand if isinstance(operand, Term) else Term(LITERAL, number=float(operand))
        for operand in operands
    )


def call(
    op: str, *operands: Term | float, attrs: Mapping[str, Any] | None = None, tag: str = ""
) -> Term:
    """Return an operator applied to terms and numbers."""
    return Term(op, _terms(operands), None if attrs is None else tuple(attrs.items()), tag=tag)


def one_of(name: str, choices: Iterable[str]) -> Callable[..., Term]:
    """Return a function that stands for any of the operators `choices`, on both sides the same."""
    names = tuple(sorted(choices))
    return lambda *operands: Term(ONE_OF, _terms(operands), name=name, choices=names)


def computed(compute: Callable[..., Any]) -> Callable[..., Term]:
    """Return a function of terms for right sides: Python adds its value to the graph.

    Parameters
    ----------
    compute
        ``compute(writing, *values)`` returns a value, or a reason why there is none.
    """
    return lambda *operands: Term(
        COMPUTED, _terms(operands), name=compute.__name__, compute=compute
    )


def with_choices(term: Term, choices: Mapping[str, str]) -> Term:
    """Return a term with operators that are one of several replaced by those named."""
    operands = tuple(with_choices(operand, choices) for operand in term.operands)
    if term.op == ONE_OF:
        return Term(choices[term.name], operands, term.attrs, tag=term.name)
    return Term(
        term.op, operands, term.attrs, term.name, term.number, term.choices, term.tag, term.compute
    )


def choices_in(term: Term) -> dict[str, tuple[str, ...]]:
    """Return the operators that each ``one of`` in a term may stand for."""
    found = {term.name: term.choices} if term.op == ONE_OF else {}
    for operand in term.operands:
        found.update(choices_in(operand))
    return found


class Operators:
    """Terms by operator name: ``op.exp(x)`` is ``call("exp", x)``."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        if name == "nn":
            return Operators("nn.")
        return lambda *operands, **keywords: call(self._prefix + name, *operands, **keywords)


op = Operators()
