"""Tables of what is measured only where it is asked for: lasting speed, tuned sides, tuning."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_runs import (
    NONE,
    OURS,
    SIDES,
    TUNED,
    MeasuredRun,
    Row,
    Section,
    commands_of,
    commits_of,
)

SHOWN = (OURS, "fusionx-tuned", "tvm", "tvm-metaschedule", "ort", "openvino")


def sustained(run: MeasuredRun) -> Section:
    """Return how each side's speed lasts: medians of the first and last tenth of the runs."""
    sides = [side for side in SIDES if any(side in _kept(each) for each in run.results)]
    rows: list[Row] = [
        [each["model"], *(_lasting(_kept(each).get(side)) for side in sides)]
        for each in run.results
        if _kept(each)
    ]
    seconds = {round(row["seconds"]) for each in run.results for row in _kept(each).values()}
    text = (
        f"Milliseconds of the first and of the last tenth of the runs of {_span(seconds)} s in one "
        "go, what the one is of the other, and in brackets the 10th to the 90th percentile of all."
    )
    return "Sustained", text, ["model", *(SIDES[side] for side in sides)], rows


def tuned(run: MeasuredRun) -> Section:
    """Return what tuning gives ours and plain TVM for the same budget, on every device."""
    rows: list[Row] = []
    places = []
    for apart in run.budgeted:
        device = apart.facts["device"]
        places.append(f"on {device}, by {commands_of(apart)} on {', '.join(commits_of(apart))}")
        for each in apart.results:
            facts, latency = each.get("tuning", {}), each["latency_ms"]
            times = (f"{latency[s]['median']:.2f}" if s in latency else NONE for s in SHOWN)
            spent = (_spent(facts.get(side)) for side in TUNED)
            rows.append([each["model"], device.partition(",")[0], *times, *spent])
    text = (
        "Milliseconds without and with tuning, each tuned side with the same budget: ours searches "
        "the knobs of its templates, TVM its own schedules with MetaSchedule. Kernels that its "
        "tuner did not reach TVM builds without a schedule, as plain loops. Measured apart: "
        f"{'; '.join(places)}."
    )
    spent_by = [f"{SIDES[side]} spent" for side in TUNED]
    header = ["model", "processor", *(SIDES[side] for side in SHOWN), *spent_by]
    return "Tuned at equal budget", text, header, rows


def tuning(run: MeasuredRun) -> Section:
    """Return what tuning brought to models, and how far their heavy blocks are from the limit."""
    rows: list[Row] = []
    for model, found in run.tuning.items():
        latency, report = found["latency_ms"], found["report"]
        near = [f"{part:.0%}" for part in found["of_limit"]]
        better = sum(block["is_better"] for block in report["blocks"])
        rows.append(
            [
                model,
                f"{latency['untuned']['median']:.2f}",
                f"{latency['tuned']['median']:.2f}",
                f"{found['ratio']:.3f}",
                f"{report['trials']} in {report['seconds']:.0f} of {found['budget_s']:.0f} s",
                f"{better} of {len(report['blocks'])}",
                ", ".join(near) or NONE,
            ]
        )
    text = (
        "Milliseconds without and with what tuning found (`python benchmarks/tuning.py`), taken in "
        "turns; trials; different blocks that left their default; what part of the machine's "
        "limit, arithmetic or memory, each of the heaviest blocks reaches."
    )
    header = ["model", "untuned", "tuned", "times as fast", "trials", "changed", "of the limit"]
    return "Tuning", text, header, rows


def _kept(result: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = result.get("sustained_ms", {})
    return found


def _lasting(row: dict[str, float] | None) -> str:
    if row is None:
        return NONE
    change = f"{row['first']:.2f} → {row['last']:.2f}, {row['throttling']:.2f}"
    return f"{change} ({row['p10']:.2f}-{row['p90']:.2f})"


def _span(values: set[int]) -> str:
    if not values:
        return "0"
    return str(min(values)) if len(values) == 1 else f"{min(values)} to {max(values)}"


def _spent(facts: dict[str, Any] | None) -> str:
    if facts is None:
        return NONE
    budget = (
        f"{facts['budget_s']:.0f} s" if "budget_s" in facts else f"{facts['budget_trials']} trials"
    )
    return (
        f"{facts['trials']} trials, {facts['spent_s']:.0f} s of {budget}, "
        f"{facts['reached']} of {facts['tasks']} kernels"
    )
