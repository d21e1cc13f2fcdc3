from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.scripts import script
from tvm_fusionx.search.executor import PARENT, Ended, Job
from tvm_fusionx.search.journal import FILE
from tvm_fusionx.search.space import candidate_key
from tvm_fusionx.search.space_file import parse_space

pytest.importorskip("torch", reason="torch is not installed")

from tvm_fusionx.search.proxy import flops_of

search_images = script("search_images")
train_fashion = script("train_fashion")

# The larger the better, a little less where much is cut; nothing is imported.
TRAINING = """
def train(candidate, trial):
    choices = candidate["choices"]
    cut = sum(str(value).endswith("0.5") for value in choices.values())
    kept = 0.3 + choices["stage0.layer0.kernel"] / 10 - 0.05 * cut + 0.1 * (cut > 0)
    open(trial["folder"] + "/trained", "a").write("once ")
    return {"accuracy": kept, "test_accuracy": kept / 2}
"""


class _Estimator:
    """Tells twice the operations: no kernel is built."""

    def __init__(self, clock: Any, database: Any) -> None:
        self.asked: list[str] = []

    def calibrate(self, candidates: Any) -> None:
        assert len(list(candidates)) == search_images.CALIBRATING

    def latency_of(self, candidate: Any) -> Any:
        class Told:
            microseconds = 2 * flops_of(candidate)

        return Told


@pytest.mark.slow
def test_all_arms_spend_the_same_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "training.py").write_text(TRAINING)
    monkeypatch.setattr(search_images, "TRAIN", tmp_path / "training.py")
    monkeypatch.setattr(search_images, "LatencyEstimator", _Estimator)
    monkeypatch.setattr(search_images, "clock_of", contextlib.nullcontext)
    words = [str(tmp_path / "out"), "--quick", "--trials", "2", "--seeds", "1", "--steps", "2"]
    search_images.main(words)
    report = json.loads((tmp_path / "out" / "results.json").read_text())
    assert set(report["arms"]) == set(search_images.ARMS)
    for arm, row in report["arms"].items():
        (seed,) = row["seeds"]
        assert seed["trainings"] >= 2, arm
        assert row["area"] >= row["area_above"]["0.65"] >= row["area_above"]["0.75"]
        assert row["area"] <= row["area_above"]["0"]
        pruned = [
            value != "none"
            for each in seed["front"]
            for name, value in each["choices"].items()
            if name.endswith(".pruning")
        ]
        assert arm != "architecture" or not any(pruned)
    assert len(list((tmp_path / "out").glob(f"after-0/*/{FILE}"))) == 2
    search_images.main(words)
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == report
    trained = [path.read_text() for path in (tmp_path / "out").rglob("trained")]
    assert trained
    assert set(trained) == {"once "}


def test_parts_of_the_space_are_parts() -> None:
    space = parse_space(search_images.SPACE)
    large = search_images.largest(space)
    space.check(large)
    assert large["choices"]["stage2.width"] == 96
    part = search_images.architectures(space)
    assert part.size() < space.size()
    pruning = search_images.only_pruning(space, large)
    layers = sum(name.endswith(".pruning") for name in large["choices"])
    assert pruning.size() == 3 * 13**layers
    # The two have the unpruned network alone in common, but for the algorithm that is not asked.
    assert candidate_key(large) in {candidate_key(part.walk(lambda n, o: large["choices"][n]))}


class _Counting:
    """Trains nothing: leaves a file, and counts."""

    workers = 1

    def __init__(self) -> None:
        self.trained: list[str] = []

    def run(self, jobs: Sequence[Job], on_start: Callable[[Job], None]) -> Iterator[Ended]:
        for job in jobs:
            on_start(job)
            self.trained.append(candidate_key(job.candidate))
            (Path(job.trial["folder"]) / "weights").write_text(str(len(self.trained)))
            yield Ended(job.number, {"accuracy": len(self.trained) / 10})


def test_what_one_arm_trained_another_takes(tmp_path: Path) -> None:
    space = parse_space(search_images.SPACE)
    one, two = (space.sample(random.Random(seed)) for seed in (0, 1))
    inner = _Counting()
    shared = search_images.SharedTrainings(inner, tmp_path / "trainings")
    assert shared.workers == 1
    started: list[Job] = []

    def train(arm: str, candidate: Any, parent: str = "", seed: int = 0) -> float:
        folder = tmp_path / arm / candidate_key(candidate)
        trial = {"share": 1.0, "seed": seed, "folder": str(folder)}
        trial |= {PARENT: parent} if parent else {}
        (ended,) = shared.run([Job(0, candidate, trial)], started.append)
        assert (folder / "weights").read_text() == f"{ended.returned['accuracy'] * 10:g}"
        return float(ended.returned["accuracy"])

    assert train("a", one) == train("b", one) == 0.1
    assert train("a", one, seed=1) == 0.2
    # Equal begins are equal, in whichever arm the parent lies; other begins are others.
    assert train("a", two, str(tmp_path / "b" / candidate_key(one))) == 0.3
    assert train("b", two, str(tmp_path / "b" / candidate_key(one))) == 0.3
    assert train("c", two) == 0.4
    assert len(inner.trained) == 4
    assert len(started) == 6


@pytest.mark.parametrize("pruning", ["none", "block4x1:0.5"])
def test_a_training_returns_what_a_search_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pruning: str
) -> None:
    import numpy as np

    def pictures(part: str, count: int) -> tuple[Any, Any]:
        labels = np.arange(count) % 10
        x = np.random.default_rng(0).normal(size=(count, 1, 28, 28)) + labels[:, None, None, None]
        return x.astype("float32"), labels

    monkeypatch.setattr(train_fashion.fashion_networks, "pictures", pictures)
    monkeypatch.setenv("IMAGES", "320")
    monkeypatch.setenv("STEPS", "8")
    space = parse_space(search_images.QUICK)
    candidate = space.walk(lambda n, o: pruning if n.endswith(".pruning") else o[0])
    trial = {"share": 0.5, "seed": 0, "folder": str(tmp_path)}
    found = train_fashion.train(candidate, trial)
    assert found["steps"] == 4
    assert 0 <= found["accuracy"] <= 1
    assert found.get("sparsity", 0.0) == pytest.approx(0.5 if pruning != "none" else 0.0)
    with np.load(tmp_path / "weights.npz", allow_pickle=False) as file:
        zeros = float(np.mean(file["l0_window_weight"] == 0))
    assert zeros == (0.5 if pruning != "none" else 0.0)
    child = {"share": 0.5, "seed": 1, "folder": str(tmp_path / "child"), "parent": str(tmp_path)}
    assert train_fashion.train(candidate, child)["inherited"] == 1.0
    assert found["inherited"] == 0.0
