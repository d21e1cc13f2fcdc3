"""The summary that git keeps of what was measured: models, processors, and the field."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_runs import CONTROL, NONE, OURS, SIDES, WRONG, MeasuredRun, is_right
from readme_table import how_measured
from standing import best_peer, geometric_mean, ratio_to_ours

HEADER = ("model", "operators", "kernels", "ours", "unfused", "TVM", "best other", "best / ours")
DEVICES = ("processor", "models", "first on", "best other / ours", "TVM / ours")

INTRODUCTION = """# Results

Written by `benchmarks/results_page.py`; do not edit. `make bench` measures anew, as
[the how-to](how-to/benchmark.md) tells.

Milliseconds, medians. *Ours* is this package, *unfused* the same with every operator in a kernel
of its own: what it gains over TVM the templates gained, and fusion the rest. *Best other* is the
fastest of all other runtimes; its time over ours is the median over turns that both took within
seconds of each other, in brackets where that median lies in 95 of 100 cases."""

PROCESSORS = """## By processor

Geometric means over the models, of the newest run that is kept of each processor
(`benchmarks/results/`). Not all were measured with one version of this package: the rows are not to
be compared with each other."""


def brief(run: MeasuredRun, kept: Sequence[MeasuredRun], field: str = "") -> str:
    """Return the page in Markdown.

    Parameters
    ----------
    run
        The run whose models are listed.
    kept
        A run of each processor, for the second table.
    field
        More sections (field_tables.py).
    """
    models = _table(HEADER, [_model(each) for each in run.results])
    devices = _table(DEVICES, [_device(each) for each in kept])
    parts = (INTRODUCTION, how_measured(run), models, PROCESSORS, devices, field)
    return "\n\n".join(filter(None, parts)) + "\n"


def _model(result: dict[str, Any]) -> list[str]:
    best = best_peer(result)
    return [
        result["model"],
        str(result["ops"]),
        str(result["kernels"][OURS]),
        *(_median(result, side) for side in (OURS, CONTROL, "tvm")),
        f"{_median(result, best[0])} {SIDES[best[0]]}" if best else NONE,
        str(best[1]) if best else NONE,
    ]


def _median(result: dict[str, Any], side: str) -> str:
    if side not in result["latency_ms"]:
        return NONE
    return f"{result['latency_ms'][side]['median']:.2f}{'' if is_right(result, side) else WRONG}"


def _device(run: MeasuredRun) -> list[str]:
    best = [found[1].value for found in map(best_peer, run.results) if found is not None]
    over_tvm = [
        ratio_to_ours(each, "tvm").value for each in run.results if "tvm" in each["latency_ms"]
    ]
    return [
        run.facts.get("device", ""),
        str(len(run.results)),
        str(sum(ratio > 1 for ratio in best)),
        f"{geometric_mean(best):.2f}" if best else NONE,
        f"{geometric_mean(over_tvm):.2f}" if over_tvm else NONE,
    ]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", "|---" + "|---:" * (len(header) - 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
