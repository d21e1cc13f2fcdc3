"""What is inlined, and what is kept because computing it again would cost more."""

from __future__ import annotations

from tvm import relay

from tests.relay_modules import var
from tests.schedules.blocked_blocks import describe
from tests.schedules.matrix_blocks import attention_scores
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.inline import inline_spatial


def _inlined(body: relay.Expr) -> BlockInfo:
    info = describe(body)
    return inline_spatial(fresh_schedule(info.func), info)


def test_a_chain_becomes_one_stage() -> None:
    x = var("x", 4, 8)
    chain = relay.transpose(relay.nn.relu(relay.exp(x) + relay.const(1.0)))
    assert len(_inlined(chain).stages) == 1


def test_a_transcendental_function_is_not_evaluated_twice_a_point() -> None:
    x = var("x", 4, 1)
    broadcast = relay.add(relay.exp(x), var("y", 4, 64))
    assert len(_inlined(broadcast).stages) == 2


def test_what_is_gathered_is_not_gathered_for_each_row() -> None:
    marks = relay.take(var("marks", 1, 64), var("places", 64, dtype="int64"), axis=1)
    assert len(_inlined(marks + var("y", 128, 64)).stages) == 2
    assert len(_inlined(marks + var("y", 1, 64)).stages) == 1


def test_what_is_computed_for_neighbours_at_computed_places_is_computed_once() -> None:
    places = var("places", 64, dtype="int64")
    rows = var("x", 4, 8) * var("s", 4, 1) + var("y", 4, 8)
    assert len(_inlined(relay.take(rows, places, axis=1)).stages) == 2
    # Fewer are taken than there are; rows, which are whole vectors; a copy.
    assert len(_inlined(relay.take(rows, var("few", 5, dtype="int64"), axis=1)).stages) == 1
    assert len(_inlined(relay.take(rows, places, axis=0)).stages) == 1
    assert len(_inlined(relay.take(relay.transpose(var("x", 8, 4)), places, axis=1)).stages) == 1


def test_an_expression_does_not_grow_without_bound() -> None:
    x = var("x", 16)
    for _ in range(12):
        x = x * x + x
    info = _inlined(x)
    assert len(info.stages) > 1
    assert max(stage.nodes for stage in info.stages.values()) < 2000


def test_what_finishes_a_product_is_kept_for_its_several_readers() -> None:
    info = _inlined(relay.nn.softmax(attention_scores(2, 8, 8, 4), axis=-1))
    assert info.anchor is not None
    assert len(info.consumers[info.anchor.name]) == 1
