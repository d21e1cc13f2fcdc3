from __future__ import annotations

from tvm import relay

from tests.fusion.planned import blocks
from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg import to_relay
from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.fusion import PlannerOptions
from tvm_fusionx.layout import multiply_by_strassen

x, weights = var("x", 64, 512), const(512, 512)


def _moved(rows: int = 64) -> relay.Expr:
    """Return a product with its epilogue and a softmax, stored in another order of rows."""
    value = relay.nn.relu(relay.nn.dense(var("x", rows, 512), weights))
    moved = relay.transpose(relay.reshape(relay.nn.softmax(value), (8, rows // 8, 512)), [1, 0, 2])
    return relay.tanh(moved)


def _asking(asked: list[tuple[str, ...]], limit: int) -> PlannerOptions:
    """Return options under which blocks that multiply and hold more calls are not served."""

    def why(graph: Graph, nodes: tuple[Node, ...]) -> str | None:
        asked.append(tuple(node.op for node in nodes))
        return f"more than {limit}" if len(nodes) > limit else None

    return PlannerOptions(why_unserved=why)


def test_what_is_served_stays_whole() -> None:
    asked: list[tuple[str, ...]] = []
    whole = blocks(_moved(), options=_asking(asked, limit=99))
    assert whole == blocks(_moved())
    assert len(asked) == 1


def test_a_product_keeps_what_stays_in_registers_behind_it() -> None:
    torn = blocks(_moved(), options=_asking([], limit=2))
    assert torn[0] == ("nn.dense", "nn.relu")
    assert sorted(op for block in torn for op in block) == sorted(
        op for block in blocks(_moved()) for op in block
    )


def test_every_part_with_a_reduction_was_shown_to_the_templates() -> None:
    asked: list[tuple[str, ...]] = []
    torn = blocks(_moved(), options=_asking(asked, limit=3))
    heavy = [block for block in torn if "nn.dense" in block or "nn.softmax" in block]
    assert all(block in asked or len(block) == 1 for block in heavy)
    assert all(len(block) <= 3 for block in heavy)


def test_small_blocks_and_blocks_that_move_nothing_are_not_asked_of() -> None:
    asked: list[tuple[str, ...]] = []
    straight = relay.nn.softmax(relay.nn.relu(relay.nn.dense(x, weights)))
    before = relay.nn.dense(relay.transpose(relay.reshape(x, (512, 64)), [1, 0]), weights)
    small = relay.transpose(relay.nn.softmax(var("s", 8, 8)), [1, 0])
    for net in (straight, before, small):
        blocks(net, options=_asking(asked, limit=0))
    assert asked == []


def test_a_product_that_gives_away_what_it_moved_is_asked_of() -> None:
    asked: list[tuple[str, ...]] = []
    held = graph(relay.nn.dense(x, weights))
    multiply_by_strassen(held)
    seven = to_relay(held).body
    whole = blocks(seven)
    pair = ("strided_slice", "nn.dense")
    assert pair in whole
    torn = blocks(seven, options=_asking(asked, limit=1))
    assert pair in asked
    assert pair not in torn
