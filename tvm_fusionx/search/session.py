"""A whole search, from a space and a training to files: the winner, its recipe, and why it won."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from tvm_fusionx.errors import RecordError
from tvm_fusionx.output_file import new_file
from tvm_fusionx.search.caps import CapsStrategy
from tvm_fusionx.search.executor import Executor, ProcessExecutor
from tvm_fusionx.search.journal import FILE, Result, SearchJournal
from tvm_fusionx.search.latency import Check, Latency, LatencyEstimator, why_slow
from tvm_fusionx.search.onnx_network import onnx_network
from tvm_fusionx.search.report import write_page
from tvm_fusionx.search.reward import Reward
from tvm_fusionx.search.search import TRIALS, Search, SearchOutcome, SearchSettings
from tvm_fusionx.search.space import Candidate, Space, candidate_key, candidate_text
from tvm_fusionx.search.strategies import (
    EvolutionStrategy,
    OptunaStrategy,
    RandomStrategy,
    Strategy,
)

WEIGHTS = "weights.npz"
"""What a training leaves in its folder for the winner's ONNX file: arrays by parameter."""

MODEL, RECIPE, TABLE, PAGE, WHY = (
    "model.onnx",
    "recipe.json",
    "latency.csv",
    "front.html",
    "why.txt",
)


def _controller(space: Space, seed: int, reward: Reward) -> Strategy:
    from tvm_fusionx.search.controller import ControllerStrategy

    return ControllerStrategy(space, seed)


STRATEGIES: dict[str, Callable[[Space, int, Reward], Strategy]] = {
    "controller": _controller,
    "caps": CapsStrategy,
    "evolution": lambda space, seed, reward: EvolutionStrategy(space, seed),
    "tpe": lambda space, seed, reward: OptunaStrategy(space, seed),
    "gp": lambda space, seed, reward: OptunaStrategy(space, seed, "gp"),
    "random": lambda space, seed, reward: RandomStrategy(space, seed),
}
"""Makes a strategy of a space, a seed, and what is asked for."""


@dataclass(frozen=True)
class SearchTask:
    """What is searched, how, and where.

    Attributes
    ----------
    space
        The networks.
    train
        The Python file that trains one.
    folder
        Where the journal, the trials and the results lie.
    strategy
        Who proposes, of :data:`STRATEGIES`.
    settings
        How it goes; its trials and its budget may change when it is resumed.
    notes
        What happened to the space before, for people.
    """

    space: Space
    train: Path
    folder: Path
    strategy: str = "controller"
    settings: SearchSettings = field(default_factory=SearchSettings)
    notes: tuple[str, ...] = ()

    def training_digest(self, device: str) -> str:
        """Return a name for all that results depend on, beside the space."""
        settings = asdict(self.settings)
        for free in ("trials", "budget_seconds"):
            del settings[free]
        text = json.dumps([self.strategy, device, settings], sort_keys=True)
        digest = hashlib.sha256(text.encode())
        digest.update(self.train.read_bytes())
        return digest.hexdigest()[:32]


@dataclass(frozen=True)
class SearchReport:
    """A search that ended.

    Attributes
    ----------
    outcome
        What it found.
    latency
        The winner's, kernel by kernel.
    check
        The winner predicted, and measured again as a whole.
    files
        What was written.
    """

    outcome: SearchOutcome
    latency: Latency
    check: Check
    files: tuple[Path, ...]


def run_search(
    task: SearchTask,
    estimator: LatencyEstimator,
    *,
    resume: bool = False,
    cores: tuple[int, ...] | None = None,
    executor: Executor | None = None,
    calibrating: Iterable[Candidate] = (),
    on_result: Callable[[Search, Result], None] | None = None,
) -> SearchReport:
    """Search, and write what was found into the task's folder.

    Parameters
    ----------
    estimator
        Tells latencies.
    resume
        Whether to go on with the journal in the folder; without, one that is there is refused.
    cores
        Where trainings run on this machine; all by default.
    executor
        Where trainings run instead, such as a cluster.
    calibrating
        Networks to measure launches by where the search begins. One that goes on keeps what was
        measured then, so that latencies of before and after are of one measure.
    on_result
        Told of every network that was judged.

    Raises
    ------
    RecordError
        There is a journal and it is not to be resumed, or it is of another search.
    ModelError, OutputFileError, MissingDependencyError
        There is no training; a file cannot be written; the strategy's package is missing.
    TuningError
        Nothing that was trained is as fast as asked for.
    """
    executor = executor or ProcessExecutor(task.train, cores)
    check_folder(task.folder, resume=resume)
    strategy = STRATEGIES[task.strategy](task.space, task.settings.seed, task.settings.reward)
    training = task.training_digest(str(estimator.clock.setting))
    with SearchJournal(task.folder, task.space.digest(), training) as journal:
        _settle_launch(journal, estimator, list(calibrating))

        def told(search: Search, result: Result) -> None:
            _write_page(task, tuple(search.judged.values()), goes_on=True)
            if on_result is not None:
                on_result(search, result)

        search = Search(
            strategy,
            journal,
            lambda candidate: estimator.latency_of(candidate).microseconds,
            executor,
            task.settings,
            told,
        )
        outcome = search.run()
    latency = estimator.latency_of(outcome.best.candidate)
    check = estimator.check(outcome.best.candidate)
    files = write_results(task, outcome, latency, check)
    return SearchReport(outcome, latency, check, files)


def _settle_launch(
    journal: SearchJournal, estimator: LatencyEstimator, calibrating: list[Candidate]
) -> None:
    """Give the estimator the launch of the journal, or the journal that of the estimator."""
    if journal.launch_us is not None:
        estimator.launch_us = journal.launch_us
        return
    if calibrating:
        estimator.calibrate(calibrating)
    journal.keep_launch(estimator.launch_us)


def check_folder(folder: Path, *, resume: bool) -> None:
    """Raise RecordError where a search would begin anew in a folder that has a journal."""
    if not resume and (folder / FILE).exists():
        raise RecordError(
            f"search journal {folder / FILE}",
            expected="a folder without one, as the search begins anew",
            found="a journal",
            next_step="Go on with it by --resume, or give another folder.",
        )


def write_results(
    task: SearchTask, outcome: SearchOutcome, latency: Latency, check: Check
) -> tuple[Path, ...]:
    """Write the winner's files, and return their paths.

    Its ONNX file is left out where its training left no weights.
    """
    folder, best = task.folder, outcome.best
    written = [folder / RECIPE, folder / TABLE, folder / WHY, folder / PAGE]
    weights = weights_of(folder, best)
    if weights is not None:
        written.insert(0, folder / MODEL)
        with new_file(folder / MODEL) as scratch:
            scratch.write_bytes(onnx_network(best.candidate, weights).SerializeToString())
    recipe = {
        "candidate": best.candidate,
        "train": task.train.name,
        "trial": {"share": best.share, "seed": task.settings.seed},
        "strategy": task.strategy,
        "accuracy": best.accuracy,
        "latency_us": best.latency_us,
        "seconds": best.seconds,
        "details": dict(best.details),
    }
    with new_file(folder / RECIPE) as scratch:
        scratch.write_text(json.dumps(recipe, indent=1) + "\n", encoding="utf-8")
    with new_file(folder / TABLE) as scratch, scratch.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("layer", "kernel", "signature", "microseconds"))
        for kernel in latency.kernels:
            writer.writerow((kernel.layer, kernel.key, kernel.signature, kernel.microseconds))
    with new_file(folder / WHY) as scratch:
        scratch.write_text(why_it_won(task, outcome, latency, check), encoding="utf-8")
    _write_page(task, outcome.results)
    return tuple(written)


def why_it_won(task: SearchTask, outcome: SearchOutcome, latency: Latency, check: Check) -> str:
    """Return in words what the winner is, and what the networks beside it on the front are."""
    best, reward = outcome.best, task.settings.reward
    lines = [
        f"{candidate_text(best.candidate)}",
        f"accuracy {best.accuracy:.2%}, latency {best.latency_us:.1f} us, reward "
        f"{reward(best):.4f}: the highest of {len(outcome.results)} networks.",
    ]
    if not reward.is_unlimited:
        lines.append(f"The limit is {reward.limit_us:.1f} us.")
    lines.append(
        f"Measured again as a whole: {check.measured_us:.1f} us, predicted "
        f"{check.predicted_us:.1f} us, off by {check.error:.2%}."
    )
    lines.append(f"Its time goes to {why_slow(latency)}.")
    for word, side in (("faster", -1), ("slower", 1)):
        beside = [each for each in outcome.front if (each.latency_us - best.latency_us) * side > 0]
        if beside:
            near = min(beside, key=lambda each: abs(each.latency_us - best.latency_us))
            lines.append(
                f"The next {word} one on the front: accuracy {near.accuracy:.2%} at "
                f"{near.latency_us:.1f} us, {candidate_text(near.candidate)}."
            )
    slow = sum(math.isnan(each.accuracy) for each in outcome.results)
    lines.append(f"{slow} networks were not trained: too slow, or failed.")
    lines.extend(task.notes)
    if weights_of(task.folder, best) is None:
        lines.append(f"There is no {MODEL}, as the training left no {WEIGHTS} in its folder.")
    lines.append(f"The search ended because {outcome.why_ended}.")
    return "\n".join(lines) + "\n"


def weights_of(folder: Path, result: Result) -> Mapping[str, np.ndarray] | None:
    """Return the weights that a training left; None where it left none.

    Raises
    ------
    RecordError
        The file is damaged.
    """
    path = folder / TRIALS / candidate_key(result.candidate) / WEIGHTS
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError) as error:
        raise RecordError(
            f"weights {path}",
            expected="arrays by name, as numpy.savez writes them",
            found=f"{type(error).__name__}: {error}",
            next_step="Let the training end with numpy.savez(path, **network.arrays()).",
        ) from error


def _write_page(task: SearchTask, results: tuple[Result, ...], *, goes_on: bool = False) -> None:
    write_page(
        results,
        task.folder / PAGE,
        title=f"Search by {task.strategy}",
        limit_us=task.settings.reward.limit_us,
        goes_on=goes_on,
    )


__all__ = [
    "STRATEGIES",
    "SearchReport",
    "SearchTask",
    "check_folder",
    "run_search",
    "weights_of",
    "write_results",
]
