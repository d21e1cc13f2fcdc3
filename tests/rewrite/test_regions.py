from __future__ import annotations

from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.rewrite.regions import algebraic_regions

x, y = var("x", 4, 8), var("y", 4, 8)


def _regions(*exprs: relay.Expr) -> list[tuple[list[str], list[str]]]:
    return [
        ([node.op for node in region.nodes], [value.op for value in region.roots])
        for region in algebraic_regions(graph(*exprs))
    ]


def test_a_chain_is_one_region_with_one_root() -> None:
    assert _regions(relay.exp(x + y)) == [(["add", "exp"], ["exp"])]


def test_what_is_read_outside_is_a_root_too() -> None:
    total = x + y
    assert _regions(relay.exp(total), relay.transpose(total)) == [(["add", "exp"], ["add", "exp"])]


def test_other_operators_cut() -> None:
    moved = relay.transpose(relay.exp(x + y))
    assert _regions(relay.tanh(relay.abs(moved))) == [
        (["add", "exp"], ["exp"]),
        (["abs", "tanh"], ["tanh"]),
    ]


def test_branches_that_meet_are_one_region() -> None:
    assert _regions(relay.exp(x) * relay.tanh(y)) == [(["exp", "tanh", "multiply"], ["multiply"])]


def test_reductions_belong_where_they_keep_their_axes() -> None:
    kept = relay.exp(relay.sum(x * y, axis=1, keepdims=True))
    assert _regions(kept) == [(["multiply", "sum", "exp"], ["exp"])]
    dropped = relay.exp(relay.tanh(relay.sum(relay.abs(x) * y, axis=1)))
    assert _regions(dropped) == [
        (["abs", "multiply"], ["multiply"]),
        (["tanh", "exp"], ["exp"]),
    ]


def test_a_single_call_integers_and_other_ranks_are_left() -> None:
    whole = var("n", 4, dtype="int32")
    assert _regions(relay.exp(x), relay.abs(whole + whole), relay.exp(x + var("row", 8))) == []
