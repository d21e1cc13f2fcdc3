from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relay

from tests.fusion.planned import planned
from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.fusion import Limits, PlannerOptions, Reason
from tvm_fusionx.fusion.device_costs import DEFAULT_COSTS
from tvm_fusionx.fusion.growth import Growth, Rules
from tvm_fusionx.fusion.optimal import cheapest_cover, improve, legal_blocks, partition_of

x = var("x", 64, 512)
OPTIMAL = PlannerOptions(planner="optimal")


def _grown(expr: relay.Expr) -> Growth:
    growth = Growth(graph(expr), Rules(Limits()))
    growth.grow()
    return growth


def _torn() -> relay.Expr:
    """Return a graph on which the greedy planner gives a small chain to the wrong product.

    The reduction's result is read by two; whichever is grown first takes it away.
    """
    centred = x - relay.mean(x, axis=-1, keepdims=True)
    return relay.nn.dense(relay.exp(centred), const(512, 512)) + centred


def _cover(blocks: Sequence[str], prices: Sequence[float], forbidden: Any = ()) -> list[str]:
    """Return the chosen of `blocks`, each a string of letters; calls are letters too."""
    letters = sorted(set("".join(blocks)))
    chain = x
    for _ in letters:
        chain = relay.exp(chain)
    nodes: dict[str, Node] = dict(zip(letters, graph(chain).calls(), strict=True))
    groups = [tuple(nodes[letter] for letter in block) for block in blocks]
    price = dict(zip(groups, prices, strict=True))
    cover = cheapest_cover(list(nodes.values()), groups, price, forbidden, 10.0)
    assert cover is not None
    assert cover.bound_us <= cover.microseconds + 1e-9
    assert cover.microseconds == pytest.approx(sum(prices[number] for number in cover.chosen))
    return [blocks[number] for number in cover.chosen]


def test_the_cheapest_cover_holds_every_call_once() -> None:
    assert _cover(["a", "b", "c", "ab", "bc"], [1, 1, 1, 1.5, 1.9]) == ["c", "ab"]
    assert _cover(["a", "b", "c", "ab", "bc"], [1, 1, 1, 1.9, 1.5]) == ["a", "bc"]
    assert _cover(["a", "b", "c", "ab", "bc"], [1, 1, 1, 9, 9]) == ["a", "b", "c"]


def test_what_is_forbidden_together_is_not_chosen_together() -> None:
    blocks, prices = ["a", "b", "c", "d", "ac", "bd"], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert _cover(blocks, prices) == ["ac", "bd"]
    assert len(_cover(blocks, prices, [[4, 5]])) == 3


def test_blocks_to_choose_from_hold_the_single_calls_and_the_greedy_plan() -> None:
    growth = _grown(_torn())
    blocks = legal_blocks(growth)
    assert len(set(blocks)) == len(blocks)
    for node in growth.partition.calls:
        assert (node,) in blocks
    for unit in growth.partition.units:
        assert unit.nodes in blocks


def test_a_plan_is_never_dearer_than_the_greedy_one() -> None:
    growth = _grown(_torn())
    solution = improve(growth, DEFAULT_COSTS, 10.0)
    assert solution.bound_us <= solution.found_us <= solution.greedy_us
    assert solution.greedy_gap >= 0
    assert solution.unproved_gap < 1e-3


def test_without_time_the_greedy_plan_is_kept_and_said_so() -> None:
    growth = _grown(_torn())
    before = [unit.nodes for unit in growth.partition.units]
    solution = improve(growth, DEFAULT_COSTS, 0.0)
    assert [unit.nodes for unit in growth.partition.units] == before
    assert "greedy plan kept" in solution.note
    assert solution.note in str(solution)


def test_an_empty_graph_has_nothing_to_solve() -> None:
    made = planned(x, options=OPTIMAL)
    assert made.blocks == ()
    assert made.solution is not None
    assert made.solution.greedy_gap == made.solution.unproved_gap == 0


def test_two_blocks_that_wait_for_each_other_are_never_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Offer a circle that costs nothing: it must be seen and forbidden."""
    left, right = relay.exp(x), relay.sin(x)
    found = graph(relay.tanh(left) + relay.abs(right), relay.cos(right) + relay.negative(left))
    node = {call.op: call for call in found.calls() if call.op != "add"}
    circle = [(node["exp"], node["cos"]), (node["sin"], node["tanh"])]
    single = [(call,) for call in found.calls()]
    growth = Growth(found, Rules(Limits()))
    price = {block: 1.0 for block in single} | {block: 0.1 for block in circle}
    monkeypatch.setattr("tvm_fusionx.fusion.optimal.legal_blocks", lambda _: [*single, *circle])
    monkeypatch.setattr("tvm_fusionx.fusion.optimal._cost", lambda _, block, __: price[block])
    asked: list[int] = []
    solve = cheapest_cover

    def counted(*arguments: Any) -> Any:
        asked.append(len(arguments[3]))
        return solve(*arguments)

    monkeypatch.setattr("tvm_fusionx.fusion.optimal.cheapest_cover", counted)
    monkeypatch.setattr("tvm_fusionx.fusion.optimal.partition_of", lambda *_: growth.partition)
    solution = improve(growth, DEFAULT_COSTS, 10.0)
    assert asked == [0, 1]
    assert solution.found_us == pytest.approx(len(single) - 2 + 0.1)


def test_a_cover_becomes_units() -> None:
    found = graph(relay.exp(x) + relay.tanh(relay.exp(x)))
    exp, tanh, add = found.calls()
    partition = partition_of(found, [(exp,), (tanh, add)])
    assert [unit.nodes for unit in partition.units] == [(exp,), (tanh, add)]
    partition = partition_of(found, [(exp, tanh, add)])
    assert [unit.nodes for unit in partition.units] == [(exp, tanh, add)]


def test_edges_that_could_be_fused_say_that_the_plan_is_faster() -> None:
    made = planned(_torn(), options=OPTIMAL)
    for edge in made.edges:
        assert edge.fused is (edge.reason is None)
        assert edge.reason is not Reason.SLOWER or "us as" in edge.detail or "plan" in edge.detail


def test_a_planner_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"greedy, optimal.*'best'"):
        PlannerOptions(planner="best")


def test_a_missing_solver_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without_scipy(name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("scipy"):
            raise ModuleNotFoundError("No module named 'scipy'", name="scipy")
        return original(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without_scipy)
    with pytest.raises(MissingDependencyError, match=r"\.\[optimal\]"):
        planned(relay.exp(relay.tanh(x)), options=OPTIMAL)


@pytest.mark.slow
@settings(max_examples=15)
@given(st.data())
def test_plans_of_random_graphs_cover_every_call_once(data: st.DataObject) -> None:
    values = [x, var("y", 64, 512)]
    for _ in range(data.draw(st.integers(2, 10))):
        first, second = (data.draw(st.sampled_from(values)) for _ in range(2))
        kind = data.draw(st.sampled_from(["exp", "add", "sum", "dense", "turn"]))
        if kind == "exp":
            values.append(relay.exp(first))
        elif kind == "add":
            values.append(first + second)
        elif kind == "sum":
            values.append(second * relay.sum(first, axis=-1, keepdims=True))
        elif kind == "dense":
            values.append(relay.nn.dense(first, const(512, 512)))
        else:
            turned = relay.transpose(relay.reshape(first, (512, 64)))
            values.append(turned)
    outputs = data.draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=2))
    found = graph(*outputs, params=values[:2])
    growth = Growth(found, Rules(Limits()))
    growth.grow()
    solution = improve(growth, DEFAULT_COSTS, 10.0)
    held = [node for unit in growth.partition.units for node in unit.nodes]
    assert sorted(held, key=growth.partition.index.__getitem__) == growth.partition.calls
    assert solution.found_us <= solution.greedy_us
