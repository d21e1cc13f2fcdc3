"""Tables of what a model meets in the field: busy processes, an Arm core, no list, text.

The zoo is measured on an idle server, and its models were looked at one by one. These tables say
what a reader may expect of a model of their own elsewhere. Each is made of the files that its
benchmark wrote to ``benchmarks/results/``, and is missing where there are none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import arm
import wild
from generation_table import of_text
from measured_runs import RESULTS
from standing import geometric_mean
from under_load import OURS, OURS_ON_TVMS_POOL

Results = Sequence[dict[str, Any]]

BUSY_HEADER = (
    *("busy processes", "models", "first by median", "best other / ours", "least"),
    *("first by p90", "best other / ours", "TVM's pool / ours"),
)
ARM_HEADER = ("model", "instructions", "Neoverse N1", "Cortex-A55", "Neoverse N2", "best other")
ARM_MEASURES = ("instructions", "neoverse-n1", "cortex-a55", "neoverse-n2")


def sections(folder: Path = RESULTS, heading: str = "##", docs: str = "") -> str:
    """Return all tables for which there are files, in Markdown, or nothing.

    Parameters
    ----------
    folder
        Has folders ``under_load``, ``arm/cortex-a76``, ``wild``, ``text`` of JSON files, one a
        model.
    heading
        Stands before each title.
    docs
        Where the pages of the documentation lie, seen from the page that is written.
    """
    parts: list[tuple[str, str, Callable[[Results], str]]] = [
        ("under_load", "Beside busy processes", beside_busy),
        ("arm/cortex-a76", "On an Arm core, counted", partial(on_arm, docs=docs)),
        ("wild", "Models of no list", of_no_list),
        ("text", "Text of a language model", of_text),
    ]
    told = [(title, read(folder / name), section) for name, title, section in parts]
    return "\n\n".join(
        f"{heading} {title}\n\n{section(results)}" for title, results, section in told if results
    )


def read(folder: Path) -> Results:
    """Return what the files of a folder hold, by name; nothing where there is no such folder."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def beside_busy(results: Results) -> str:
    """Return how we stand beside busy processes, a row for each number of them."""
    loads = list(dict.fromkeys(load for each in results for load in each["loaded_ms"]))
    rows = [_busy_row(load, [each["loaded_ms"][load] for each in results]) for load in loads]
    devices = "; ".join(sorted({each["device"] for each in results}))
    threads = ", ".join(sorted({str(each["threads"]) for each in results}))
    return "\n\n".join(
        (
            f"Geometric means over {len(results)} models on {devices}, {threads} threads; all "
            "sides take turns beside the same load (`python benchmarks/under_load.py`). *TVM's "
            "pool* is our kernels on it, by median.",
            _table(BUSY_HEADER, rows),
        )
    )


def _busy_row(load: str, models: Sequence[dict[str, Any]]) -> list[str]:
    medians, tails = ([_best_other(sides, key) for sides in models] for key in ("median", "p90"))
    pools = [sides[OURS_ON_TVMS_POOL]["median"] / sides[OURS]["median"] for sides in models]
    return [
        load,
        str(len(models)),
        str(sum(ratio >= 1 for ratio in medians)),
        f"{geometric_mean(medians):.2f}",
        f"{min(medians):.2f}",
        str(sum(ratio >= 1 for ratio in tails)),
        f"{geometric_mean(tails):.2f}",
        f"{geometric_mean(pools):.2f}",
    ]


def _best_other(sides: dict[str, Any], key: str) -> float:
    others = [row[key] for side, row in sides.items() if side not in (OURS, OURS_ON_TVMS_POOL)]
    return float(min(others) / sides[OURS][key])


def on_arm(results: Results, docs: str = "") -> str:
    """Return our counts over those of the best other runtime, a row a model."""
    rows, found = [], {name: [] for name in ARM_MEASURES}
    for result in results:
        ratios = {name: arm.ratio_of(result, name) for name in ARM_MEASURES}
        if any(each is None for each in ratios.values()):
            continue
        for name, (ratio, _) in ratios.items():
            found[name].append(ratio)
        cells = [f"{ratio:.2f}" for ratio, _ in ratios.values()]
        rows.append([result["model"], *cells, ratios["instructions"][1]])
    rows.append(["geometric mean", *(f"{geometric_mean(each):.2f}" for each in found.values()), ""])
    return "\n\n".join(
        (
            "Ours over the best other runtime (ONNX Runtime, MNN, ncnn, LiteRT, where they compute "
            "the same to 1e-3): instructions, and estimated cycles of three cores; below 1 is "
            "better. Code for a Cortex-A76, float32, one thread, counted under emulation; cache "
            f"misses are not in it ([how]({docs}arm.md); `python benchmarks/arm.py`).",
            _table(ARM_HEADER, rows),
        )
    )


def of_no_list(results: Results) -> str:
    """Return how we stand on models that no one here tuned for."""
    ratios = {each["name"]: wild.ratio_of(each) for each in results}
    known = sorted(((ratio, name) for name, ratio in ratios.items() if ratio is not None))
    if not known:
        return "No network was compared."
    values = [ratio for ratio, _ in known]
    worst = ", ".join(f"{name} {ratio:.2f}" for ratio, name in known[:5])
    return (
        f"{len(known)} networks outside of the zoo (`python benchmarks/wild.py`), float32, beside "
        f"ONNX Runtime and OpenVINO: first on {sum(value >= 1 for value in values)}; best other "
        f"/ ours {geometric_mean(values):.2f} in the geometric mean, from {values[0]:.2f} to "
        f"{values[-1]:.2f}. The least: {worst}."
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", "|---" + "|---:" * (len(header) - 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
