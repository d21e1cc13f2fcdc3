"""Schedules of TVM's own primitives, written as text and applied again."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tvm
from tvm import relay, tir

from tests.relay_modules import var
from tests.schedules.blocked_blocks import unscheduled
from tvm_fusionx.schedules import UnschedulableError
from tvm_fusionx.schedules.traced import (
    TRACED,
    apply_trace,
    schedule_by_trace,
    trace_text,
    why_not_readable,
)


def _block(columns: int = 32) -> Any:
    return unscheduled(relay.nn.relu(relay.nn.matmul(var("x", 8, 16), var("w", 16, columns))))


def _searched(func: Any) -> tir.Schedule:
    """Return a schedule as a search leaves it: something drawn, and something done with it."""
    sch = tir.Schedule(tvm.IRModule({"main": func}), seed=7)
    block = sch.get_child_blocks(sch.get_block("root"))[0]
    rows, columns, _ = sch.get_loops(block)
    outer, inner = sch.split(columns, sch.sample_perfect_tile(columns, 2, 16))
    sch.reorder(outer, rows, inner)
    sch.parallel(outer)
    return sch


def test_a_trace_gives_the_same_kernel_each_time() -> None:
    func = _block()
    sch = _searched(func)
    text = trace_text(sch.trace)
    for _ in range(2):
        scheduled = schedule_by_trace(func, text)
        assert scheduled.template == TRACED
        assert scheduled.knobs == {}
        tvm.ir.assert_structural_equal(scheduled.func, sch.mod["main"])
    assert trace_text(apply_trace(func, text).trace) == text
    assert "\n" not in text


def test_a_trace_of_another_block_is_refused() -> None:
    text = trace_text(_searched(_block()).trace)
    with pytest.raises(UnschedulableError, match="does not fit the block"):
        schedule_by_trace(unscheduled(relay.nn.relu(var("x", 4, 8))), text)


def test_a_trace_of_another_tvm_or_none_is_refused() -> None:
    func = _block()
    text = trace_text(_searched(func).trace)
    other = json.dumps(json.loads(text) | {TRACED: "0.11.0"})
    for wrong, reason in (
        (other, "of TVM 0.11.0"),
        (text[:-5], "it is no trace"),
        ("[]", "it is no trace"),
        ("[" * 9999, "it is no trace"),
        (json.dumps({TRACED: tvm.__version__, "trace": [1, []]}), "no list"),
    ):
        assert reason in (why_not_readable(wrong) or "")
        with pytest.raises(UnschedulableError, match=reason):
            schedule_by_trace(func, wrong)
    assert why_not_readable(text) is None
