"""Search CNNs for Fashion-MNIST: what architecture and pruning searched together bring (CAPS).

    python benchmarks/search_images.py OUT [--arms architecture,pruning,after,caps,operations]
        [--seeds 3] [--trials 40] [--steps 600] [--device count:cortex-a76] [--quick]

Every arm looks for the Pareto front of accuracy and latency and trains as many networks for as many
steps:

- ``architecture``: nothing is pruned;
- ``pruning``: the largest network, pruned layer by layer, by any algorithm;
- ``after``: half of the trainings for the architecture, then its best network is pruned;
- ``caps``: both at once;
- ``operations``: as ``caps``, but told operations in the place of latency; what it found is timed
  afterwards. It shows what the compiler in the loop is worth.

A folder for each arm and seed has its journal: the same command goes on where it was ended.
``results.json`` has every front and its area (hypervolume), by what candidates were judged by and,
told beside it, by the pictures kept apart. Needs the Debian package ``dataset-fashion-mnist``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.output_file import new_file
from tvm_fusionx.search.caps import CapsStrategy
from tvm_fusionx.search.clocks import clock_of
from tvm_fusionx.search.executor import PARENT, Ended, Executor, Job, ProcessExecutor
from tvm_fusionx.search.inheritance import Ancestor
from tvm_fusionx.search.journal import WHOLE, Result, SearchJournal
from tvm_fusionx.search.latency import LatencyEstimator
from tvm_fusionx.search.proxy import flops_of
from tvm_fusionx.search.pruned_spaces import unpruned
from tvm_fusionx.search.reward import Reward, front_area, pareto_front
from tvm_fusionx.search.search import TRIALS, Search, SearchSettings
from tvm_fusionx.search.space import DIGITS, Candidate, Space, candidate_key
from tvm_fusionx.search.space_file import NO_PRUNING, PRUNING, PRUNING_METHOD, parse_space

TRAIN = Path(__file__).resolve().parent / "train_fashion.py"
ARMS = ("architecture", "pruning", "after", "caps", "operations")
BATCH = 4
CALIBRATING = 4
# Half of the way from chance, a tenth, to all right: a network that is wrong more than half as
# often as who guesses is none to ship, however fast. The search is told it too.
FLOOR = 0.55
# What else the areas are told above: nothing, as they once were, and nearer to the best.
OTHER_FLOORS = (0.0, 0.65, 0.75)

STAGE: dict[str, Any] = {
    "stride": 2,
    "depth": [1, 2],
    "kernel": [3, 5],
    "kind": ["dense", "depthwise"],
    "expansion": [1, 2],
}
SPACE: dict[str, Any] = {
    "family": "cnn",
    "channels": 1,
    "side": 28,
    "classes": 10,
    "stages": [
        {**STAGE, "depth": [1], "width": [8, 16], "kind": ["dense"], "expansion": [1]},
        {**STAGE, "width": [16, 32, 48]},
        {**STAGE, "width": [32, 64, 96]},
    ],
    "pruning": {
        "schemes": [NO_PRUNING, "filter", "pattern", "block4x1", "block16x1"],
        "rates": [0.5, 0.75, 0.875],
        "methods": ["one_shot", "gradual", "admm"],
    },
}
QUICK: dict[str, Any] = {
    **SPACE,
    "stages": [{**STAGE, "depth": [1], "width": [8], "kind": ["dense"], "expansion": [1]}],
    "pruning": {
        "schemes": [NO_PRUNING, "block4x1"],
        "rates": [0.5],
        "methods": ["one_shot", "gradual"],
    },
}

Cost = Callable[[Candidate], float]


def only_pruning(space: Space, candidate: Candidate) -> Space:
    """Return the part of a space in which one network is pruned."""
    return space.pinned(
        candidate, lambda name: name.rpartition(".")[2] in (PRUNING, PRUNING_METHOD)
    )


def largest(space: Space) -> Candidate:
    """Return the network with the largest option of every decision, nothing pruned."""
    return architectures(space).walk(
        lambda name, options: max(options) if isinstance(options[0], int) else options[0]
    )


def architectures(space: Space) -> Space:
    """Return the part of a space in which nothing is pruned."""
    part = unpruned(space)
    assert part is not None
    return part


class SharedTrainings:
    """An executor that trains what no arm has trained yet, and answers the rest.

    A training is a function of its network, its seed and what it begins with. Arms that begin alike
    would repeat each other's; each counts them as its own.
    """

    def __init__(self, executor: Executor, folder: Path) -> None:
        self.executor, self.folder = executor, folder

    @property
    def workers(self) -> int:
        """Return how many trials it trains at once."""
        return self.executor.workers

    def run(self, jobs: Sequence[Job], on_start: Callable[[Job], None]) -> Iterator[Ended]:
        """Yield what came of jobs, each as it ends."""
        unknown = []
        for job in jobs:
            kept = self._kept(job) / "ended.json"
            if not kept.is_file():
                unknown.append(job)
                continue
            on_start(job)
            target = Path(job.trial["folder"])
            target.mkdir(parents=True, exist_ok=True)
            shutil.copytree(kept.parent, target, dirs_exist_ok=True)
            yield Ended(job.number, json.loads(kept.read_text(encoding="utf-8")))
        by_number = {job.number: job for job in unknown}
        for ended in self.executor.run(unknown, on_start) if unknown else ():
            if not ended.reason:
                job = by_number[ended.number]
                kept = self._kept(job)
                shutil.copytree(job.trial["folder"], kept, dirs_exist_ok=True)
                with new_file(kept / "ended.json") as scratch:
                    scratch.write_text(json.dumps(dict(ended.returned)), encoding="utf-8")
            yield ended

    def _kept(self, job: Job) -> Path:
        """Return the folder of a training: its network, seed, share, and its parent's training."""
        parent = job.trial.get(PARENT)
        begun = (Path(parent) / "lineage").read_text(encoding="utf-8") if parent else ""
        told = [candidate_key(job.candidate), job.trial["share"], job.trial["seed"], begun]
        digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:DIGITS]
        folder = Path(job.trial["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lineage").write_text(digest, encoding="utf-8")
        return self.folder / digest


def search(
    options: argparse.Namespace,
    space: Space,
    folder: Path,
    seed: int,
    trials: int,
    cost: Cost,
    first: Sequence[Ancestor | Result] = (),
) -> list[Result]:
    """Return all results of a search for the front, gone on with where it has a journal.

    Parameters
    ----------
    first
        What a search before found, and where it left the weights: both are known to this one.
    """
    reward = Reward(is_front=True, floor=FLOOR)
    settings = SearchSettings(reward, trials, batch=BATCH, seed=seed)
    told = json.dumps([options.steps, options.images, options.device, seed])
    cores = None if options.core is None else (options.core,)
    with SearchJournal(folder, space.digest(), told) as journal:
        executor = SharedTrainings(ProcessExecutor(TRAIN, cores), options.output / "trainings")
        strategy = CapsStrategy(space, seed, reward, parse_space(options.space))
        strategy.observe([each for each in first if isinstance(each, Result)])
        known = [each for each in first if isinstance(each, Ancestor)]
        search = Search(strategy, journal, cost, executor, settings, _tell, ancestors=known)
        made = search.run()
    return [each for each in made.results if each.share == WHOLE and not each.failure]


def run_arm(
    options: argparse.Namespace, arm: str, space: Space, seed: int, cost: Cost
) -> list[Result]:
    """Return the results of one arm."""
    folder, trials = options.output / f"{arm}-{seed}", options.trials
    if arm == "architecture":
        return search(options, architectures(space), folder, seed, trials, cost)
    if arm == "pruning":
        part = only_pruning(space, largest(space))
        return search(options, part, folder, seed, trials, cost)
    if arm == "after":
        # Whole batches are trained: a half that is none would train more than the other arms.
        half = max(BATCH, trials // 2 // BATCH * BATCH)
        first = search(options, architectures(space), folder / "1", seed, half, cost)
        best = max(first, key=Reward(is_front=True, floor=FLOOR))
        part = only_pruning(space, best.candidate)
        own = folder / "1" / TRIALS / candidate_key(best.candidate)
        known = [*first, Ancestor(best.candidate, best.accuracy, own)]
        return first + search(options, part, folder / "2", seed, max(1, trials - half), cost, known)
    if arm == "caps":
        return search(options, space, folder, seed, trials, cost)
    found = search(options, space, folder, seed, trials, flops_of)
    return [replace(each, latency_us=cost(each.candidate)) for each in found]


def main(words: list[str] | None = None) -> None:
    """Run all arms, and write what they found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=40, help="trainings an arm and seed")
    parser.add_argument("--steps", type=int, default=600, help="steps a training")
    parser.add_argument("--images", type=int, default=30000)
    parser.add_argument("--device", default="count:cortex-a76")
    parser.add_argument("--core", type=int, help="train on this core alone")
    parser.add_argument("--quick", action="store_true", help="the smallest networks")
    options = parser.parse_args(words)
    unknown = sorted(set(options.arms.split(",")) - set(ARMS))
    if unknown:
        parser.error(f"{unknown[0]}: expected some of {', '.join(ARMS)}")
    os.environ |= {"STEPS": str(options.steps), "IMAGES": str(options.images)}
    options.space = QUICK if options.quick else SPACE
    space = parse_space(options.space)
    options.output.mkdir(parents=True, exist_ok=True)
    database = ProfileDatabase(options.output / "profiles.sqlite")
    with clock_of(options.device) as clock:
        estimator = LatencyEstimator(clock, database)
        generator = random.Random(0)
        estimator.calibrate(space.sample(generator) for _ in range(CALIBRATING))
        found = run_all(options, space, lambda each: estimator.latency_of(each).microseconds)
    report = summary(options, space, found)
    with new_file(options.output / "results.json") as scratch:
        scratch.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for arm, row in report["arms"].items():
        print(f"{arm}: area {row['area']:.3f}, kept apart {row['test_area']:.3f} (medians)")


def run_all(
    options: argparse.Namespace, space: Space, cost: Cost
) -> dict[tuple[str, int], list[Result]]:
    """Return the results of every arm and seed."""
    found = {}
    for seed in range(options.seeds):
        for arm in options.arms.split(","):
            print(f"{arm}, seed {seed}", flush=True)
            found[arm, seed] = run_arm(options, arm, space, seed, cost)
    return found


def summary(
    options: argparse.Namespace, space: Space, found: dict[tuple[str, int], list[Result]]
) -> dict[str, Any]:
    """Return fronts and areas; all areas are up to the slowest network that any arm trained."""
    slowest = max(each.latency_us for results in found.values() for each in results)
    arms: dict[str, Any] = {}
    for (arm, seed), results in found.items():
        front = pareto_front(results)
        # What the front is on pictures that no choice was made by.
        apart = [replace(each, accuracy=each.details["test_accuracy"]) for each in front]
        row = arms.setdefault(arm, {"seeds": []})
        row["seeds"].append(
            {
                "seed": seed,
                "area": front_area(results, slowest, FLOOR),
                "test_area": front_area(apart, slowest, FLOOR),
                "area_above": {
                    f"{floor:g}": front_area(results, slowest, floor) for floor in OTHER_FLOORS
                },
                "trainings": len(results),
                "seconds": sum(each.seconds for each in results),
                "front": [_row(each) for each in front],
            }
        )
    for row in arms.values():
        for name in ("area", "test_area"):
            row[name] = statistics.median(each[name] for each in row["seeds"])
        row["area_above"] = {
            floor: statistics.median(each["area_above"][floor] for each in row["seeds"])
            for floor in row["seeds"][0]["area_above"]
        }
    return {
        "device": options.device,
        "candidates": space.size(),
        "trials": options.trials,
        "steps": options.steps,
        "images": options.images,
        "floor": FLOOR,
        "slowest_us": slowest,
        "arms": arms,
    }


def _row(result: Result) -> dict[str, Any]:
    return {
        "choices": result.candidate["choices"],
        "accuracy": result.accuracy,
        "latency_us": result.latency_us,
        **result.details,
    }


def _tell(made: Search, result: Result) -> None:
    choices = " ".join(f"{name}={value}" for name, value in result.candidate["choices"].items())
    print(f"  {result.accuracy:.2%} at {result.latency_us:.0f}: {choices}", flush=True)


if __name__ == "__main__":
    main()
