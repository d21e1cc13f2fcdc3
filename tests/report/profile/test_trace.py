from __future__ import annotations

import json

import pytest

from tvm_fusionx.report.profile.profile import KernelTime, ProfileReport
from tvm_fusionx.report.profile.trace import chrome_trace

REPORT = ProfileReport(
    (
        KernelTime("dense", ("fc1",), "dot", 3e-6, 0.75, 12.5, 4.0, 0.25, True),
        KernelTime("gather", ("ids",), "", 1e-6, 0.25, None, 2.0),
    ),
    end_to_end_seconds=5e-6,
)


def test_kernels_follow_each_other_beside_the_whole_run() -> None:
    trace = json.loads(json.dumps(chrome_trace(REPORT)))
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [(span["name"], span["tid"]) for span in spans] == [
        ("dense", 1),
        ("gather", 1),
        ("run", 2),
    ]
    assert [span["ts"] for span in spans] == pytest.approx([0, 3, 0])
    assert [span["dur"] for span in spans] == pytest.approx([3, 1, 5])


def test_a_span_carries_what_is_known_of_its_kernel() -> None:
    dense, gather, _ = (
        event for event in chrome_trace(REPORT)["traceEvents"] if event["ph"] == "X"
    )
    assert dense["cat"] == "dot"
    assert dense["args"]["operators"] == ["fc1"]
    assert dense["args"]["GFLOP/s"] == 12.5
    assert dense["args"]["part of peak"] == 0.25
    assert dense["args"]["tuned"] is True
    assert gather["args"]["GFLOP/s"] is None


def test_each_track_has_a_name() -> None:
    events = chrome_trace(REPORT)["traceEvents"]
    named = {event["tid"] for event in events if event["ph"] == "M"}
    assert named == {event["tid"] for event in events if event["ph"] == "X"}
