from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from tests.cli.run_cli import Ran, runner
from tests.tiny_models import perceptron
from tvm_fusionx.errors import DeviceError
from tvm_fusionx.records import read_records
from tvm_fusionx.tuning import farm_bench


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    monkeypatch.setenv("TVM_FUSIONX_DATA", str(tmp_path / "data"))
    return runner(capsys)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(perceptron(), str(path))
    return path


@pytest.mark.parametrize(
    "wrong",
    [("--budget", "soon"), ("--budget", "0m"), ("--trials", "0"), ("--tuner", "oracle")],
)
def test_wrong_options(run: Callable[..., Ran], model: Path, wrong: tuple[str, str]) -> None:
    assert run("tune", model, *wrong).code == 2


def test_a_device_that_does_not_exist(run: Callable[..., Ran], model: Path) -> None:
    ran = run("tune", model, "--device", "abacus")
    assert ran.code == 2
    assert "abacus" in ran.problem


def test_a_cluster_that_is_not_there(
    run: Callable[..., Ran], model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(address: str) -> None:
        raise DeviceError("Ray cluster", expected="one", found=address, next_step="Start it.")

    monkeypatch.setattr(farm_bench, "connect", refuse)
    ran = run("tune", model, "--ray", "host:1", "--parallel", "2")
    assert ran.code == 3
    assert "host:1" in ran.problem


@pytest.mark.slow
def test_as_many_threads_are_measured_as_the_report_says(
    run: Callable[..., Ran], model: Path, tmp_path: Path
) -> None:
    written = tmp_path / "report.json"
    ran = run("tune", model, "--threads", "1", "--dry-run", "--json", written)
    assert ran.code == 0, ran.err
    assert "1 threads" in ran.out
    ran = run("tune", model, "--threads", "1", "--device", "android-arm64", "--dry-run")
    assert ran.code == 3
    assert "num-cores" in ran.problem


@pytest.mark.slow
def test_a_dry_run_shows_where_the_budget_would_go(
    run: Callable[..., Ran], model: Path, tmp_path: Path
) -> None:
    ran = run("tune", model, "--device", "local", "--budget", "30m", "--dry-run")
    assert ran.code == 0, ran.err
    for said in ("share", "GFLOP/s", "expected gain", "for 1800 s", "a dry run"):
        assert said in ran.out
    assert not list((tmp_path / "data").rglob("records.jsonl"))


@pytest.mark.slow
def test_a_model_is_tuned_on_this_machine(
    run: Callable[..., Ran], model: Path, tmp_path: Path
) -> None:
    written = tmp_path / "report.json"
    ran = run(
        *("tune", model, "--tuner", "autotvm", "--search", "random", "--trials", 3),
        *("--tuning-records", tmp_path / "records", "--json", written),
    )
    assert ran.code == 0, ran.err
    report = json.loads(written.read_text())
    assert report["trials"] <= 3
    records = read_records(tmp_path / "records")
    assert {record.hash for record in records} == {block["hash"] for block in report["blocks"]}
    compiled = run(
        "compile", model, "-o", tmp_path / "m.tar", "--tuning-records", tmp_path / "records"
    )
    assert compiled.code == 0, compiled.err
    assert "tuning records: " in compiled.out
