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
import json
import math
import os
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.output_file import new_file
from tvm_fusionx.search.caps import CapsStrategy
from tvm_fusionx.search.clocks import clock_of
from tvm_fusionx.search.executor import ProcessExecutor
from tvm_fusionx.search.journal import WHOLE, Result, SearchJournal
from tvm_fusionx.search.latency import LatencyEstimator
from tvm_fusionx.search.proxy import flops_of
from tvm_fusionx.search.reward import Reward, pareto_front
from tvm_fusionx.search.search import Search, SearchSettings
from tvm_fusionx.search.space import Candidate, Choice, Space
from tvm_fusionx.search.space_file import NO_PRUNING, PRUNING_METHOD, parse_space

TRAIN = Path(__file__).resolve().parent / "train_fashion.py"
ARMS = ("architecture", "pruning", "after", "caps", "operations")
BATCH = 4
CALIBRATING = 4
PRUNING = "pruning"

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


def only_architecture(space: Space) -> Space:
    """Return the part of a space in which nothing is pruned."""
    for name, kept in ((PRUNING, NO_PRUNING), (PRUNING_METHOD, "one_shot")):
        options: set[Any] = set()
        for item in space.items:
            for choice in [item] if isinstance(item, Choice) else item.choices:
                options |= set(choice.options) if choice.name == name else set()
        space = space.without(name, sorted(options - {kept}))
    return space


def only_pruning(space: Space, candidate: Candidate) -> Space:
    """Return the part of a space in which one network is pruned."""
    return space.pinned(
        candidate, lambda name: name.rpartition(".")[2] in (PRUNING, PRUNING_METHOD)
    )


def largest(space: Space) -> Candidate:
    """Return the network with the largest option of every decision, nothing pruned."""
    part = only_architecture(space)
    return part.walk(
        lambda name, options: max(options) if isinstance(options[0], int) else options[0]
    )


def area(results: Sequence[Result], slowest_us: float) -> float:
    """Return the area that a front takes: accuracy over the doublings from the slowest latency."""
    front = pareto_front(each for each in results if each.latency_us <= slowest_us)
    ends = [*(each.latency_us for each in front[1:]), slowest_us][: len(front)]
    return sum(
        each.accuracy * math.log2(end / each.latency_us)
        for each, end in zip(front, ends, strict=True)
    )


def search(
    options: argparse.Namespace, space: Space, folder: Path, seed: int, trials: int, cost: Cost
) -> list[Result]:
    """Return all results of a search for the front, gone on with where it has a journal."""
    reward = Reward(is_front=True)
    settings = SearchSettings(reward, trials, batch=BATCH, seed=seed)
    told = json.dumps([options.steps, options.images, options.device, seed])
    cores = None if options.core is None else (options.core,)
    with SearchJournal(folder, space.digest(), told) as journal:
        executor = ProcessExecutor(TRAIN, cores)
        strategy = CapsStrategy(space, seed, reward)
        made = Search(strategy, journal, cost, executor, settings, _tell).run()
    return [each for each in made.results if each.share == WHOLE and not each.failure]


def run_arm(
    options: argparse.Namespace, arm: str, space: Space, seed: int, cost: Cost
) -> list[Result]:
    """Return the results of one arm."""
    folder, trials = options.output / f"{arm}-{seed}", options.trials
    if arm == "architecture":
        return search(options, only_architecture(space), folder, seed, trials, cost)
    if arm == "pruning":
        part = only_pruning(space, largest(space))
        return search(options, part, folder, seed, trials, cost)
    if arm == "after":
        # Whole batches are trained: a half that is none would train more than the other arms.
        half = max(BATCH, trials // 2 // BATCH * BATCH)
        first = search(options, only_architecture(space), folder / "1", seed, half, cost)
        best = max(first, key=Reward(is_front=True)).candidate
        part = only_pruning(space, best)
        return first + search(options, part, folder / "2", seed, max(1, trials - half), cost)
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
    space = parse_space(QUICK if options.quick else SPACE)
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
                "area": area(results, slowest),
                "test_area": area(apart, slowest),
                "trainings": len(results),
                "seconds": sum(each.seconds for each in results),
                "front": [_row(each) for each in front],
            }
        )
    for row in arms.values():
        for name in ("area", "test_area"):
            row[name] = statistics.median(each[name] for each in row["seeds"])
    return {
        "device": options.device,
        "candidates": space.size(),
        "trials": options.trials,
        "steps": options.steps,
        "images": options.images,
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
