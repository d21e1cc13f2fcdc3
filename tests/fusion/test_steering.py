from __future__ import annotations

import logging

import pytest
from tvm import relay

from tests.fusion.planned import planned
from tests.relay_modules import const, graph, var
from tvm_fusionx.fusion import PlannerOptions, Reason
from tvm_fusionx.fusion.steering import nodes_alone

x = var("x", 64, 512)


def _net() -> relay.Expr:
    """Return a product, an activation that bears a name, and a chain after a second product."""
    span = relay.Span(relay.SourceName("gate"), 0, 0, 0, 0)
    first = relay.nn.dense(x, const(512, 512))
    gate = relay.Call(relay.op.get("tanh"), [first], None, None, span)
    return relay.negative(relay.abs(relay.nn.dense(gate, const(512, 512))))


def _blocks(**steering: frozenset[str]) -> list[tuple[str, ...]]:
    return [block.ops for block in planned(_net(), options=PlannerOptions(**steering)).blocks]  # type: ignore[arg-type]


FIRST, SECOND = ("nn.dense", "tanh"), ("nn.dense", "abs", "negative")


def test_without_words_nothing_is_steered() -> None:
    assert _blocks() == [FIRST, SECOND]


def test_an_operator_a_node_or_a_block_is_denied() -> None:
    for word in ("tanh", "gate", "dense_tanh"):
        assert _blocks(deny=frozenset([word])) == [("nn.dense",), ("tanh",), SECOND]


def test_only_what_is_allowed_is_fused() -> None:
    assert _blocks(allow=frozenset(["abs", "negative"])) == [
        ("nn.dense",),
        ("tanh",),
        ("nn.dense",),
        ("abs", "negative"),
    ]
    assert _blocks(allow=frozenset(["dense_tanh"])) == [
        FIRST,
        ("nn.dense",),
        ("abs",),
        ("negative",),
    ]


def test_what_is_denied_is_not_allowed() -> None:
    words = frozenset(["abs", "negative"])
    assert ("abs", "negative") not in _blocks(allow=words, deny=frozenset(["abs"]))


def test_edges_say_that_it_was_the_user() -> None:
    plan = planned(_net(), options=PlannerOptions(deny=frozenset(["abs"])))
    details = {edge.detail for edge in plan.edges if edge.reason is Reason.DENIED}
    assert details == {"abs stays alone"}


def test_a_word_that_names_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    calls = graph(_net()).calls()
    with caplog.at_level(logging.WARNING):
        assert nodes_alone(calls, frozenset(), frozenset(["nobody"]), dict) == {}
    assert "nobody names no operator, node or block" in caplog.text


def test_blocks_are_planned_only_for_words_that_name_nothing_else() -> None:
    def never() -> dict[str, tuple[object, ...]]:
        raise AssertionError

    calls = graph(_net()).calls()
    # An operator that this model has none of is no unknown word.
    words = frozenset(["abs", "gate", "nn.conv2d"])
    assert len(nodes_alone(calls, frozenset(), words, never)) == 2  # type: ignore[arg-type]
