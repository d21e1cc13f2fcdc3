from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.run_cli import Ran, runner
from tests.tiny_models import perceptron, save


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


def test_the_table_has_a_row_a_side_and_the_json_is_written(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    written = tmp_path / "bench.json"
    model = save(perceptron(), tmp_path)
    ran = run(
        "bench", model, "--vs", "tvm, unfused", "--threads", 1, "--repeat", 2, "--json", written
    )
    assert ran.code == 0, ran.err
    sides = {line.split()[0] for line in ran.out.splitlines() if line.strip()}
    assert {"fusionx", "tvm", "unfused"} <= sides
    assert "x as fast" in ran.out
    assert set(json.loads(written.read_text())["latency_ms"]) == {"fusionx", "tvm", "unfused"}


def test_wrong_outputs_of_ours_are_1(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tvm_fusionx.report.bench.bench._reference", lambda path, arrays, executors: [np.ones(3)]
    )
    ran = run("bench", save(perceptron(), tmp_path), "--vs", "", "--threads", 1, "--repeat", 1)
    assert ran.code == 1
    assert "fusionx: timed, but its outputs" in ran.out


def test_how_each_side_lasts_has_a_table(run: Callable[..., Ran], tmp_path: Path) -> None:
    model, written = save(perceptron(), tmp_path), tmp_path / "bench.json"
    words = ["--vs", "", "--threads", 1, "--repeat", 1, "--sustained", "0.02s", "--json", written]
    ran = run("bench", model, *words)
    assert ran.code == 0, ran.err
    assert "last/first" in ran.out
    assert json.loads(written.read_text())["sustained_ms"]["fusionx"]["throttling"] > 0


def test_busy_processes_have_a_table_each(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvm_fusionx.report.bench.under_load.ROUNDS", 1)
    monkeypatch.setattr("tvm_fusionx.report.bench.under_load.DEFAULT_SECONDS", 0.1)
    model, written = save(perceptron(), tmp_path), tmp_path / "bench.json"
    words = ["--vs", "", "--threads", 1, "--repeat", 1, "--json", written]
    ran = run("bench", model, *words, "--busy", "0,1")
    assert ran.code == 0, ran.err
    assert "beside 0 busy" in ran.out
    assert "beside 1 busy" in ran.out
    assert json.loads(written.read_text())["loaded_ms"]["1"]["fusionx"]["cpu_ms"] >= 0
    wrong = run("bench", model, *words, "--busy", "many")
    assert wrong.code == 2
    assert "found 'many'" in wrong.err


def test_a_tuned_side_without_a_budget_is_2(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("bench", save(perceptron(), tmp_path), "--vs", "tvm-metaschedule")
    assert ran.code == 2
    assert "--tuning-budget" in ran.problem


def test_an_unknown_side_is_2(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("bench", save(perceptron(), tmp_path), "--vs", "tvm,abacus")
    assert ran.code == 2
    assert "'abacus'" in ran.problem


def test_a_json_path_that_cannot_be_written_is_2_before_any_work(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = run("bench", tmp_path / "absent.onnx", "--json", tmp_path / "missing" / "b.json")
    assert ran.code == 2
    assert "b.json" in ran.problem


def test_a_device_tells_its_start_apart(run: Callable[..., Ran], tmp_path: Path) -> None:
    model = save(perceptron(), tmp_path)
    ran = run("bench", model, "--device", "local", "--vs", "unfused", "--repeat", 1)
    assert ran.code == 0, ran.err
    assert "local: " in ran.out
    assert "first run ms" in ran.out
    sides = [line.split()[0] for line in ran.out.splitlines() if line.strip()]
    assert sides.count("fusionx") == sides.count("unfused") == 2


def test_other_runtimes_are_refused_on_a_device(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("bench", tmp_path / "absent.onnx", "--device", "pocl", "--vs", "tvm,ort")
    assert ran.code == 2
    assert "no program there" in ran.problem
