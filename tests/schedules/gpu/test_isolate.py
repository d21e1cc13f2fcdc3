from __future__ import annotations

import pytest
from tvm import relay, tir

from tests.relay_modules import var
from tests.schedules.gpu.gpu_blocks import describe
from tvm_fusionx.schedules.gpu.isolate import has_guard, isolate_reduction
from tvm_fusionx.schedules.template import UnschedulableError
from tvm_fusionx.tir.fresh_schedule import fresh_schedule


def test_a_block_becomes_one_sum_and_one_store() -> None:
    x = relay.nn.dense(relay.nn.relu(var("x", 8, 6)), var("w", 4, 6))
    info = describe(relay.transpose(relay.nn.relu(x + var("b", 4))))
    block = isolate_reduction(fresh_schedule(info.func), info)
    assert set(block.info.stages) == {block.reduce.name, block.write.name}
    assert block.reduce.writes[0].scope() == "local"
    assert block.write.spatial == (8, 4)


@pytest.mark.parametrize(
    "body",
    [
        relay.nn.softmax(var("x", 4, 40)),
        relay.nn.pad(relay.nn.dense(var("x", 4, 6), var("w", 4, 6)), ((1, 1), (0, 0))),
    ],
)
def test_other_blocks_are_refused(body: relay.Expr) -> None:
    info = describe(body)
    with pytest.raises(UnschedulableError):
        isolate_reduction(fresh_schedule(info.func), info)


def test_conditions_are_seen() -> None:
    x = tir.Var("x", "float32")
    assert not has_guard(x + 1)
    assert has_guard(tir.Select(x > 0, x, -x))
    assert has_guard(tir.if_then_else(x > 0, x, -x))


def test_branches_that_all_lanes_take_together_are_none() -> None:
    x, lane = tir.Var("x", "int32"), tir.Var("lane", "int32")
    same = tir.if_then_else(x > 0, x + lane, tir.const(0))
    assert not has_guard(same, lane)
    assert has_guard(same, x)
    assert has_guard(same)
    assert has_guard(tir.Select(x > 0, x, lane), lane)


def test_a_small_gate_is_computed_for_each_product() -> None:
    x = var("x", 1, 8)
    small = relay.nn.dense(x * relay.sigmoid(x), var("w", 16, 8))
    info = describe(small)
    isolate_reduction(fresh_schedule(info.func), info)

    y = var("x", 512, 512)
    info = describe(relay.nn.dense(y * relay.sigmoid(y), var("w", 512, 512)))
    assert len(isolate_reduction(fresh_schedule(info.func), info).others) == 1
