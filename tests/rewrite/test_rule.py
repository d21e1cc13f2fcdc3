from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.ecg import Graph, Value
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.rewrite import Law, NumericClass, Refused, Rule, graph_rule, rule
from tvm_fusionx.rewrite.rule import Domain, Example, Kind, Replacement
from tvm_fusionx.rewrite.term import Term, op

x, y = var("x", 4, 8), var("y", 4, 8)


def _why_not_equal(a: Value) -> str | None:
    return None if a.op == "abs" else "a is no absolute value"


@rule(lhs=lambda a, b: op.exp(a) + b, law=Law.COMMUTATIVE, when=_why_not_equal, a=(4, 8), b=2.0)
def planted(a: Term, b: Term) -> Term:
    """exp(a) + b -> b - a: wrong, but a rule."""
    return b - a


@graph_rule(roots=("exp",), numeric_class=NumericClass.CONDITIONAL)
def planted_in_python(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """exp(x) -> tanh(x) where x is an input.

    A second line that is not part of the equation.
    """
    graph.call("sin", [node.operands[0]])
    if node.operands[0].is_constant:
        return None
    if node.operands[0].node.is_call:
        return Refused("x is computed")
    return [(node[0], graph.call("tanh", list(node.operands)))]


def test_a_declared_rule_knows_its_two_sides() -> None:
    assert planted.name == "planted"
    assert planted.equation == "(exp(a) + b) -> (b - a)"
    assert planted.roots == ("add",)
    assert planted.examples == {
        "a": Example((4, 8)),
        "b": Example((), Kind.CONSTANT, 2.0),
    }
    assert planted.domain is Domain.FLOAT
    assert planted.law is Law.COMMUTATIVE
    assert planted.numeric_class is NumericClass.REASSOCIATES


def test_a_rule_in_python_takes_its_equation_from_its_docstring() -> None:
    assert planted_in_python.name == "planted_in_python"
    assert planted_in_python.equation == "exp(x) -> tanh(x) where x is an input."
    assert planted_in_python.lhs is None
    assert planted_in_python.law is Law.STRUCTURAL
    assert planted_in_python.numeric_class is NumericClass.CONDITIONAL


def _answers(of: Rule, expr: relay.Expr) -> list[object]:
    found = graph(expr)
    node = next(node for node in reversed(found.calls()) if node.op in of.roots)
    out: list[object] = []
    for attempt in of.attempts(found, node):
        answer = attempt()
        out.append([new.op for _, new in answer] if isinstance(answer, list) else answer)
    return out


def test_a_condition_is_asked_for_each_match_by_the_names_it_takes() -> None:
    assert _answers(planted, relay.exp(relay.abs(x)) + y) == [["subtract"]]
    assert _answers(planted, relay.exp(x) + y) == [Refused("a is no absolute value")]
    both = relay.exp(x) + relay.exp(relay.abs(y))
    assert _answers(planted, both) == [Refused("a is no absolute value"), ["subtract"]]


@pytest.mark.parametrize(
    ("expr", "answer"),
    [
        (relay.exp(x), ["tanh"]),
        (relay.exp(relay.abs(x)), Refused("x is computed")),
        (relay.exp(relay.const(1.0)), None),
    ],
    ids=["applied", "refused", "nothing to do"],
)
def test_a_rule_in_python_answers(expr: relay.Expr, answer: object) -> None:
    assert _answers(planted_in_python, expr) == [answer]


@pytest.mark.parametrize("of", [planted, planted_in_python], ids=lambda of: of.name)
def test_nothing_is_written_before_an_attempt_is_made(of: Rule) -> None:
    found = graph(relay.exp(relay.abs(x)) + y)
    mark = found.mark()
    for node in found.calls():
        list(of.attempts(found, node))
    assert found.mark() == mark
