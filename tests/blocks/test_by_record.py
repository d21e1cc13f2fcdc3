"""A tuning record decides of a block, where it fits."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from tvm import relay

from tests.relay_modules import TARGET, var
from tests.schedules.blocked_blocks import unscheduled
from tvm_fusionx.blocks.by_record import schedule_by_record
from tvm_fusionx.records import Record
from tvm_fusionx.schedules import resolve_target

CPU = resolve_target(TARGET)
RECORD = Record("", "", "dot", {"tile_rows": 2}, seconds=1.0, default_seconds=2.0, trials=3)


@pytest.fixture(scope="module")
def product() -> object:
    return unscheduled(relay.nn.matmul(var("x", 8, 6), var("w", 6, 32)))


def test_knobs_are_those_of_the_record_and_defaults_without_one(product: object) -> None:
    default = schedule_by_record(product, CPU, None)
    assert default.knobs["tile_rows"] != 2
    assert schedule_by_record(product, CPU, RECORD).knobs == {**default.knobs, "tile_rows": 2}
    kept = replace(RECORD, seconds=2.0)
    assert kept.keeps_default
    assert schedule_by_record(product, CPU, kept).knobs == default.knobs


def test_a_trace_that_does_not_fit_is_said_and_defaults_serve(
    product: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = schedule_by_record(product, CPU, replace(RECORD, trace="no trace", name="first"))
    assert found.template == "dot"
    assert "its record: it is no trace" in str(found.fallback_reason)
    assert "block first" in caplog.text
