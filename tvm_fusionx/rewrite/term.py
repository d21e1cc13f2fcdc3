"""Expressions over named variables: the two sides of a rewriting rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LITERAL = "literal"
VARIABLE = "variable"


@dataclass(frozen=True)
class Term:
    """An operator applied to terms, a variable, or a number.

    Parameters
    ----------
    op
        Relay operator name, or ``variable`` or ``literal``.
    operands
        Terms it reads.
    attrs
        Attributes that a match must have; None on the right side means those of the first operator
        of that name on the left side, or of the first reduction for another reduction.
    name
        Name of a variable.
    number
        Value of a literal: a constant all of whose elements are that number.
    """

    op: str
    operands: tuple[Term, ...] = ()
    attrs: tuple[tuple[str, Any], ...] | None = None
    name: str = ""
    number: float = 0.0

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

    def __neg__(self) -> Term:
        return call("negative", self)

    def __str__(self) -> str:
        if self.op == VARIABLE:
            return self.name
        if self.op == LITERAL:
            return f"{self.number:g}"
        return f"{self.op}({', '.join(map(str, self.operands))})"


def variable(name: str) -> Term:
    """Return a variable: any value, the same wherever the name stands."""
    return Term(VARIABLE, name=name)


def call(op: str, *operands: Term | float, attrs: Mapping[str, Any] | None = None) -> Term:
    """Return an operator applied to terms and numbers."""
    terms = tuple(
        operand if isinstance(operand, Term) else Term(LITERAL, number=float(operand))
        for operand in operands
    )
    return Term(op, terms, None if attrs is None else tuple(attrs.items()))


class Operators:
    """Terms by operator name: ``op.exp(x)`` is ``call("exp", x)``."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        if name == "nn":
            return Operators("nn.")
        return lambda *operands: call(self._prefix + name, *operands)


op = Operators()
