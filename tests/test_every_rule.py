"""Every rule, proved from its own declaration; and faults planted in every rule, caught."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from tests.relay_modules import graph
from tests.rewrite import faults
from tests.rewrite.proof import BrokenRuleError, Outcome, outcome, perturbed, prove
from tests.rewrite.rule_examples import build, in_every_order, is_accepted, versions
from tests.rewrite.test_rule_conditions import LEFT_ALONE
from tvm_fusionx.ecg import Graph
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.rewrite import ALL_RULES, Law, Rule
from tvm_fusionx.rewrite.rule import Attempt, Domain, Refused, declared
from tvm_fusionx.rewrite.term import VARIABLE, call

RULES = {rule.name: rule for rule in ALL_RULES}
DECLARED = [rule for rule in ALL_RULES if rule.lhs is not None]
IN_PYTHON = [rule for rule in ALL_RULES if rule.lhs is None]
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


def test_every_rule_has_an_example() -> None:
    assert [rule.name for rule in ALL_RULES if not rule.samples] == []


@pytest.mark.parametrize("rule", ALL_RULES, **_named)
def test_rule_holds(rule: Rule) -> None:
    assert prove(rule)


@pytest.mark.parametrize("rule", DECLARED, **_named)
def test_left_side_is_matched_in_every_operand_order(rule: Rule) -> None:
    dtype = "int32" if rule.domain is Domain.INTEGER else "float32"
    (side,) = versions(rule)[0]
    for ordered in in_every_order(side):
        assert is_accepted(build(rule, [ordered], dtype=dtype), rule), ordered


# ---- planted faults -----------------------------------------------------------------------------


def _is_caught(rule: Rule) -> bool:
    try:
        return not prove(rule, draws=0)
    except BrokenRuleError:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("rule", DECLARED, **_named)
def test_a_fault_in_the_right_side_is_caught(rule: Rule) -> None:
    assert rule.rhs is not None
    for fault in faults.in_term(rule.rhs):
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
        if new.is_constant and not new.array.any():
            return [(old, graph.constant(new.array + 1)), *others]  # zero has no sign
        wrong = "logical_not" if new.dtype == "bool" else "negative"
        return [(old, graph.call(wrong, [new])), *others]

    return replace(rule, attempts=attempts)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ALL_RULES, **_named)
def test_a_result_of_the_wrong_sign_is_caught(rule: Rule) -> None:
    assert _is_caught(_negated(rule))


@pytest.mark.slow
@pytest.mark.parametrize("rule", IN_PYTHON, **_named)
def test_a_fault_in_what_python_writes_is_caught(rule: Rule) -> None:
    for fault, planted in faults.in_python(rule):
        assert _is_caught(planted), f"{fault} gets past the suite"


def _is_missed(rule: Rule, without: Rule, graphs: Iterable[Graph]) -> bool:
    """Tell whether there is no example that the condition left out alone refuses."""
    return not any(
        outcome(rule, graph) is Outcome.REFUSED
        and outcome(without, graph) in (Outcome.APPLIED, Outcome.BROKEN)
        for graph in graphs
    )


@pytest.mark.slow
@pytest.mark.parametrize("rule", CONDITIONAL, **_named)
def test_a_dropped_condition_is_caught(rule: Rule) -> None:
    for condition in rule.conditions:
        others = tuple(item for item in rule.conditions if item is not condition)
        without = declared(replace(rule, conditions=others))
        assert not _is_missed(rule, without, perturbed(rule)), f"{condition} is not missed"


@pytest.mark.slow
@pytest.mark.parametrize("rule", IN_PYTHON, **_named)
def test_a_dropped_refusal_in_python_is_caught(rule: Rule) -> None:
    left_alone = [make for name, make, _ in LEFT_ALONE.values() if name == rule.name]
    for condition, without in faults.without_conditions(rule):
        graphs = itertools.chain(perturbed(rule), (graph(make()) for make in left_alone))
        assert not _is_missed(rule, without, graphs), f"{condition} is not missed"
