"""CANAO's experiment on 20 Newsgroups where every candidate is judged on shared weights.

    python benchmarks/newsgroups.py data.npz --tokens 64 --vocabulary 4000
    fusionx latency-table benchmarks/search_space_text.json --device count:cortex-a76 -o table.json
    python benchmarks/search_shared.py OUT --data data.npz --table table.json
        [--arms controller,random,tpe,tpe:operations] [--seeds 3] [--trials 60] [--steps 1500]

Trainings are what a search pays for. Here the space has one training: shared weights. Every arm and
seed looks for the fastest network that is, on them, no less accurate than the hand-made baseline,
the largest network of the space. The winners and the baseline are then trained alone, whole, and
built and measured whole. An arm ``STRATEGY:operations`` is told operations in the place of latency:
it shows what the compiler in the loop is worth at equal accuracy.

Everything is kept in OUT: the same command goes on where it was ended. ``results.json`` has the
curves: latency of the best network so far, by trial.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import search_latency
import search_text
import torch
import train_newsgroups
from torch.nn import functional

from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.output_file import new_file
from tvm_fusionx.search.clocks import clock_of
from tvm_fusionx.search.journal import Result, SearchJournal
from tvm_fusionx.search.latency import LatencyEstimator
from tvm_fusionx.search.latency_table import load_table
from tvm_fusionx.search.proxy import flops_of
from tvm_fusionx.search.reward import Reward
from tvm_fusionx.search.search import Search, SearchOutcome, SearchSettings
from tvm_fusionx.search.session import STRATEGIES
from tvm_fusionx.search.shared_weights import (
    SharedExecutor,
    SharedWeights,
    largest,
    train_shared,
)
from tvm_fusionx.search.space import Candidate, Space, candidate_key
from tvm_fusionx.search.space_file import load_space

SPACE = Path(__file__).resolve().parent / "search_space_text.json"
ARMS = "controller,random,tpe,tpe:operations"
OPERATIONS = "operations"
WEIGHTS, TRAINED = "shared.npz", "shared.json"

Cost = Callable[[Candidate], float]


class Documents:
    """Documents to train with, and those that judge candidates.

    Parameters
    ----------
    path
        What ``newsgroups.py`` wrote.
    tokens
        How many of each document's words are read.
    judging
        How many documents judge, of those kept apart; all by default.
    """

    def __init__(self, path: Path, tokens: int, judging: int | None = None) -> None:
        self.judging = judging
        with np.load(path, allow_pickle=False) as file:
            ids = torch.from_numpy(file["train_ids"])[:, :tokens]
            labels = torch.from_numpy(file["train_labels"])
        self.kept, self.used = train_newsgroups.parts(len(ids))
        self.ids, self.labels = ids, labels

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return documents, some words left out, and labels: the same for a step in every run."""
        generator = torch.Generator().manual_seed(step)
        chosen = self.used[
            torch.randint(len(self.used), (train_newsgroups.BATCH,), generator=generator)
        ]
        return train_newsgroups.leave_words_out(self.ids[chosen], generator), self.labels[chosen]

    def loss(self, network: Any, step: int) -> Any:
        """Return the loss of the batch of a step."""
        ids, labels = self.batch(step)
        return functional.cross_entropy(network(ids), labels)

    def accuracy(self, network: Any) -> float:
        """Return the accuracy on the documents that were kept apart."""
        judging = self.kept[: self.judging]
        return train_newsgroups.accuracy(network, self.ids[judging], self.labels[judging])


def shared_of(space: Space, folder: Path, documents: Documents, steps: int) -> SharedWeights:
    """Return trained shared weights, from the folder where they lie there."""
    shared = SharedWeights(space)
    told = {"space": space.digest(), "steps": steps}
    note = folder / TRAINED
    if note.is_file() and told.items() <= json.loads(note.read_text(encoding="utf-8")).items():
        with np.load(folder / WEIGHTS, allow_pickle=False) as file:
            shared.load_arrays({name: file[name] for name in file.files})
        return shared
    began, used = time.perf_counter(), time.process_time()
    losses = train_shared(shared, documents.loss, steps)
    with new_file(folder / WEIGHTS) as scratch, scratch.open("wb") as file:
        np.savez(file, **shared.arrays())
    note_text = {
        **told,
        "cpu_seconds": time.process_time() - used,
        "seconds": time.perf_counter() - began,
        "last_loss": sum(losses[-100:]) / len(losses[-100:]),
    }
    with new_file(note) as scratch:
        scratch.write_text(json.dumps(note_text) + "\n", encoding="utf-8")
    return shared


def search(
    options: argparse.Namespace,
    space: Space,
    arm: str,
    seed: int,
    cost: Cost,
    latency: Cost,
    executor: SharedExecutor,
    least: float,
) -> tuple[SearchOutcome, list[float | None]]:
    """Return what an arm found with a seed, and the latency of its best network by trial."""
    strategy = arm.partition(":")[0]
    reward = Reward(least_accuracy=least)
    settings = SearchSettings(reward, options.trials, seed=seed)
    curve: list[float | None] = []

    def tell(made: Search, result: Result) -> None:
        # What it was told may be another cost.
        curve.append(None if made.best is None else latency(made.best.candidate))

    folder = options.output / f"{arm.replace(':', '-')}-{seed}"
    training = json.dumps([arm, options.steps, least, options.device, seed])
    with SearchJournal(folder, space.digest(), training) as journal:
        proposer = STRATEGIES[strategy](space, seed, reward)
        return Search(proposer, journal, cost, executor, settings, tell).run(), curve


def main(words: list[str] | None = None) -> None:
    """Run all arms, train and measure what they found, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--space", type=Path, default=SPACE)
    parser.add_argument("--table", type=Path, help="latency table of the space and the device")
    parser.add_argument("--arms", default=ARMS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--steps", type=int, default=1500, help="of the shared weights")
    parser.add_argument("--judging", type=int, help="documents that judge on shared weights")
    parser.add_argument("--epochs", type=float, default=4.0, help="of each whole training")
    parser.add_argument("--device", default="count:cortex-a76")
    parser.add_argument("--core", type=int, help="train on this core alone")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    os.environ |= {"NEWSGROUPS": str(options.data.resolve()), "EPOCHS": str(options.epochs)}
    space = load_space(options.space)
    options.output.mkdir(parents=True, exist_ok=True)
    documents = Documents(options.data, int(space.fixed["tokens"]), options.judging)
    shared = shared_of(space, options.output, documents, options.steps)
    executor = SharedExecutor(shared, documents.accuracy)
    with torch.no_grad():
        least = documents.accuracy(shared.network(largest(space)))
    print(f"baseline on shared weights: {least:.2%}", flush=True)
    database = ProfileDatabase(options.output / "profiles.sqlite")
    with clock_of(options.device) as clock:
        estimator = LatencyEstimator(clock, database)
        if options.table is not None:
            load_table(estimator, options.table)
        else:
            estimator.calibrate([largest(space), next(iter(space.every()))])
        report = run(options, space, estimator, executor, least)
        report["shared"] = json.loads((options.output / TRAINED).read_text(encoding="utf-8"))
        _write(options.output, report)


def run(
    options: argparse.Namespace,
    space: Space,
    estimator: LatencyEstimator,
    executor: SharedExecutor,
    least: float,
) -> dict[str, Any]:
    """Return what all arms found, on shared weights and trained alone."""

    def latency(candidate: Candidate) -> float:
        return estimator.latency_of(candidate).microseconds

    baseline = largest(space)
    # Operations as microseconds of the baseline's rate, so that both costs are of one size.
    rate = latency(baseline) / flops_of(baseline)
    report: dict[str, Any] = {
        "space": space.size(),
        "device": str(estimator.clock.setting),
        "trials": options.trials,
        "epochs": options.epochs,
        "launch_us": estimator.launch_us,
        "judging": options.judging,
        "least_accuracy_on_shared_weights": least,
        "searches": [],
        "networks": {},
    }
    found = {candidate_key(baseline): baseline}
    judged: dict[str, Result] = {}
    for seed in range(options.seeds):
        for arm in options.arms.split(","):
            is_counted = arm.endswith(f":{OPERATIONS}")
            cost = (lambda each: rate * flops_of(each)) if is_counted else latency
            outcome, curve = search(options, space, arm, seed, cost, latency, executor, least)
            best = outcome.best
            judged.update({candidate_key(each.candidate): each for each in outcome.results})
            key = candidate_key(best.candidate)
            found[key] = best.candidate
            row = {"arm": arm, "seed": seed, "network": key, "curve": curve}
            row |= {"shared_accuracy": best.accuracy, "latency_us": latency(best.candidate)}
            report["searches"].append(row)
            print(
                f"{arm}, seed {seed}: {row['latency_us']:.1f} us at {best.accuracy:.2%}", flush=True
            )
            _write(options.output, report)
    everything = [
        (each.accuracy, flops_of(each.candidate), latency(each.candidate))
        for each in judged.values()
    ]
    report["judged"] = len(everything)
    report["operations_as_proxy"] = at_equal_accuracy(everything)
    order = in_order(report["searches"], candidate_key(baseline))
    for key in order:
        made = search_text.train_whole(
            found[key], space, options.output / "whole", options.core, estimator
        )
        row = {**search_text.row_of(made), "operations": flops_of(found[key])}
        report["networks"][key] = row
        print(search_text.text_of(made), flush=True)
        _write(options.output, report)
    for key in order:
        check = estimator.check(found[key])
        report["networks"][key] |= {"measured_us": check.measured_us, "error": check.error}
        print(f"{key}: {check.measured_us:.1f} us, off by {check.error:.2%}", flush=True)
        _write(options.output, report)
    return report


def at_equal_accuracy(judged: Sequence[tuple[float, float, float]]) -> dict[str, Any]:
    """Return what is lost where the network of fewest operations is taken for the fastest.

    Parameters
    ----------
    judged
        Accuracy, operations and latency of networks.

    Returns
    -------
    dict
        The rank correlation of operations with latency, and for each accuracy that is met, the
        latency of the network with fewest operations over that of the fastest: of all networks of
        so few, that by chance (mean) and the slowest.
    """
    rows = []
    for least in sorted({each[0] for each in judged}):
        enough = [each for each in judged if each[0] >= least]
        fastest = min(latency for _, _, latency in enough)
        fewest = min(operations for _, operations, _ in enough)
        tied = [latency for _, operations, latency in enough if operations == fewest]
        mean = sum(tied) / len(tied)
        rows.append({"accuracy": least, "mean": mean / fastest, "slowest": max(tied) / fastest})
    correlation = search_latency.rank_correlation(
        [operations for _, operations, _ in judged], [latency for _, _, latency in judged]
    )
    return {"rank_correlation": correlation, "over_the_fastest": rows}


def in_order(searches: Sequence[dict[str, Any]], baseline: str) -> list[str]:
    """Return the networks to train: the baseline, the fastest of each arm, then all others."""
    fastest = sorted(searches, key=lambda row: row["latency_us"])
    arms = dict.fromkeys(row["arm"] for row in searches)
    first = [next(row for row in fastest if row["arm"] == arm) for arm in arms]
    return list(dict.fromkeys([baseline, *(row["network"] for row in [*first, *fastest])]))


def _write(folder: Path, report: dict[str, Any]) -> None:
    with new_file(folder / "results.json") as scratch:
        scratch.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
