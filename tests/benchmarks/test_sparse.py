"""The benchmark of pruned layers: what is measured, kept and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.benchmarks.scripts import script

benchmark = script("sparse")

NAME = "dense 128x3072x768, block 8x"
OFF = {"sparse": 1e-7, "dense": 1e-7}
ROW = {"name": NAME, "ms": {"sparse": 1.0, "dense": 8.0}, "gain": 8.0, "difference": OFF}


def _measured(row: dict[str, Any], calls: list[str]) -> Any:
    def run(words: list[str], timeout: float, check: bool) -> Any:
        calls.append(words[2])
        folder = Path(words[words.index("--out") + 1])
        if row:
            benchmark.write_row(benchmark.file_of(folder, words[2]), {**row, "failures": {}})
        return type("Done", (), {"returncode": 0 if row else 3})

    return run


def test_a_row_is_a_file_and_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[str] = []
    words = [NAME, "--out", str(tmp_path), "--repeat", "3"]
    # A process that ended without a row is told, and tried again.
    monkeypatch.setattr(benchmark.subprocess, "run", _measured({}, calls))
    assert benchmark.main(words) == 1
    assert f"{NAME}: its process ended with 3" in capsys.readouterr().out
    monkeypatch.setattr(benchmark.subprocess, "run", _measured(ROW, calls))
    assert benchmark.main(words) == 0
    assert benchmark.main(words) == 0
    assert len(calls) == 2
    assert f"{NAME}: sparse 1.000 ms, dense 8.000 ms: 8.00x" in capsys.readouterr().out
    assert benchmark.main([*words[:-1], "4"]) == 0
    assert benchmark.main([*words[:-1], "4", "--again"]) == 0
    assert len(calls) == 4
    kept = json.loads((tmp_path / "dense-128x3072x768-block-8x.json").read_text())
    assert kept["options"]["repeat"] == 4


def test_a_wrong_number_of_ours_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {**ROW, "difference": {**OFF, "sparse": 1e-3}}
    monkeypatch.setattr(benchmark.subprocess, "run", _measured(row, []))
    assert benchmark.main([NAME, "--out", str(tmp_path)]) == 1
    assert "sparse computes something else" in capsys.readouterr().out


def test_unknown_names_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        benchmark.main(["vgg17"])
    assert "vgg17: expected some of" in capsys.readouterr().err


def test_a_model_is_pruned_by_columns_of_its_products() -> None:
    layer = benchmark.Layer((1, 32), (48, 32), 4)
    model = benchmark.model_of(layer, np.ones((48, 32), "float32"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones((32, 48), "float32"), "v"))
    model.graph.node.append(onnx.helper.make_node("MatMul", ["x", "v"], ["z"]))
    assert benchmark.prune_model(model, 4.0, True) == 0
    assert benchmark.prune_model(model, 4.0, False) == 2
    kept = [np.count_nonzero(numpy_helper.to_array(each)) for each in model.graph.initializer]
    assert kept == [48 * 8, 48 * 8]
