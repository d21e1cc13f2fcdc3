from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.search.filled_database import estimator_for, fill
from tests.search.small_spaces import TRANSFORMERS
from tests.search.test_executor import TRAIN
from tvm_fusionx.errors import RecordError
from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.search.journal import Result
from tvm_fusionx.search.latency import Check, LatencyEstimator
from tvm_fusionx.search.reward import Reward
from tvm_fusionx.search.search import SearchSettings
from tvm_fusionx.search.session import (
    MODEL,
    PAGE,
    RECIPE,
    TABLE,
    WEIGHTS,
    WHY,
    SearchReport,
    SearchTask,
    run_search,
    weights_of,
    write_results,
)
from tvm_fusionx.search.space import candidate_key
from tvm_fusionx.search.space_file import parse_space
from tvm_fusionx.search.torch_network import torch_network

SPACE = parse_space({**TRANSFORMERS, "layers": [1], "hidden": [16]})


@pytest.fixture(scope="module", name="estimator")
def fixture_estimator(tmp_path_factory: pytest.TempPathFactory) -> LatencyEstimator:
    estimator = estimator_for(ProfileDatabase(tmp_path_factory.mktemp("session") / "p.sqlite"))
    fill(estimator, SPACE.every())
    return estimator


def _task(folder: Path, **further: Any) -> SearchTask:
    settings = SearchSettings(Reward(1e9), trials=4, **further)
    return SearchTask(SPACE, TRAIN, folder, "random", settings)


def _run(
    folder: Path, estimator: LatencyEstimator, monkeypatch: pytest.MonkeyPatch, **further: Any
) -> SearchReport:
    monkeypatch.setattr(estimator, "check", lambda candidate: Check(9.0, 10.0, 4))
    resume = bool(further.pop("resume", False))
    return run_search(_task(folder, **further), estimator, resume=resume)


def test_a_search_leaves_what_a_person_wants(
    tmp_path: Path, estimator: LatencyEstimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = _run(tmp_path, estimator, monkeypatch)
    best = report.outcome.best
    assert {path.name for path in report.files} == {RECIPE, TABLE, WHY, PAGE}
    recipe = json.loads((tmp_path / RECIPE).read_text())
    assert recipe["candidate"] == best.candidate
    assert recipe["details"] == {"epochs": 1}
    rows = (tmp_path / TABLE).read_text().splitlines()
    assert len(rows) == 1 + len(report.latency.kernels)
    why = (tmp_path / WHY).read_text()
    assert f"accuracy {best.accuracy:.2%}" in why
    assert "off by 10.00%" in why
    assert "There is no model.onnx" in why
    # Again with weights, as a training leaves them.
    network = torch_network(best.candidate)
    folder = tmp_path / "trials" / candidate_key(best.candidate)
    np.savez(folder / WEIGHTS, **network.arrays())
    files = write_results(_task(tmp_path), report.outcome, report.latency, report.check)
    assert files[0].name == MODEL
    assert "There is no model.onnx" not in (tmp_path / WHY).read_text()
    onnx.checker.check_model(onnx.load(files[0]))


def test_the_page_is_live_while_it_goes_on_and_notes_are_told(
    tmp_path: Path, estimator: LatencyEstimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimator, "check", lambda candidate: Check(9.0, 10.0, 4))
    task = replace(_task(tmp_path), notes=("gelu stays.",))
    pages = []
    run_search(task, estimator, on_result=lambda *_: pages.append((tmp_path / PAGE).read_text()))
    assert len(pages) == 4
    assert all('http-equiv="refresh"' in page for page in pages)
    assert 'http-equiv="refresh"' not in (tmp_path / PAGE).read_text()
    assert "gelu stays." in (tmp_path / WHY).read_text()


def test_it_is_resumed_only_where_that_is_asked(
    tmp_path: Path, estimator: LatencyEstimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _run(tmp_path, estimator, monkeypatch)
    with pytest.raises(RecordError, match="--resume"):
        _run(tmp_path, estimator, monkeypatch)
    again = _run(tmp_path, estimator, monkeypatch, resume=True)
    assert again.outcome.best == first.outcome.best
    with pytest.raises(RecordError, match="search journal"):
        _run(tmp_path, estimator, monkeypatch, resume=True, seed=1)


def test_latencies_of_before_and_after_have_one_launch(
    tmp_path: Path, estimator: LatencyEstimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches = iter((0.5, 7.0))

    def calibrate(candidates: Any) -> float:
        assert list(candidates) == ["a network"]
        estimator.launch_us = next(launches)
        return estimator.launch_us

    monkeypatch.setattr(estimator, "check", lambda candidate: Check(9.0, 10.0, 4))
    monkeypatch.setattr(estimator, "launch_us", 0.0)
    monkeypatch.setattr(estimator, "calibrate", calibrate)
    given: Any = {"calibrating": ["a network"]}
    first = run_search(_task(tmp_path), estimator, **given)
    assert estimator.launch_us == 0.5
    # As another process that goes on would: nothing is measured a second time.
    estimator.launch_us = 0.0
    again = run_search(_task(tmp_path), estimator, resume=True, **given)
    assert estimator.launch_us == 0.5
    assert again.latency.microseconds == first.latency.microseconds
    assert again.latency.microseconds == pytest.approx(again.outcome.best.latency_us)


def test_a_training_that_changed_is_another_search(tmp_path: Path) -> None:
    other = tmp_path / "train.py"
    other.write_text("def train(candidate, trial): ...\n")
    digests = {
        _task(tmp_path).training_digest("d"),
        _task(tmp_path).training_digest("e"),
        _task(tmp_path, seed=1).training_digest("d"),
        SearchTask(SPACE, other, tmp_path, "random").training_digest("d"),
        SearchTask(SPACE, TRAIN, tmp_path, "tpe").training_digest("d"),
    }
    assert len(digests) == 5
    longer = SearchTask(SPACE, TRAIN, tmp_path, settings=SearchSettings(trials=9))
    assert longer.training_digest("d") == SearchTask(SPACE, TRAIN, tmp_path).training_digest("d")


def test_damaged_weights_are_told(tmp_path: Path) -> None:
    result = Result(next(iter(SPACE.every())))
    assert weights_of(tmp_path, result) is None
    folder = tmp_path / "trials" / candidate_key(result.candidate)
    folder.mkdir(parents=True)
    (folder / WEIGHTS).write_bytes(b"nothing")
    with pytest.raises(RecordError, match="weights"):
        weights_of(tmp_path, result)
