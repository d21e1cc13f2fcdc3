"""Tune a model from nothing, and taught by what other models' sessions tried; count the trials.

    python benchmarks/transfer_live.py mobilenet-v2 --taught-by out/tuning --trials 200 --seeds 3

Each seed tunes twice, in folders of its own under out/transfer: with no journal, and with a copy of
the journals of other models. After how many trials has a session saved as much of the model's
time as the one that saved least? Blocks that the other models had too would be known, not learned:
the copy is without them.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_runs import ROOT
from transfer import rows_of

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx.tuning.progress import TuningProgress
from tvm_fusionx.tuning.task import choice_key
from tvm_fusionx.tuning.tune import JOURNALS

MODELS = ROOT / "out" / "zoo"
FOLDERS = ROOT / "out" / "transfer"
ALONE, TAUGHT = "from nothing", "taught"
SHOWN = (10, 20, 50, 100, 200)


@dataclass(frozen=True)
class Run:
    """One session: what it had saved of a run of the model after each trial, in seconds."""

    kind: str
    seed: int
    untuned_seconds: float
    saved: tuple[float, ...]
    blocks: frozenset[str] = frozenset()

    def until(self, saved: float) -> int | None:
        """Return the trials after which so much was saved; None where it never was."""
        return next((n for n, each in enumerate(self.saved, 1) if each >= saved), None)


def saved_by_trial(
    rows: Iterable[Mapping[str, Any]], counts: Mapping[str, int]
) -> tuple[float, list[float]]:
    """Return the sum of the defaults of a journal's last session, and what each trial had saved.

    Parameters
    ----------
    rows
        The journal's lines.
    counts
        How often each block is in the model, by its key; others count nothing.

    Returns
    -------
    tuple[float, list[float]]
        Seconds of all blocks with their defaults, as first timed; then, for each trial of
        another choice, the seconds by which the best choices so far are faster.
    """
    defaults: dict[str, Any] = {}
    running: dict[int, tuple[str, Any]] = {}
    least: dict[str, float] = {}
    before: dict[str, float] = {}
    saved: list[float] = []
    for row in rows:
        event = row.get("event")
        if event == "session":
            before, least, saved = {}, {}, []
        elif event == "task":
            defaults[row["task"]] = row["default"]
        elif event == "start":
            running[row["trial"]] = row["task"], row["knobs"]
        elif event == "end":
            key, choice = running.pop(row["trial"])
            seconds = min(row.get("seconds", ()), default=math.inf)
            if choice_key(choice) == choice_key(defaults[key]):
                before.setdefault(key, seconds)
                least.setdefault(key, seconds)
                continue
            least[key] = min(least[key], seconds)
            saved.append(sum(counts.get(key, 0) * (before[key] - least[key]) for key in before))
    return sum(counts[key] * seconds for key, seconds in before.items()), saved


def tune(name: str, folder: Path, trials: int, seed: int) -> dict[str, int]:
    """Tune a model with the journals of `folder`; return how often it has each block."""
    MODELS.mkdir(parents=True, exist_ok=True)
    model = zoo.export(name, MODELS / f"{name}.onnx")
    mod, params = fx.from_onnx(model.path, shape=model.shapes)
    with TuningProgress(f"tuning {name}", trials, None) as watch:
        report = fx.tune(
            mod,
            "local",
            params,
            records=folder,
            inputs=zoo.sample_inputs(name),
            model=name,
            trials=trials,
            seed=seed,
            watch=watch,
        )
    return {each.task.key: each.task.count for each in report.tasks}


def without(
    rows: Iterable[Mapping[str, Any]], tasks: Collection[str]
) -> Iterator[Mapping[str, Any]]:
    """Yield a journal's lines but those of some blocks and of their trials."""
    left_out: set[int] = set()
    for row in rows:
        if row.get("task") in tasks:
            left_out |= {row["trial"]} if "trial" in row else set()
        elif row.get("trial") not in left_out:
            yield row


def run(kind: str, options: argparse.Namespace, seed: int, known: Collection[str] = ()) -> Run:
    """Tune once in a folder made anew; of the teachers' blocks, those `known` are left out."""
    folder = FOLDERS / options.model / f"{kind.replace(' ', '-')}-{seed}"
    if folder.exists():
        shutil.rmtree(folder)
    (folder / JOURNALS).mkdir(parents=True)
    if kind == TAUGHT:
        for path in (options.taught_by / JOURNALS).glob("*.jsonl"):
            rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            lines = [json.dumps(row) + "\n" for row in without(rows, known)]
            (folder / JOURNALS / path.name).write_text("".join(lines), encoding="utf-8")
    counts = tune(options.model, folder, options.trials, seed)
    untuned, saved = saved_by_trial(rows_of(folder / JOURNALS), counts)
    return Run(kind, seed, untuned, tuple(saved), frozenset(counts))


def table(runs: Sequence[Run]) -> str:
    """Return a line for each run: the part saved after so many trials, and the trials to `goal`."""
    goal = min(each.saved[-1] for each in runs)
    shown = [count for count in SHOWN if count <= min(len(each.saved) for each in runs)]
    lines = [f"{'':14} seed  untuned  saved after " + "".join(f"{count:8}" for count in shown)]
    for each in runs:
        parts = "".join(f"{each.saved[count - 1] / each.untuned_seconds:8.2%}" for count in shown)
        lines.append(
            f"{each.kind:14} {each.seed:4} {each.untuned_seconds * 1e3:5.2f} ms {'':12}{parts}; "
            f"{goal * 1e3:.3f} ms after {each.until(goal)}, "
            f"{each.saved[-1] * 1e3:.3f} ms at the end"
        )
    return "\n".join(lines)


def main() -> None:
    """Tune, in turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help=f"of {', '.join(zoo.names())}")
    parser.add_argument("--taught-by", type=Path, required=True, help="records of other models")
    parser.add_argument("--trials", type=int, default=200, help="of each session")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    fx.threads()
    runs: list[Run] = []
    for seed in range(options.seeds):
        alone = run(ALONE, options, seed)
        runs += alone, run(TAUGHT, options, seed, alone.blocks)
        # After each pair: a later one may fail.
        print(table(runs), flush=True)


if __name__ == "__main__":
    main()
