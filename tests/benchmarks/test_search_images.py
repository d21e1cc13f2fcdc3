from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.scripts import script
from tvm_fusionx.search.journal import FILE, Result
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
    kept = choices["stage0.layer0.kernel"] / 10 - 0.05 * cut + 0.1 * (cut > 0)
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
        assert row["area"] == pytest.approx(2 * row["test_area"])
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
    part = search_images.only_architecture(space)
    assert part.size() < space.size()
    pruning = search_images.only_pruning(space, large)
    layers = sum(name.endswith(".pruning") for name in large["choices"])
    assert pruning.size() == 3 * 13**layers
    # The two have the unpruned network alone in common, but for the algorithm that is not asked.
    assert candidate_key(large) in {candidate_key(part.walk(lambda n, o: large["choices"][n]))}


def test_the_area_is_that_under_the_steps() -> None:
    candidate = search_images.largest(parse_space(search_images.SPACE))
    rows = [(0.5, 100.0), (0.4, 150.0), (0.9, 400.0), (0.95, 9000.0)]
    results = [Result(candidate, 1.0, accuracy, us) for accuracy, us in rows]
    # Two doublings at 0.5, one at 0.9; what is slower than the slowest adds nothing.
    assert search_images.area(results, 800.0) == pytest.approx(2 * 0.5 + 0.9)
    assert search_images.area([], 800.0) == 0
    assert search_images.area(results[3:], 800.0) == 0


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
