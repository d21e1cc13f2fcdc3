from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from tests.cli.run_cli import Ran, runner
from tvm_fusionx.fusion.device_costs import DeviceCosts
from tvm_fusionx.measuring import calibration, costs_path, setting_of

TARGET = "llvm -mcpu=native"


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    monkeypatch.setenv("TVM_FUSIONX_DATA", str(tmp_path / "data"))
    # One quick run of each program instead of many.
    monkeypatch.setattr(calibration, "ROUNDS", 1)
    return runner(capsys)


@pytest.mark.slow
def test_rates_are_measured_printed_and_kept(run: Callable[..., Ran], tmp_path: Path) -> None:
    written = tmp_path / "costs.json"
    ran = run("calibrate", "--json", written)
    assert ran.code == 0, ran.err
    kept = costs_path(setting_of(TARGET))
    assert str(kept) in ran.out
    costs = DeviceCosts.load(kept)
    assert json.loads(written.read_text()) == asdict(costs)
    for rate in fields(DeviceCosts):
        assert rate.name in ran.out
        assert getattr(costs, rate.name) > 0


def test_an_unknown_target_is_2(run: Callable[..., Ran]) -> None:
    ran = run("calibrate", "--target", "toaster")
    assert ran.code == 2
    assert "toaster" in ran.problem
