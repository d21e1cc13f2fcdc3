from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, assert_close, graph, var
from tests.rewrite.rule_examples import draw, evaluate
from tvm_fusionx.rewrite import ALL_RULES, rewrite
from tvm_fusionx.rewrite.cost import cost_of
from tvm_fusionx.rewrite.saturate import LARGEST_REGION, saturate

# The package has a function of the module's name.
engine = sys.modules["tvm_fusionx.rewrite.saturate"]

pytest.importorskip("egglog", reason="egglog is not installed: pip install egglog")

a, b, c, d = (var(name, 4, 8) for name in "abcd")

# What greedy rewriting does not find: each needs a step that gains nothing by itself.
BETTER: dict[str, tuple[Callable[[], relay.Expr], list[str]]] = {
    "a summand stands between": (lambda: (a * c - d) + b * c, ["add", "multiply", "subtract"]),
    "the largest gain first hides a larger one": (
        lambda: relay.exp(a) * relay.exp(b) + relay.exp(a) * relay.exp(c),
        ["add", "add", "add", "exp", "exp"],
    ),
    "a sign in the way": (lambda: -(a * b) + (c + a * d), ["add", "multiply", "subtract"]),
    "a divisor on both sides": (lambda: a / b + (c - d / b), ["add", "divide", "subtract"]),
}
AS_GOOD: dict[str, Callable[[], relay.Expr]] = {
    "reciprocals": lambda: (
        relay.divide(relay.const(1.0), a) * relay.divide(relay.const(1.0), a * b)
    ),
    "square": lambda: (a + b) * (a + b) - (a + b) * c,
    "roots": lambda: relay.sqrt(relay.abs(a)) * (relay.sqrt(relay.abs(a)) * b),
    "reduction": lambda: relay.prod(relay.exp(a), axis=1, keepdims=True) * relay.exp(a),
}


def _same_numbers(make: Callable[[], relay.Expr]) -> None:
    before, after = graph(make()), graph(make())
    saturate(after, ALL_RULES)
    inputs = draw(before)
    assert_close(evaluate(after, inputs), evaluate(before, inputs), REASSOCIATING)


@pytest.mark.parametrize("case", BETTER)
def test_saturation_beats_the_greedy_engine(case: str) -> None:
    make, left = BETTER[case]
    _same_numbers(make)
    greedy, saturated = graph(make()), graph(make())
    rewrite(greedy)
    rewrite(saturated, strategy="saturate")
    assert cost_of(saturated.calls()) < cost_of(greedy.calls())
    operators = sorted(node.op for node in saturated.calls())
    assert len(operators) == len(left)


@pytest.mark.parametrize("case", AS_GOOD)
def test_saturation_is_no_worse_than_the_greedy_engine(case: str) -> None:
    make = AS_GOOD[case]
    _same_numbers(make)
    greedy, saturated = graph(make()), graph(make())
    rewrite(greedy)
    rewrite(saturated, strategy="saturate")
    assert cost_of(saturated.calls()) <= cost_of(greedy.calls())


@pytest.mark.slow
def test_a_condition_is_a_fact_about_a_value() -> None:
    unknown = graph(relay.sqrt(a) * relay.sqrt(b))
    assert saturate(unknown, ALL_RULES) == []
    known = graph(relay.sqrt(relay.abs(a)) * relay.sqrt(relay.abs(b)))
    (applied,) = saturate(known, ALL_RULES)
    assert applied.rule == "saturation"
    assert [node.op for node in known.calls()].count("sqrt") == 1


def test_nothing_is_done_without_time_or_on_a_large_region(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert saturate(graph((a * c - d) + b * c), ALL_RULES, budget_seconds=-1.0) == []
    expr = a
    for _ in range(LARGEST_REGION // 2 + 1):
        expr = relay.tanh(expr * b)
    with caplog.at_level("INFO"):
        assert saturate(graph(expr), ALL_RULES) == []
    assert "calls is left as it is" in caplog.text


def _norm(data: relay.Expr) -> relay.Expr:
    centred = data - relay.mean(data, axis=-1, keepdims=True)
    spread = relay.mean(centred * centred, axis=-1, keepdims=True)
    return centred / relay.sqrt(spread + relay.const(1e-5))


def test_regions_that_are_alike_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    search = engine._cheapest

    def count(*arguments: Any) -> list[str]:
        searched.append(arguments[1])
        return search(*arguments)

    monkeypatch.setattr(engine, "_cheapest", count)
    expr = a
    for _ in range(3):
        expr = relay.transpose(_norm(expr) * relay.exp(_norm(expr)), [1, 0])
    before, after = graph(expr), graph(expr)
    saturate(after, ALL_RULES)
    assert len(searched) == 1
    inputs = draw(before)
    assert_close(evaluate(after, inputs), evaluate(before, inputs), REASSOCIATING)


def test_a_search_ends_before_it_takes_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    def calls_left() -> int:
        found = graph((a * c - d) + b * c)
        saturate(found, ALL_RULES)
        return len(found.calls())

    left = calls_left()
    monkeypatch.setattr(engine, "MOST_FORMS", 0)
    assert calls_left() > left
