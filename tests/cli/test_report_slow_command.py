from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run_cli import Ran, runner
from tests.tiny_models import perceptron, save
from tvm_fusionx.cli.report_slow_command import BELOW
from tvm_fusionx.report.profile.limits import SLOW
from tvm_fusionx.report.slow.slow_report import SlowBlock, SlowReport, write_slow_report


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


def test_the_default_is_that_of_the_profile() -> None:
    assert BELOW == SLOW


@pytest.mark.slow
def test_a_report_is_written_and_replayed(run: Callable[..., Ran], tmp_path: Path) -> None:
    report = tmp_path / "slow.json"
    # Of kernels this small even the fastest is slow enough for this.
    ran = run("report-slow", save(perceptron(), tmp_path), "-o", report, "--below", 1e6)
    assert ran.code == 0, ran.err
    assert f"{report}: 2 blocks under" in ran.out
    assert "nn.dense+add+nn.relu+nn.dense" in ran.out
    assert len(json.loads(report.read_text())["blocks"]) == 2
    ran = run("report-slow", report, "--replay")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("There: ")
    for line in (
        "\nHere: ",
        " of its limit ",
        "block 0: ",
        "block 1: ",
        "  there ",
        "  here  ",
        "  not ",
    ):
        assert line in ran.out


@pytest.mark.parametrize("options", [(), ("-o", "slow.json", "--replay")])
def test_it_is_either_written_or_replayed(
    options: tuple[str, ...], run: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = run("report-slow", tmp_path / "any", *options)
    assert ran.code == 2
    assert "Give either -o REPORT.json, or --replay" in ran.err


def test_a_damaged_report_is_one_sentence(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "slow.json"
    write_slow_report(SlowReport("llvm", "", 1, {}, {}, 0.3, (_damaged(),)), path)
    ran = run("report-slow", path, "--replay")
    assert ran.code == 2
    assert "the field 'op'" in ran.problem


def _damaged() -> SlowBlock:
    return SlowBlock({"calls": [{}]}, 1, 1.0, 0.1, "rows")
