"""A block is scheduled when somebody asks, and known by what it is."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relay

from tests.relay_modules import TARGET, var
from tests.schedules.blocked_blocks import unscheduled
from tvm_fusionx.blocks import block as module
from tvm_fusionx.blocks.block import Block, record_text, text_of
from tvm_fusionx.records import Record
from tvm_fusionx.schedules import resolve_target, schedule

CPU = resolve_target(TARGET)


@pytest.fixture(scope="module")
def source() -> Any:
    return unscheduled(relay.nn.relu(var("x", 4, 8)))


def test_what_was_decided_tells_the_same_and_schedules_nothing(
    source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Block(source, CPU)
    told = Block(source, CPU)
    told.decision = made.decided("ab" * 32)
    facts = made.facts()
    assert (facts["template"], facts["fallback_reason"]) == ("rows", None)
    assert facts["refusals"]
    monkeypatch.setattr(module, "schedule_by_record", lambda *of: pytest.fail("scheduled"))
    assert told.facts() == facts
    monkeypatch.undo()
    assert tvm.ir.structural_equal(told.make(), made.func)
    assert told.func is told.func


def test_what_planning_made_is_taken(source: Any) -> None:
    planned = schedule(source, CPU)
    assert Block(source, CPU, planned=planned).func is planned.func


def test_its_text_has_no_name_of_a_model(source: Any) -> None:
    assert text_of(source.with_attr("global_symbol", "one")) == text_of(
        source.with_attr("global_symbol", "other")
    )


def test_a_records_text_has_what_scheduling_reads() -> None:
    def text(seconds: float = 1.0, trace: str = "", **knobs: int) -> str:
        return record_text(
            Record("", "", "dot", knobs, seconds=seconds, default_seconds=2.0, trace=trace)
        )

    assert record_text(None) == text(2.0, tile=3) == ""
    assert text(tile=3, width=2) == text(0.5, width=2, tile=3)
    assert len({text(tile=3), text(tile=4), text(trace="a"), ""}) == 4
