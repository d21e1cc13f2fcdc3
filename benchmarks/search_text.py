"""Search transformers for 20 Newsgroups with the compiler in the loop: CANAO's experiment.

    python benchmarks/newsgroups.py data.npz --tokens 64 --vocabulary 4000
    python benchmarks/search_text.py OUT --data data.npz [--strategies controller,random,tpe]
        [--seeds 3] [--trials 40] [--device count:cortex-a76] [--epochs 6] [--quick]

A hand-made baseline is trained first: the largest network of the space. Then each strategy and seed
searches, at equal budgets, for the most accurate network that is at least twice as fast. Each has a
folder with its journal, so the same command goes on where it was ended. ``results.json`` has the
curves: the best accuracy so far by trial.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.output_file import new_file
from tvm_fusionx.search.clocks import clock_of
from tvm_fusionx.search.executor import Job, ProcessExecutor
from tvm_fusionx.search.journal import FILE, Result, SearchJournal
from tvm_fusionx.search.latency import LatencyEstimator
from tvm_fusionx.search.reward import Reward
from tvm_fusionx.search.search import Search, SearchSettings
from tvm_fusionx.search.session import SearchTask, run_search
from tvm_fusionx.search.space import Candidate, Space, candidate_key
from tvm_fusionx.search.space_file import parse_space

TRAIN = Path(__file__).resolve().parent / "train_newsgroups.py"
FASTER = 2.0
SPACE: dict[str, Any] = {
    "family": "transformer",
    "tokens": 64,
    "vocabulary": 4000,
    "classes": 20,
    "layers": [1, 2, 3, 4],
    "hidden": [32, 64, 96, 128],
    "heads": [2, 4],
    "feed_forward": [32, 64, 128, 256],
}
QUICK: dict[str, Any] = {**SPACE, "tokens": 8, "layers": [1, 2], "hidden": [16], "heads": [2]}


def largest(space: Space) -> Candidate:
    """Return the network with the largest option of every decision: the hand-made baseline."""
    return space.walk(lambda _, options: max(options))


def train_baseline(
    space: Space, folder: Path, core: int | None, latency: LatencyEstimator
) -> Result:
    """Return the baseline's result, trained once and kept in a journal."""
    return train_whole(largest(space), space, folder, core, latency)


def train_whole(
    candidate: Candidate, space: Space, folder: Path, core: int | None, latency: LatencyEstimator
) -> Result:
    """Return the result of a network that is trained whole, once, and kept in a journal."""
    with SearchJournal(folder, space.digest(), os.environ["EPOCHS"]) as journal:
        while (known := journal.result(candidate)) is None:
            own = folder / "trials" / candidate_key(candidate)
            trial = {"share": 1.0, "seed": 0, "folder": str(own)}
            executor = ProcessExecutor(TRAIN, None if core is None else (core,))
            number = journal.start(candidate)
            for ended in executor.run([Job(0, candidate, trial)], lambda job: None):
                if ended.reason:
                    journal.fail(number, ended.reason)
                    continue
                rest = dict(ended.returned)
                accuracy, seconds = rest.pop("accuracy"), rest.pop("seconds")
                us = latency.latency_of(candidate).microseconds
                journal.end(number, Result(candidate, 1.0, accuracy, us, seconds, details=rest))
    return known


def main(words: list[str] | None = None) -> None:
    """Run all searches, and write what they found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--strategies", default="controller,random,tpe")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--budget", type=float, default=float("inf"), help="Seconds a search.")
    parser.add_argument("--device", default="count:cortex-a76")
    parser.add_argument("--epochs", type=float, default=6.0)
    parser.add_argument("--core", type=int, help="Train on this core alone.")
    parser.add_argument(
        "--quick", action="store_true", help="The smallest networks, hardly trained."
    )
    options = parser.parse_args(words)
    os.environ["NEWSGROUPS"] = str(options.data.resolve())
    os.environ["EPOCHS"] = str(options.epochs)
    space = parse_space(QUICK if options.quick else SPACE)
    options.output.mkdir(parents=True, exist_ok=True)
    database = ProfileDatabase(options.output / "profiles.sqlite")
    cores = None if options.core is None else (options.core,)
    with clock_of(options.device) as clock:
        latency = LatencyEstimator(clock, database)
        if latency.launch_us == 0.0:
            latency.calibrate([largest(space), next(iter(space.every()))])
        baseline = train_baseline(space, options.output / "baseline", options.core, latency)
        print(f"baseline: {text_of(baseline)}", flush=True)
        report: dict[str, Any] = {
            "space": space.size(),
            "device": str(clock.setting),
            "epochs": options.epochs,
            "launch_us": latency.launch_us,
            "baseline": row_of(baseline),
            "searches": [],
        }
        for seed in range(options.seeds):
            for strategy in options.strategies.split(","):
                found = _search(options, space, strategy, seed, latency, baseline, cores)
                report["searches"].append(found)
                print(f"{strategy}, seed {seed}: {found['best']}", flush=True)
                with new_file(options.output / "results.json") as scratch:
                    scratch.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _search(
    options: argparse.Namespace,
    space: Space,
    strategy: str,
    seed: int,
    latency: LatencyEstimator,
    baseline: Result,
    cores: tuple[int, ...] | None,
) -> dict[str, Any]:
    folder = options.output / f"{strategy}-{seed}"
    settings = SearchSettings(
        Reward(baseline.latency_us / FASTER), options.trials, options.budget, seed=seed
    )
    task = SearchTask(space, TRAIN, folder, strategy, settings)
    curve: list[float] = []

    def told(search: Search, result: Result) -> None:
        best = search.best
        curve.append(0.0 if best is None else best.accuracy)
        print(f"  {len(curve)}: {text_of(result)}; best {curve[-1]:.2%}", flush=True)

    resume = (folder / FILE).exists()
    made = run_search(task, latency, resume=resume, cores=cores, on_result=told)
    best = made.outcome.best
    return {
        "strategy": strategy,
        "seed": seed,
        "curve": curve,
        "best": row_of(best),
        "measured_us": made.check.measured_us,
        "error": made.check.error,
        "times_faster": baseline.latency_us / best.latency_us,
        "accuracy_lost": baseline.accuracy - best.accuracy,
        "planned_whole": latency.planner.planned,
        "kernels_timed": latency.timed,
    }


def row_of(result: Result) -> dict[str, Any]:
    """Return a result as a row of a report."""
    return {
        "choices": result.candidate["choices"],
        "accuracy": result.accuracy,
        "latency_us": result.latency_us,
        "seconds": result.seconds,
        **result.details,
    }


def text_of(result: Result) -> str:
    """Return a result in a line for people."""
    return f"{result.accuracy:.2%} at {result.latency_us:.0f} us, {result.candidate['choices']}"


if __name__ == "__main__":
    main()
