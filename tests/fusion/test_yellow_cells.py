from __future__ import annotations

import math
from collections.abc import Mapping

from tvm import relay

from tests.fusion.planned import planned
from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg import Graph
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.fusion import PlannerOptions, Reason
from tvm_fusionx.fusion.candidate import Candidate
from tvm_fusionx.fusion.partition import Partition
from tvm_fusionx.fusion.yellow_cells import MeasureBlock, YellowCells, has_yellow_edge

x = var("x", 64, 512)


def _candidate(expr: relay.Expr) -> Candidate:
    partition = Partition(graph(expr))
    first, second = partition.units
    return Candidate(partition, first, second)


def _wasteful() -> relay.Expr:
    """Return a small turned plane that a stack of a hundred reads again and again."""
    return relay.transpose(var("plane", 128, 64)) + var("stack", 100, 64, 128)


def _thrifty() -> relay.Expr:
    """Return a sum of planes, most of it a broadcast, that is then repeated."""
    return relay.repeat(var("a", 8, 16, 1) + var("b", 1, 16, 32), 2, axis=0)


def _tie() -> relay.Expr:
    """Return a product that takes far longer than what fusing saves."""
    return relay.transpose(relay.nn.dense(x, const(512, 512)))


class Asked:
    """Answers by number of calls in a block, and keeps what it was asked."""

    def __init__(self, times: Mapping[int, float]) -> None:
        self.times = times
        self.blocks: list[tuple[str, ...]] = []

    def __call__(self, _: Graph, nodes: tuple[Node, ...]) -> float:
        self.blocks.append(tuple(node.op for node in nodes))
        return self.times[len(nodes)]


def test_green_edges_are_no_business_of_costs() -> None:
    green = _candidate(relay.exp(relay.tanh(x)))
    assert not has_yellow_edge(green)
    assert YellowCells(green.partition.graph).why_not(green) is None


def test_yellow_edges_are_compared() -> None:
    candidate = _candidate(_thrifty())
    assert has_yellow_edge(candidate)
    found = YellowCells(candidate.partition.graph).compare(candidate)
    assert found.together < found.apart
    assert not found.is_tie
    assert not found.is_measured


def test_what_is_clearly_slower_as_one_is_refused_with_both_numbers() -> None:
    candidate = _candidate(_wasteful())
    cells = YellowCells(candidate.partition.graph)
    assert not cells.compare(candidate).is_tie
    refusal = cells.why_not(candidate)
    assert refusal is not None
    assert refusal.reason is Reason.SLOWER
    assert "us as one kernel" in refusal.detail
    assert "estimated" in refusal.detail


def _decide(measure: MeasureBlock) -> Reason | None:
    candidate = _candidate(_tie())
    cells = YellowCells(candidate.partition.graph, measure=measure)
    refusal = cells.why_not(candidate)
    return refusal.reason if refusal else None


def test_a_tie_is_fused_without_a_device_and_measured_with_one() -> None:
    candidate = _candidate(_tie())
    cells = YellowCells(candidate.partition.graph)
    assert cells.compare(candidate).is_tie
    assert cells.why_not(candidate) is None
    assert _decide(Asked({1: 5.0, 2: 11.0})) is Reason.SLOWER
    assert _decide(Asked({1: 5.0, 2: 9.0})) is None


def test_what_cannot_be_built_as_one_is_refused() -> None:
    assert _decide(Asked({1: 5.0, 2: math.inf})) is Reason.SLOWER


def test_what_cannot_be_built_apart_leaves_the_estimate() -> None:
    assert _decide(Asked({1: math.inf, 2: 9.0})) is None


def test_the_planner_asks_only_about_ties() -> None:
    asked = Asked({1: 5.0, 2: 11.0})
    plan = planned(_tie(), options=PlannerOptions(measure=asked))
    assert len(plan.blocks) == 2
    assert sorted(set(asked.blocks)) == [
        ("nn.dense",),
        ("nn.dense", "transpose"),
        ("transpose",),
    ]
    (edge,) = plan.edges
    assert edge.reason is Reason.SLOWER
    assert "measured" in edge.detail
    clear = Asked({})
    planned(_thrifty(), options=PlannerOptions(measure=clear))
    assert clear.blocks == []
