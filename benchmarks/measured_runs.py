"""Where measurements of the zoo are kept: benchmarks/results/DATE/DEVICE/, a JSON file a model.

``run.json`` beside them says what the run was: its command, commit, sides, threads, the machine's
measured peaks, and the models that failed altogether. The newest such folder of a full run is what
README.md and docs/results.md show. Git keeps the newest run of each processor, a full one where
there is one, with what was measured apart beside it.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
RUN = "run.json"
# What a run itself writes, or what tells of it: no part of what is measured.
NOT_MEASURED = (":!benchmarks/results", ":!docs", ":!*.md")
# What benchmarks/cost_growth.py puts beside it, and benchmarks/ablation.py where it is told to.
GROWTH = "cost_growth.json"
ABLATION = "ablation.json"
# What benchmarks/tuning.py puts there.
TUNING = "tuning.json"
# Where models are measured again with the sides that tune first (`zoo.py --tuning-budget`).
EQUAL_BUDGET = "equal-budget"
# What benchmarks/templates.py puts there, which has a page of its own.
TEMPLATES = "templates.json"
OURS = "fusionx"
# Made by this package: no other runtime.
CONTROL = "unfused"

# The sides that are tuned first: TVM's, and ours.
OURS_TUNED = "fusionx-tuned"
TUNED = (OURS_TUNED, "tvm-metaschedule")
# What is not a runtime of somebody else.
NOT_PEERS = (OURS, CONTROL, "tvm", *TUNED)

Row = Sequence[Any]
Section = tuple[str, str, list[str], list[Row]]
"""A table of a page: title, sentence, header, rows."""
# A cell without a value.
NONE = "-"

# Name on the command line -> name in tables.
SIDES = {
    OURS: "ours",
    CONTROL: "unfused",
    "tvm": "TVM",
    "ort": "ORT",
    "openvino": "OpenVINO",
    "mnn": "MNN",
    "ncnn": "ncnn",
    "torch": "PyTorch",
    "torch-compile": "torch.compile",
    "executorch": "ExecuTorch",
    "litert": "LiteRT",
    "tvm-metaschedule": "TVM tuned",
    "fusionx-tuned": "ours tuned",
}


@dataclass(frozen=True)
class MeasuredRun:
    """One run: its facts, each model's result, smallest latency first, and what lies beside them.

    `growth`, `ablation` and `tuning` are the files of the benchmarks of these names; `budgeted` are
    the runs of models that were measured with tuned sides as well, the newest of each device.
    """

    facts: dict[str, Any]
    results: tuple[dict[str, Any], ...]
    growth: dict[str, Any] = field(default_factory=dict)
    ablation: dict[str, Any] = field(default_factory=dict)
    tuning: dict[str, Any] = field(default_factory=dict)
    budgeted: tuple[MeasuredRun, ...] = ()

    @property
    def machine(self) -> dict[str, Any]:
        """Return the machine's measured peaks; empty where none were measured."""
        found: dict[str, Any] = self.facts.get("machine", {})
        return found


# A side whose outputs are further off computes something else (report/bench/accuracy.py).
MOST_ERROR = 1e-2
# Marks the time of such a side, which is no rival's.
WRONG = "†"
WHAT_IS_WRONG = "marks what computed something else than the reference: it counts nowhere"
# Fewer timed runs a side than this tell too little for the pages.
LEAST_RUNS = 20


def is_right(result: Mapping[str, Any], side: str) -> bool:
    """Tell whether a side that was timed computed what the reference did, as far as it is known."""
    errors = result.get("rel_err", {})
    return not errors or errors.get(side, math.inf) <= MOST_ERROR


def commit_here(root: Path = ROOT) -> str:
    """Return the commit that is measured, with "-dirty" where files besides text differ from it."""
    commit = _git(root, "describe", "--always")
    changed = _git(root, "diff", "HEAD", "--name-only", "--", ".", *NOT_MEASURED)
    return f"{commit}-dirty" if changed else commit


def _git(root: Path, *words: str) -> str:
    found = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def folder_of(device: str, date: str, results: Path = RESULTS) -> Path:
    """Return the folder of a run on `device`, in words, begun on `date`, as in 2026-01-31."""
    return results / date / re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")


def newest_run(results: Path = RESULTS, device: str | None = None) -> Path | None:
    """Return the folder of the newest full run; without one, of the newest; None without any.

    A run of some models alone says ``"full": false`` in its ``run.json``, and each when it began:
    several machines are measured on one date. With a `device`, in words, only runs on it count.
    """
    runs = {path.parent: json.loads(path.read_text()) for path in results.glob(f"*/*/{RUN}")}
    if device is not None:
        runs = {at: facts for at, facts in runs.items() if facts.get("device") == device}

    def age(folder: Path) -> tuple[bool, str, str]:
        facts = runs[folder]
        return facts.get("full", True), folder.parent.name, facts.get("began", "")

    return max(runs, key=age, default=None)


def kept_runs(results: Path = RESULTS) -> tuple[MeasuredRun, ...]:
    """Return the newest run of each device, the newest of all first; full ones before others."""
    facts = {path.parent: json.loads(path.read_text()) for path in results.glob(f"*/*/{RUN}")}
    devices = {each.get("device", "") for each in facts.values()}
    newest = [folder for device in devices if (folder := newest_run(results, device)) is not None]
    ordered = sorted(newest, key=lambda at: (at.parent.name, facts[at].get("began", "")))
    return tuple(map(_read_alone, reversed(ordered)))


def read_run(folder: Path) -> MeasuredRun:
    """Return the run in `folder`; other benchmarks' files stay out."""
    apart = sorted(folder.parents[1].glob(f"*/*/{EQUAL_BUDGET}/{RUN}"))
    newest = {path.parents[1].name: path.parent for path in apart}
    budgeted = tuple(_read_alone(each) for each in newest.values())
    return replace(_read_alone(folder), budgeted=budgeted)


def _read_alone(folder: Path) -> MeasuredRun:
    facts, growth, ablation, tuning = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for path in (folder / name for name in (RUN, GROWTH, ABLATION, TUNING))
    )
    read = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    results = [each for each in read if "latency_ms" in each]
    ordered = sorted(results, key=lambda result: result["latency_ms"][OURS]["median"])
    return MeasuredRun(facts, tuple(ordered), growth, ablation, tuning)


def lacks(folder: Path, model: str, sides: Sequence[str], runs: int = 0) -> bool:
    """Tell whether a model has no result, or one without a word on some side, or of fewer runs."""
    path = folder / f"{model}.json"
    if not path.exists():
        return True
    result = json.loads(path.read_text(encoding="utf-8"))
    told = result["latency_ms"].keys() | result["errors"].keys()
    fewest = min((row.get("n", 0) for row in result["latency_ms"].values()), default=0)
    return not {OURS, *sides} <= told or fewest < runs


def commands_of(run: MeasuredRun) -> str:
    """Return the commands that made a run and went on with it, in Markdown."""
    told = (run.facts.get("command", ""), *run.facts.get("then", ()))
    first, *then = (f"`{each}`" for each in told)
    return f"{first}, then {', '.join(then)}," if then else first


def commits_of(run: MeasuredRun) -> list[str]:
    """Return the commits that the models were measured on, oldest measurement first.

    A result that does not tell its own is of the run's.
    """
    found = [each.get("commit", run.facts.get("commit", "")) for each in run.results]
    return list(dict.fromkeys(commit for commit in found if commit))


def measured_sides(run: MeasuredRun) -> list[str]:
    """Return the sides that any model was timed on, in the order of tables.

    Those that are tuned first have a table of their own.
    """
    untuned = [side for side in SIDES if side not in TUNED]
    return [side for side in untuned if any(side in each["latency_ms"] for each in run.results)]
