from __future__ import annotations

from tvm_fusionx.report.explain.entries import BlockEntry, Summary
from tvm_fusionx.schedules import Refusal


def test_what_is_saved_is_what_is_not_written() -> None:
    summary = Summary(3, 3, 2, intermediate_bytes_unfused=32, intermediate_bytes=12, flops=360)
    assert summary.bytes_saved == 20


def test_templates_that_refuse_for_one_reason_stand_together() -> None:
    refusals = (Refusal("a", "no dot"), Refusal("b", "no rows"), Refusal("c", "no dot"))
    block = BlockEntry("exp", ("exp",), ("x",), "One-to-One", 4, 4, 0, 1, refusals=refusals)
    assert block.passed_over() == ["a, c: no dot", "b: no rows"]
