"""Every rule, proved from its own declaration; and faults planted in every rule, caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.rewrite.proof import BrokenRuleError, Outcome, outcome, perturbed, prove
from tests.rewrite.rule_examples import build, in_every_order, is_accepted, versions
from tvm_fusionx.ecg import Graph
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.rewrite import ALL_RULES, Law, Rule
from tvm_fusionx.rewrite.rule import Attempt, Domain, Refused, declared
from tvm_fusionx.rewrite.term import LITERAL, VARIABLE, Term, call

RULES = {rule.name: rule for rule in ALL_RULES}
SAMPLED = [rule for rule in ALL_RULES if rule.samples]
DECLARED = [rule for rule in ALL_RULES if rule.lhs is not None]
CONDITIONAL = [rule for rule in DECLARED if rule.conditions]

# The paper counts 149 rules in its three categories (DNNFusion, section 4.2).
RULES_OF_THE_PAPER = 149

_named = {"ids": lambda rule: rule.name}


def test_the_book_is_complete() -> None:
    assert len(RULES) == len(ALL_RULES)
    assert len({rule.equation for rule in ALL_RULES}) == len(ALL_RULES)
    laws = Counter(rule.law for rule in ALL_RULES)
    assert sum(laws[law] for law in Law if law is not Law.STRUCTURAL) >= RULES_OF_THE_PAPER
    assert all("->" in rule.equation for rule in ALL_RULES)


def test_every_rule_of_the_three_laws_has_an_example() -> None:
    assert [
        rule.name for rule in ALL_RULES if not rule.samples and rule.law is not Law.STRUCTURAL
    ] == []


@pytest.mark.parametrize("rule", SAMPLED, **_named)
def test_rule_holds(rule: Rule) -> None:
    assert prove(rule)


@pytest.mark.parametrize("rule", DECLARED, **_named)
def test_left_side_is_matched_in_every_operand_order(rule: Rule) -> None:
    dtype = "int32" if rule.domain is Domain.INTEGER else "float32"
    (side,) = versions(rule)[0]
    for ordered in in_every_order(side):
        assert is_accepted(build(rule, [ordered], dtype=dtype), rule), ordered


# ---- planted faults -----------------------------------------------------------------------------

_OTHER_OPERATOR = {
    "abs": "negative",
    "add": "subtract",
    "divide": "multiply",
    "exp": "tanh",
    "log": "abs",
    "logical_and": "logical_or",
    "logical_or": "logical_and",
    "max": "min",
    "maximum": "minimum",
    "min": "max",
    "minimum": "maximum",
    "multiply": "add",
    "negative": "abs",
    "power": "multiply",
    "rsqrt": "sqrt",
    "sqrt": "rsqrt",
    "subtract": "add",
    "sum": "max",
}
_ORDERED = ("divide", "power", "subtract")


def _faults(term: Term) -> Iterator[Term]:
    """Yield the term with one operand flipped, one operator or one number changed."""
    if term.op in _ORDERED and term.operands[0] != term.operands[1]:
        yield replace(term, operands=tuple(reversed(term.operands)))
    if term.op in _OTHER_OPERATOR:
        yield replace(term, op=_OTHER_OPERATOR[term.op])
    if term.op == LITERAL:
        yield replace(term, number=term.number + 1)
    for position, operand in enumerate(term.operands):
        for fault in _faults(operand):
            operands = list(term.operands)
            operands[position] = fault
            yield replace(term, operands=tuple(operands))


def _is_caught(rule: Rule) -> bool:
    try:
        return not prove(rule, draws=0)
    except BrokenRuleError:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("rule", DECLARED, **_named)
def test_a_fault_in_the_right_side_is_caught(rule: Rule) -> None:
    assert rule.rhs is not None
    for fault in _faults(rule.rhs):
        planted = declared(replace(rule, rhs=fault))
        assert _is_caught(planted), f"{rule.lhs} -> {fault} gets past the suite"
    if rule.rhs.op == VARIABLE:
        wrong = "logical_not" if rule.rhs.name.startswith("is_") else "negative"
        assert _is_caught(declared(replace(rule, rhs=call(wrong, rule.rhs))))


def _negated(rule: Rule) -> Rule:
    def attempts(graph: Graph, node: Node) -> Iterator[Attempt]:
        for attempt in rule.attempts(graph, node):
            yield lambda attempt=attempt: _answer(graph, attempt)

    def _answer(graph: Graph, attempt: Attempt) -> object:
        answer = attempt()
        if answer is None or isinstance(answer, Refused):
            return answer
        (old, new), *others = answer
        wrong = "logical_not" if new.dtype == "bool" else "negative"
        return [(old, graph.call(wrong, [new])), *others]

    return replace(rule, attempts=attempts)


@pytest.mark.slow
@pytest.mark.parametrize("rule", SAMPLED, **_named)
def test_a_result_of_the_wrong_sign_is_caught(rule: Rule) -> None:
    assert _is_caught(_negated(rule))


@pytest.mark.slow
@pytest.mark.parametrize("rule", CONDITIONAL, **_named)
def test_a_dropped_condition_is_caught(rule: Rule) -> None:
    """For each condition there is an example that it alone refuses."""
    for condition in rule.conditions:
        others = tuple(item for item in rule.conditions if item is not condition)
        without = declared(replace(rule, conditions=others))
        assert any(
            outcome(rule, graph) is Outcome.REFUSED
            and outcome(without, graph) in (Outcome.APPLIED, Outcome.BROKEN)
            for graph in perturbed(rule)
        ), f"nothing notices that {condition} is gone"
