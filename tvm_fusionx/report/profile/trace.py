"""A profile as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.report.profile.profile import MICROSECONDS, ProfileReport

PROCESS = 1
KERNELS, WHOLE = 1, 2
TRACKS = {KERNELS: "kernels, each alone", WHOLE: "whole run"}


def chrome_trace(report: ProfileReport) -> dict[str, Any]:
    """Return `report` in Chrome's trace event format, times in microseconds.

    One track has the kernels one after the other in execution order, each as long as it takes
    alone; the other has the whole run beside them, so that the gap between the two shows.
    """
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": PROCESS, "tid": track, "args": {"name": name}}
        for track, name in TRACKS.items()
    ]
    started = 0.0
    for kernel in report.kernels:
        facts = {
            "operators": list(kernel.operators),
            "template": kernel.template,
            "share": kernel.share,
            "tuned": kernel.is_tuned,
            "GFLOP/s": kernel.gflops_per_second,
            "part of peak": kernel.part_of_peak,
            "GB/s": kernel.gbytes_per_second,
        }
        events.append(_complete(kernel.name, started, kernel.seconds, KERNELS, facts))
        started += kernel.seconds
    events.append(_complete("run", 0.0, report.end_to_end_seconds, WHOLE, {}))
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _complete(
    name: str, started: float, seconds: float, track: int, facts: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": facts.get("template") or "run",
        "ts": started * MICROSECONDS,
        "dur": seconds * MICROSECONDS,
        "pid": PROCESS,
        "tid": track,
        "args": facts,
    }
