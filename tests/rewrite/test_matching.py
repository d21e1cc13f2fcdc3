from __future__ import annotations

import itertools

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tests.rewrite.proof import perturbed
from tvm_fusionx.rewrite import ALL_RULES, Rule
from tvm_fusionx.rewrite.matching import (
    find_matches,
    is_filled_with,
    may_match,
    operators_read,
    outline,
)
from tvm_fusionx.rewrite.term import Term, call, op, variable

x, y = var("x", 4, 8), var("y", 4, 8)

# Variations of a rule's example that are matched in the test; most differ in shapes only.
_GRAPHS_OF_A_RULE = 8

a, b, c = variable("a"), variable("b"), variable("c")


def _matches(pattern: Term, expr: relay.Expr) -> list[dict[str, str]]:
    """Return what each variable stands for, by operator or input name, for each match."""
    found = graph(expr)
    return [
        {name: value.node.name or value.op for name, value in match.values.items()}
        for match in find_matches(found, pattern, found.outputs[0])
    ]


def test_commutative_operands_match_in_both_orders_the_written_one_first() -> None:
    assert _matches(a + b, x + y) == [{"a": "x", "b": "y"}, {"a": "y", "b": "x"}]


def test_other_operands_match_as_they_stand() -> None:
    assert _matches(a - b, x - y) == [{"a": "x", "b": "y"}]


def test_orders_multiply_through_nested_operators() -> None:
    assert len(_matches((a + b) * c, (x + y) * relay.exp(x))) == 2
    assert len(_matches((a + b) * (c + a), (x + y) * (x + relay.exp(x)))) == 2


def test_a_variable_stands_for_one_value() -> None:
    assert _matches(a * a, x * x) == [{"a": "x"}]
    assert _matches(a * a, x * y) == []
    assert _matches(a * c + b * c, x * y + relay.exp(x) * y) != []
    assert _matches(a * c + b * c, x * y + relay.exp(x) * relay.exp(y)) == []


@pytest.mark.parametrize(("filler", "count"), [(1.0, 1), (np.ones((4, 8), "float32"), 1), (2.0, 0)])
def test_a_literal_is_a_constant_filled_with_that_number(filler: object, count: int) -> None:
    expr = relay.const(np.asarray(filler, "float32")) / x
    assert len(_matches(1.0 / a, expr)) == count


def test_attributes_that_are_asked_for_must_be_there() -> None:
    pattern = call("sum", a, attrs={"axis": (1,)})
    assert len(_matches(pattern, relay.sum(x, axis=1))) == 1
    assert _matches(pattern, relay.sum(x, axis=0)) == []
    assert len(_matches(op.sum(a), relay.sum(x, axis=0))) == 1


def test_a_call_with_several_results_is_no_match() -> None:
    parts = relay.split(x, 2, axis=1)
    assert _matches(op.exp(op.split(a)), relay.exp(parts[0])) == []


def test_a_match_names_the_calls_it_covers_root_first() -> None:
    found = graph(relay.exp(relay.tanh(x)))
    (match,) = find_matches(found, op.exp(op.tanh(a)), found.outputs[0])
    assert [node.op for node in match.nodes] == ["exp", "tanh"]


def test_empty_constants_are_filled_with_nothing() -> None:
    found = graph(relay.const(np.zeros((0, 2), "float32")))
    assert not is_filled_with(found.outputs[0], 0.0)


# ---- what operators alone rule out --------------------------------------------------------------


def _may_match(pattern: Term, expr: relay.Expr) -> bool:
    return may_match(outline(pattern), graph(expr).outputs[0].node)


def test_operators_rule_out_a_match_without_looking_for_it() -> None:
    assert not _may_match(op.exp(a), relay.tanh(x))
    assert not _may_match(op.exp(op.tanh(a)), relay.exp(x))
    assert not _may_match(op.exp(a) * op.exp(b) * c, relay.tanh(x) * relay.tanh(y))
    assert not _may_match(op.exp(op.tanh(op.sqrt(a))), relay.exp(relay.tanh(x)))
    assert not _may_match(a + 1.0, x + y)


def test_what_variables_stand_for_rules_out_nothing() -> None:
    assert _may_match(op.exp(a) - b, relay.exp(x) - y)
    assert _may_match(op.exp(a) * op.sqrt(b) * c, relay.exp(x) * (y * relay.sqrt(x)))
    assert _may_match(a + 1.0, relay.const(1.0) + x)


def test_a_chain_too_long_to_look_through_is_matched() -> None:
    expr = x
    for _ in range(100):
        expr = y + expr
    assert _may_match(op.exp(a) + b, expr)
    assert operators_read(graph(expr).outputs[0].node) is None


def test_what_a_call_reads_is_read_through_its_chain() -> None:
    found = graph((relay.exp(x) + y) + relay.tanh(y) * x)
    assert operators_read(found.outputs[0].node) == {"add", "exp", "input", "multiply"}


@pytest.mark.parametrize("rule", [r for r in ALL_RULES if r.lhs is not None], ids=lambda r: r.name)
def test_no_match_is_ruled_out(rule: Rule) -> None:
    assert rule.lhs is not None
    asked = outline(rule.lhs)
    for found in itertools.islice(perturbed(rule), _GRAPHS_OF_A_RULE):
        for node in found.calls():
            matches = find_matches(found, rule.lhs, node[0])
            read = operators_read(node)
            is_looked_at = may_match(asked, node) and not (
                read is not None and any(map(read.isdisjoint, rule.reads))
            )
            assert is_looked_at or next(matches, None) is None
