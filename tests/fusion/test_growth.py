from __future__ import annotations

from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.fusion import Limits, Reason
from tvm_fusionx.fusion.growth import (
    Growth,
    Rules,
    is_reshape_only,
    smallest_first,
    without_border_reshapes,
)

x = var("x", 64, 512)


def _grown(expr: relay.Expr, rules: Rules | None = None) -> Growth:
    growth = Growth(graph(expr), rules or Rules(Limits()))
    growth.grow()
    return growth


def _operators(groups: list[tuple[Node, ...]]) -> list[tuple[str, ...]]:
    return [tuple(node.op for node in nodes) for nodes in groups]


def test_every_block_on_the_way_is_remembered() -> None:
    growth = _grown(relay.exp(relay.tanh(relay.sin(x))))
    formed = _operators(list(growth.formed))
    assert formed[-1] == ("sin", "tanh", "exp")
    assert len(formed) == 2
    assert _operators([unit.nodes for unit in growth.partition.units]) == [formed[-1]]


def test_the_smallest_result_is_the_first_seed() -> None:
    small, large = graph(relay.exp(var("s", 4))).calls()[0], graph(relay.exp(x)).calls()[0]
    assert smallest_first(small, 9) < smallest_first(large, 0)
    assert smallest_first(small, 0) < smallest_first(small, 1)


def test_another_order_forms_other_blocks_and_the_same_end() -> None:
    found = graph(relay.exp(relay.tanh(relay.sin(x))))
    backwards = Growth(found, Rules(Limits()), lambda _, place: (-place,))
    backwards.grow()
    assert _operators(list(backwards.formed))[0] == ("tanh", "exp")
    assert len(backwards.partition.units) == 1


def test_what_stays_alone_says_why() -> None:
    found = graph(relay.exp(relay.tanh(relay.sin(x))))
    (_, tanh, _) = found.calls()
    growth = Growth(found, Rules(Limits(), alone={tanh: "tanh stays alone"}))
    growth.grow()
    first, second, _ = growth.partition.units
    refusal = growth.why_not(first, second)
    assert refusal is not None
    assert refusal.reason is Reason.DENIED
    assert refusal.detail == "tanh stays alone"


def test_reshapes_are_cut_off_both_borders() -> None:
    inner = relay.reshape(relay.exp(relay.reshape(x, (512, 64))), (64 * 512,))
    found = graph(inner)
    parts = without_border_reshapes(found, tuple(found.calls()))
    assert _operators(parts) == [("reshape",), ("exp",), ("reshape",)]
    assert [is_reshape_only(part) for part in parts] == [True, False, True]


def test_a_reshape_between_stays() -> None:
    found = graph(relay.tanh(relay.reshape(relay.nn.dense(x, const(512, 512)), (512, 64))))
    calls = tuple(found.calls())
    assert without_border_reshapes(found, calls) == [calls]
