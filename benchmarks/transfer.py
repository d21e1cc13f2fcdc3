"""Count the trials that older tuning saves a model.

    python benchmarks/transfer.py --records out/tuning --trials 400 mobilenet-v2

The model is tuned twice with the same settings: once with no journal, and once beside the journals
of `--records`, from which the cost model learns. Blocks that those journals know already are left
out. For each block: the trials until a candidate, the default not counted, was as fast as the
best that either session found, within 5 %; and how near the best of the first candidates came.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_runs import ROOT

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx.output_file import new_file
from tvm_fusionx.tuning.progress import TuningProgress
from tvm_fusionx.tuning.tune import JOURNALS

MODELS = ROOT / "out" / "zoo"
NEAR = 1.05
# Blocks that both sessions gave fewer candidates tell nothing.
FEWEST = 8
MILESTONES = (1, 2, 4, 8, 16, 32)

Times = dict[str, list[float]]
"""Seconds of each block's candidates in the order of the trials, infinite where one failed; the
least time of its default first."""


def rows_of(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of all journals under `folder`."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def times_of_last_session(rows: Sequence[Mapping[str, Any]]) -> Times:
    """Return the times of the newest session of a journal's lines."""
    last = max(place for place, row in enumerate(rows) if row.get("event") == "session")
    times: Times = {}
    running: dict[int, tuple[str, str]] = {}
    defaults: dict[str, str] = {}
    for row in rows[last:]:
        if row.get("event") == "start":
            running[row["trial"]] = str(row["task"]), json.dumps(row["knobs"], sort_keys=True)
        elif row.get("event") == "end":
            task, knobs = running.pop(row["trial"])
            seconds = min(row.get("seconds", ()), default=math.inf)
            # A block's first trial is its default, which is timed twice.
            if defaults.setdefault(task, knobs) != knobs:
                times[task].append(seconds)
            elif task in times:
                times[task][0] = min(times[task][0], seconds)
            else:
                times[task] = [seconds]
    return times


def trials_until_near(candidates: Sequence[float], best: float) -> int | None:
    """Return how many candidates it took to be within :data:`NEAR` of `best`; None if it never was.

    Both in seconds.
    """
    return next((n for n, each in enumerate(candidates, 1) if each <= best * NEAR), None)


@dataclass(frozen=True)
class Needed:
    """What one session needed for one block; its default counts as no candidate."""

    candidates: int
    """All that were tried."""

    until_near: int | None
    """Candidates until one was near the best of both sessions; None where none was."""

    best_of_first: tuple[float, ...]
    """Least time of the first 1, 2, 4... of :data:`MILESTONES`, as a part of the default's."""


def compare(cold: Times, warm: Times) -> dict[str, dict[str, Needed]]:
    """Return what both sessions needed for each block that both gave enough candidates."""
    found = {}
    for task in sorted(cold.keys() & warm.keys()):
        both = {"cold": cold[task], "warm": warm[task]}
        if min(len(times) - 1 for times in both.values()) < FEWEST:
            continue
        # Each against the default of its own session: the machine may be slower in one of them.
        ratios = {side: [each / times[0] for each in times[1:]] for side, times in both.items()}
        best = min(1.0, *(min(times) for times in ratios.values()))
        found[task] = {
            side: Needed(
                len(times),
                trials_until_near(times, best),
                tuple(min(times[:n]) for n in MILESTONES if n <= len(times)),
            )
            for side, times in ratios.items()
        }
    return found


def _print(found: Mapping[str, Mapping[str, Needed]]) -> None:
    print(f"{len(found)} blocks with at least {FEWEST} candidates in both sessions")
    for side in ("cold", "warm"):
        rows = [row[side] for row in found.values()]
        needed = [row.until_near or row.candidates for row in rows]
        never = sum(row.until_near is None for row in rows)
        print(f"{side}: {sum(needed)} trials until near the best, median {np.median(needed):.0f}")
        print(f"  {never} blocks never came near, and count with all their candidates")
        for place, first in enumerate(MILESTONES):
            known = [row.best_of_first[place] for row in rows if len(row.best_of_first) > place]
            if known:
                # A median: where all candidates so far failed, the best is infinite.
                part = float(np.median(known))
                print(f"  best of {first}: {part:.3f} of the default's time ({len(known)} blocks)")


def main() -> None:
    """Tune twice, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help=f"of {', '.join(zoo.names())}")
    parser.add_argument(
        "--records", type=Path, required=True, help="the folder that is learnt from"
    )
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also write what was found to this file")
    options = parser.parse_args()
    logging.getLogger("autotvm").setLevel(logging.ERROR)
    fx.threads()
    MODELS.mkdir(parents=True, exist_ok=True)
    model = zoo.export(options.model, MODELS / f"{options.model}.onnx")
    mod, params = fx.from_onnx(model.path, shape=model.shapes)
    known = {
        row["task"] for row in rows_of(options.records / JOURNALS) if row.get("event") == "task"
    }
    times = {}
    with tempfile.TemporaryDirectory(prefix="fusionx-transfer-") as folder:
        for side in ("cold", "warm"):
            records = Path(folder) / side
            if side == "warm":
                shutil.copytree(options.records / JOURNALS, records / JOURNALS)
            with TuningProgress(f"tuning {options.model}, {side}", options.trials, None) as watch:
                fx.tune(
                    mod,
                    "local",
                    params,
                    records=records,
                    model=options.model,
                    trials=options.trials,
                    seed=options.seed,
                    watch=watch,
                )
            times[side] = times_of_last_session(list(rows_of(records / JOURNALS)))
    cold = {task: each for task, each in times["cold"].items() if task not in known}
    found = compare(cold, times["warm"])
    _print(found)
    if options.json is not None:
        with new_file(options.json) as path:
            rows = {
                task: {side: asdict(needed) for side, needed in sides.items()}
                for task, sides in found.items()
            }
            path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
