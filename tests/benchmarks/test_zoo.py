from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.scripts import script

zoo = script("zoo")


def test_a_quick_run_is_small_models_and_runtimes_without_conversion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tvm_fusionx.report.bench import SIDES
    from tvm_fusionx.zoo import names

    monkeypatch.setattr(sys, "argv", ["zoo.py", "--quick"])
    quick = zoo._options()
    assert set(quick.models) < set(names())
    assert set(quick.sides) < set(SIDES)
    monkeypatch.setattr(sys, "argv", ["zoo.py"])
    full = zoo._options()
    assert full.models == names()
    assert full.sides == SIDES
    assert full.repeat > quick.repeat


def test_a_run_goes_on_where_a_side_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        started.append(command)
        return subprocess.CompletedProcess(command, 0)

    facts = {"device": "a machine"}
    monkeypatch.setattr(zoo, "RESULTS", tmp_path)
    monkeypatch.setattr(zoo, "facts_of_run", lambda *_: facts)
    monkeypatch.setattr(zoo.subprocess, "run", run)
    folder = zoo.folder_of("a machine", "2026-01-31", tmp_path)
    folder.mkdir(parents=True)
    done = {"latency_ms": {"fusionx": {}}, "errors": {"ort": "a message is an answer too"}}
    (folder / "minilm.json").write_text(json.dumps(done))
    words = ["zoo.py", "--missing", "--vs", "ort", "--date", "2026-01-31", "minilm", "gpt2"]
    monkeypatch.setattr(sys, "argv", words)
    assert zoo.main() == 0
    assert json.loads((folder / "run.json").read_text()) == facts
    models, pages = started[:-2], [Path(command[-1]).name for command in started[-2:]]
    assert [command[-1] for command in models] == ["gpt2"]
    assert models[0][models[0].index("--vs") + 1] == "ort"
    assert pages == ["readme_table.py", "results_page.py"]


def test_a_model_that_takes_too_long_counts_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], timeout: float, **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(zoo.subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["zoo.py", "--limit", "7", "gpt2"])
    assert zoo._measured_apart("gpt2", tmp_path, zoo._options())
    assert "gpt2: stopped after 7 s" in capsys.readouterr().out
