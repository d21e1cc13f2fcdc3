from __future__ import annotations

import itertools

import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg import Graph
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.rewrite import ALL_RULES, Law, NumericClass, Refused, engine, graph_rule, rewrite
from tvm_fusionx.rewrite import rule as declare
from tvm_fusionx.rewrite.cost import NOTHING, cost_of
from tvm_fusionx.rewrite.engine import MAX_ROUNDS, apply_rules
from tvm_fusionx.rewrite.rule import Replacement
from tvm_fusionx.rewrite.term import Term, op

x, y, z = (var(name, 4, 8) for name in "xyz")
RULES = {rule.name: rule for rule in ALL_RULES}


def _operators(found: Graph) -> list[str]:
    return [node.op for node in found.calls()]


@declare(lhs=lambda a: op.exp(a), law=Law.COMMUTATIVE)
def exp_to_tanh(a: Term) -> Term:
    """exp(a) -> tanh(a), which costs as much."""
    return op.tanh(a)


@declare(lhs=lambda a: op.tanh(a), law=Law.COMMUTATIVE)
def tanh_to_exp(a: Term) -> Term:
    """tanh(a) -> exp(a), which costs as much."""
    return op.exp(a)


@declare(lhs=lambda a: op.exp(a), law=Law.COMMUTATIVE, numeric_class=NumericClass.EXACT)
def exp_to_abs(a: Term) -> Term:
    """exp(a) -> |a|: cheaper."""
    return op.abs(a)


@declare(lhs=lambda a: op.exp(a), law=Law.COMMUTATIVE)
def exp_to_sqrt(a: Term) -> Term:
    """exp(a) -> sqrt(a): cheaper, but less so."""
    return op.sqrt(a)


@declare(lhs=lambda a: op.exp(a), law=Law.COMMUTATIVE)
def exp_to_negative(a: Term) -> Term:
    """exp(a) -> -a: as cheap as the absolute value."""
    return -a


@declare(lhs=lambda a: op.exp(a), law=Law.COMMUTATIVE)
def exp_to_sum(a: Term) -> Term:
    """exp(a) -> sum(a): another type."""
    return op.sum(a)


@graph_rule(roots=("exp",))
def leave_rubbish(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """exp(x) -> exp(x), after adding calls that nothing reads."""
    graph.call("tanh", list(node.operands))
    return Refused("never")


def test_rules_that_gain_nothing_are_not_applied() -> None:
    found = graph(relay.exp(x))
    assert apply_rules(found, [exp_to_tanh, tanh_to_exp]) == []
    assert _operators(found) == ["exp"]


def test_rules_that_fight_are_stopped_and_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # A cost that lies: whatever is there now costs more than what takes its place.
    costs = itertools.cycle([NOTHING._replace(arithmetic=1), NOTHING])
    monkeypatch.setattr(engine, "cost_of", lambda nodes: next(costs))
    found = graph(relay.exp(x))
    applied = apply_rules(found, [exp_to_tanh, tanh_to_exp])
    assert len(applied) == MAX_ROUNDS
    assert "exp_to_tanh" in caplog.text
    assert f"stopped after {MAX_ROUNDS} rounds" in caplog.text


def test_the_largest_gain_is_taken() -> None:
    found = graph(relay.exp(x))
    (applied,) = apply_rules(found, [exp_to_sqrt, exp_to_abs])
    assert applied.rule == "exp_to_abs"
    assert _operators(found) == ["abs"]


def test_the_first_rule_is_taken_at_equal_gain() -> None:
    for rules in ([exp_to_abs, exp_to_negative], [exp_to_negative, exp_to_abs]):
        (applied,) = apply_rules(graph(relay.exp(x)), rules)
        assert applied.rule == rules[0].name


def test_kernels_decide_where_neither_arithmetic_nor_bytes_do() -> None:
    expr = relay.exp(relay.transpose(relay.transpose(x, [1, 0]), [1, 0]))

    def count(kernels_by_calls: dict[int, int]) -> list[str]:
        found = graph(expr)
        apply_rules(
            found,
            [RULES["merge_transposes"]],
            count_kernels=lambda cut: kernels_by_calls[len(cut.calls())],
        )
        return _operators(found)

    three_calls, one_call = 3, 1
    assert count({three_calls: 2, one_call: 1}) == ["exp"]
    assert count({three_calls: 1, one_call: 1}) == ["exp"], "then fewer calls decide"
    assert count({three_calls: 1, one_call: 2}) == ["transpose", "transpose", "exp"]


def test_fewer_operations_are_worth_a_kernel() -> None:
    def never(cut: Graph) -> int:
        raise AssertionError("arithmetic decides before kernels do")

    found = graph(relay.exp(x))
    assert apply_rules(found, [exp_to_abs], count_kernels=never)


def test_the_largest_gain_comes_first_wherever_it_is() -> None:
    large = var("large", 8, 8)
    found = graph(relay.exp(x), relay.exp(large))
    applied = apply_rules(found, [exp_to_abs])
    assert [item.gain.arithmetic for item in applied] == [9 * 64, 9 * 32]


def test_an_application_says_what_where_and_how_much() -> None:
    span = relay.Span(relay.SourceName("layer/exp"), 0, 0, 0, 0)
    found = graph(relay.Call(relay.op.get("exp"), [x], None, None, span))
    (applied,) = apply_rules(found, [exp_to_abs])
    assert (applied.rule, applied.node) == ("exp_to_abs", "layer/exp")
    assert applied.gain == NOTHING._replace(arithmetic=9 * 32)


@declare(lhs=lambda a: op.sqrt(a), law=Law.COMMUTATIVE)
def sqrt_to_exp(a: Term) -> Term:
    """sqrt(a) -> exp(a): pays only where exp(a) is there already."""
    return op.exp(a)


def test_a_call_that_is_there_costs_nothing_unless_it_was_replaced() -> None:
    expr = relay.sqrt(x) - relay.exp(x)
    shared = graph(expr)
    apply_rules(shared, [sqrt_to_exp])
    assert _operators(shared) == ["exp", "subtract"]
    replaced = graph(expr)
    applied = apply_rules(replaced, [sqrt_to_exp, exp_to_abs])
    assert [item.rule for item in applied] == ["exp_to_abs"]
    assert _operators(replaced) == ["sqrt", "abs", "subtract"]


def test_gains_add_up_to_what_the_graph_costs_less() -> None:
    found = graph((x * z + y * z) / relay.const(3.0) + relay.transpose(relay.transpose(x)))
    before = cost_of(found.calls())
    gains = [item.gain for item in rewrite(found)]
    after = cost_of(found.calls())
    assert [sum(field) for field in zip(*gains, strict=True)] == [
        first - second for first, second in zip(before, after, strict=True)
    ]


def test_a_result_of_another_type_is_not_put_in() -> None:
    found = graph(relay.exp(x))
    assert apply_rules(found, [exp_to_sum]) == []
    assert _operators(found) == ["exp"]


def test_what_an_attempt_added_is_taken_back() -> None:
    found = graph(relay.exp(x) + y)
    (node,) = (node for node in found.calls() if node.op == "exp")
    users = found.users(node.operands[0].node)
    assert apply_rules(found, [leave_rubbish, exp_to_tanh]) == []
    assert found.users(node.operands[0].node) == users


def test_exact_leaves_out_rules_that_change_rounding() -> None:
    expr = (x * z + y * z) + relay.transpose(relay.transpose(x))
    reassociated, exact = graph(expr), graph(expr)
    assert {item.rule for item in rewrite(reassociated)} == {
        "factor_common_multiplier",
        "merge_transposes",
    }
    assert {item.rule for item in rewrite(exact, exact=True)} == {"merge_transposes"}
    assert _operators(exact) == ["multiply", "multiply", "add", "add"]


def test_constants_are_folded_between_rounds() -> None:
    found = graph((x * relay.const(2.0)) * relay.const(3.0) * relay.const(4.0))
    rewrite(found)
    assert _operators(found) == ["multiply"]
    factors = [node.payload for node in found.topological() if node.op == "constant"]
    assert [float(factor) for factor in factors] == [24.0]


def test_an_operand_with_another_reader_is_not_worth_rewriting() -> None:
    product = x * z
    found = graph(product + y * z, product, y * z)
    assert apply_rules(found, [RULES["factor_common_multiplier"]]) == []


def test_one_application_may_make_another_possible() -> None:
    found = graph(relay.transpose(relay.transpose(x)) * z + y * z)
    applied = {item.rule for item in rewrite(found)}
    assert applied == {"merge_transposes", "factor_common_multiplier"}
    assert _operators(found) == ["add", "multiply"]


def test_overlapping_opportunities_are_taken_once() -> None:
    found = graph(x * z + y * z + var("w", 4, 8) * z)
    before = cost_of(found.calls())
    rewrite(found)
    assert _operators(found).count("multiply") == 1
    assert cost_of(found.calls()) < before


def test_rewriting_again_changes_nothing() -> None:
    found = graph(relay.nn.dense(x, const(6, 8)) * relay.const(2.0) / relay.const(3.0))
    assert rewrite(found)
    assert rewrite(found) == []
