from __future__ import annotations

import pytest
from tvm import relay, tir

from tests.relay_modules import var
from tests.schedules.blocked_blocks import unscheduled
from tvm_fusionx.tir.fresh_schedule import fresh_schedule


def test_the_function_given_stays_as_it_was() -> None:
    func = unscheduled(relay.exp(var("x", 8)))
    schedule = fresh_schedule(func)
    (block,) = schedule.get_child_blocks(schedule.get_block("root"))
    (loop,) = schedule.get_loops(block)
    schedule.vectorize(loop)
    assert not schedule.mod["main"].same_as(func)
    assert fresh_schedule(func).mod["main"].body.same_as(func.body)


def test_an_impossible_step_is_an_error() -> None:
    schedule = fresh_schedule(unscheduled(relay.exp(var("x", 8))))
    with pytest.raises(tir.ScheduleError):
        schedule.get_block("no such block")
