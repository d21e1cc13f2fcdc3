from __future__ import annotations

from tvm import relay, tir

from tests.relay_modules import var
from tests.schedules.blocked_blocks import describe
from tvm_fusionx.tir.root_block import nests_of, with_root, written_buffer

x = var("x", 4, 8)


def test_each_stage_is_a_nest() -> None:
    assert len(nests_of(describe(relay.nn.relu(x)).func)) == 1
    assert len(nests_of(describe(relay.nn.relu(relay.nn.softmax(x))).func)) > 1


def test_the_buffer_of_a_stage_is_what_it_writes() -> None:
    info = describe(relay.nn.relu(relay.exp(x)))
    for name, stage in info.stages.items():
        assert written_buffer(info.func, name).same_as(stage.writes[0])


def test_body_and_buffers_are_replaced_and_nothing_else() -> None:
    func = describe(relay.nn.relu(relay.exp(x))).func
    nest = nests_of(func)[0]
    changed = with_root(func, nest, [])
    assert nests_of(changed) == [nest]
    assert list(changed.body.block.alloc_buffers) == []
    assert list(changed.params) == list(func.params)
    same = with_root(func, tir.SeqStmt(nests_of(func)), func.body.block.alloc_buffers)
    assert len(nests_of(same)) == len(nests_of(func))
