from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run_cli import Ran, runner
from tests.tiny_models import perceptron, save
from tvm_fusionx.fusion.device_costs import DEFAULT_COSTS
from tvm_fusionx.measuring import costs_path, setting_of


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


def test_the_blocks_are_told_and_the_page_and_json_written(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    page, written = tmp_path / "report.html", tmp_path / "report.json"
    ran = run("explain", save(perceptron(), tmp_path), "--html", page, "--json", written)
    assert ran.code == 0, ran.err
    assert "dense" in ran.out
    assert str(page) in ran.out
    assert page.read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    assert json.loads(written.read_text())


def test_one_question_is_answered_and_exports_are_written(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    model, page = save(perceptron(), tmp_path), tmp_path / "report.html"
    drawn, explored = tmp_path / "net.onnx", tmp_path / "net.json"
    exports = ("--netron", drawn, "--model-explorer", explored)
    ran = run("explain", model, "--build", "--html", page, *exports)
    assert ran.code == 0, ran.err
    assert "T.prim_func" in page.read_text(encoding="utf-8")
    (graph,) = json.loads(explored.read_text())["graphs"]
    assert drawn.stat().st_size > 0
    calls = [node["id"] for node in graph["nodes"] if node["namespace"]]
    ran = run("explain", model, "--between", calls[0], calls[-1])
    assert ran.code == 0, ran.err
    assert calls[0] in ran.out
    assert "block" in ran.out
    assert run("explain", model, "--between", calls[0], "nobody").code == 2


def test_the_share_of_time_is_measured_where_it_is_asked_for(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    model, written = save(perceptron(), tmp_path), tmp_path / "report.json"
    ran = run("explain", model, "--profile", "--json", written)
    assert ran.code == 0, ran.err
    assert "% of time" in ran.out
    report = json.loads(written.read_text())
    assert report["run_seconds"] > 0
    kernels = [block for block in report["blocks"] if not block["is_reshape_only"]]
    assert sum(block["share"] for block in kernels) == pytest.approx(1.0)
    assert all(block["template"] for block in kernels)
    elsewhere = run("explain", model, "--profile", "--target", "opencl")
    assert elsewhere.code == 2
    assert "a target that this machine runs" in elsewhere.problem


def test_the_user_steers(run: Callable[..., Ran], tmp_path: Path) -> None:
    model, written = save(perceptron(), tmp_path), tmp_path / "report.json"
    assert run("explain", model, "--deny", "nn.relu", "--json", written).code == 0
    reasons = {edge["reason"] for edge in json.loads(written.read_text())["edges"]}
    assert "denied" in reasons
    assert run("explain", model, "--allow", "nn.relu", "--json", written).code == 0
    blocks = json.loads(written.read_text())["blocks"]
    assert {len(block["operators"]) for block in blocks} == {1}


def test_the_optimal_planner_and_measuring_are_asked_for(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_FUSIONX_DATA", str(tmp_path / "data"))
    DEFAULT_COSTS.save(_made(costs_path(setting_of("llvm -mcpu=native"))))
    model, database = save(perceptron(), tmp_path), tmp_path / "profiles.sqlite"
    ran = run("explain", model, "--planner", "optimal", "--measure", "--profile-db", database)
    assert ran.code == 0, ran.err
    assert "optimal plan" in ran.out
    assert run("explain", model, "--planner", "best").code == 2


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    return path


def test_a_page_that_cannot_be_written_is_2_before_any_work(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = run("explain", tmp_path / "absent.onnx", "--html", tmp_path / "missing" / "r.html")
    assert ran.code == 2
    assert "r.html" in ran.problem


def test_an_unknown_target_is_2(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("explain", save(perceptron(), tmp_path), "--target", "toaster")
    assert ran.code == 2
    assert "toaster" in ran.problem
