from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.scripts import script


def _result(name: str, gain: float, other: float | None = None) -> dict[str, Any]:
    return {
        "model": name,
        "threads": 2,
        "integers": "3/4",
        "latencies": {"ours int8": {"median": 1.0}, "ours float32": {"median": gain}},
        "gains": {"float32 / int8": gain, "best other / ours": other},
        "accuracy": {"ours int8": "0.010, 100%"},
        "failures": {},
    }


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the models that were measured, by an answer instead of a process."""
    bench, asked = script("int8"), []

    def answer(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
        asked.append(name)
        if name == "minilm":
            return {"model": name, "failed": "the tool cannot"}
        return _result(name, 0.5 if name == "unet" else 2.0, 1.5)

    monkeypatch.setattr(bench, "in_own_process", answer)
    return asked


def test_a_stopped_run_goes_on(
    tmp_path: Path, measured: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    bench, out = script("int8"), ["--out", str(tmp_path)]
    assert bench.main(["resnet18", "minilm", *out]) == 0
    assert [each["model"] for each in json.loads((tmp_path / "results.json").read_text())] == [
        "resnet18",
        "minilm",
    ]
    assert bench.main(["resnet18", "minilm", "vgg16", *out]) == 0
    assert measured == ["resnet18", "minilm", "vgg16"]
    told = capsys.readouterr()
    assert "| resnet18 | 1.00 | 2.00 |" in told.out
    assert "| 3/4 |" in told.out
    assert "no result: minilm" in told.out
    assert "minilm: the tool cannot" in told.err
    # With other options, and when asked to, all is measured; the rows of others stay.
    bench.main(["resnet18", "--repeat", "7", *out])
    bench.main(["resnet18", "--repeat", "7", "--again", *out])
    assert measured[3:] == ["resnet18", "resnet18"]
    stored = json.loads((tmp_path / "results.json").read_text())
    assert {each["model"]: each["options"]["repeat"] for each in stored} == {
        "resnet18": 7,
        "minilm": bench.DEFAULT_REPEAT,
        "vgg16": bench.DEFAULT_REPEAT,
    }


def test_slower_integers_are_an_error(
    tmp_path: Path, measured: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert script("int8").main(["resnet18", "unet", "--out", str(tmp_path)]) == 1
    assert "int8 is slower than float32: unet" in capsys.readouterr().out


def test_the_default_is_the_whole_zoo_and_others_are_refused(tmp_path: Path) -> None:
    bench = script("int8")
    assert sorted(bench.MODELS) == sorted(bench.zoo.names())
    with pytest.raises(SystemExit):
        bench.main(["resnet19", "--out", str(tmp_path)])


def test_a_process_that_ends_badly_is_told(tmp_path: Path) -> None:
    bench = script("int8")
    arguments = argparse.Namespace(out=tmp_path, repeat=3, seconds=1, ours=True, limit=0.01)
    assert "more than 0.01 seconds" in bench.in_own_process("resnet18", arguments)["failed"]


def test_runs_of_a_side_fit_the_time() -> None:
    runs = script("int8").runs_within
    assert runs(40, 100, 0.02) == 100
    assert runs(40, 100, 1.0) == 40
    # However long they take, a median of fewer says nothing.
    assert runs(40, 100, 30.0) == 10
    assert runs(40, 100, 0.0) == 100
