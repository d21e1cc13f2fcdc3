from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.benchmarks.scripts import script
from tests.compress.quantize.small_networks import pictures, residual


def test_each_way_has_a_row(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    accuracy = script("quantize_accuracy")
    onnx.save(residual(), tmp_path / "m.onnx")
    exact = [accuracy.runner(residual(), accuracy.ENGINE)(x)[0] for x in pictures()]
    metric = accuracy._top1([(x, y.argmax(1)) for x, y in zip(pictures(), exact, strict=True)])
    case = accuracy.Case("small", tmp_path / "m.onnx", pictures(), metric, metric)
    rows = list(accuracy.rows_of(case))
    assert len(rows) == 1 + len(accuracy.METHODS) + 2 + len(accuracy.ORT_METHODS)
    assert rows[0].score == 1
    guarded = next(row for row in rows if row.way == "ours guarded")
    assert guarded.score >= 1 - accuracy.MAX_DROP
    done = {row.way for row in rows} - {"ours auto"}
    assert [row.way for row in accuracy.rows_of(case, done=done)] == ["ours auto"]
    text = accuracy.table(rows)
    assert text.splitlines()[2] == "| float | 1.0000 |"
    assert "| ONNX Runtime entropy |" in text


def test_accuracy_is_the_share_of_right_rows() -> None:
    pytest.importorskip("torch")
    accuracy = script("quantize_accuracy")
    batches = accuracy._batches(np.zeros((60, 1)), np.array([0] * 50 + [1] * 10))
    assert [len(labels) for _, labels in batches] == [50, 10]
    rows = np.eye(2, dtype="float32")[[0]]
    assert accuracy._top1(batches)(lambda x: [rows.repeat(len(x["x"]), 0)]) == 50 / 60


def test_an_unknown_case_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    with pytest.raises(SystemExit):
        script("quantize_accuracy").main(["folder", "alexnet"])
    assert "expected some of fashion-resnet" in capsys.readouterr().err


def test_rows_that_are_there_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    accuracy = script("quantize_accuracy")
    onnx.save(residual(), tmp_path / "m.onnx")
    judged: list[int] = []

    def judge(_: object) -> float:
        judged.append(1)
        return 0.5

    case = accuracy.Case("small", tmp_path / "m.onnx", pictures(), judge, judge)
    ways = {way: lambda: (residual(), "1/2") for way in ("float", "ours auto")}
    monkeypatch.setattr(accuracy, "ways_of", lambda case, tools: ways)
    monkeypatch.setitem(accuracy.CASES, "small", lambda folder: case)
    out = tmp_path / "rows.json"
    for way in (["--way", "float"], [], []):
        assert accuracy.main([str(tmp_path), "small", "--out", str(out), *way]) == 0
        assert len(judged) == 2 - len(way) // 2
    assert len(judged) == 2
    assert [row.way for row in accuracy.known(out)] == ["float", "ours auto"]


def test_a_tool_that_fails_is_told(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    accuracy = script("quantize_accuracy")
    case = accuracy.Case("small", tmp_path / "none.onnx", pictures(), len, len)
    python = Path(accuracy.sys.executable)
    with pytest.raises(SystemExit, match="NNCF failed on small"):
        accuracy.by_tool("NNCF", case, python, tmp_path)


def test_another_tool_that_fails_has_a_row_and_ours_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    accuracy = script("quantize_accuracy")
    onnx.save(residual(), tmp_path / "m.onnx")
    case = accuracy.Case("small", tmp_path / "m.onnx", pictures(), lambda _: 1.0, lambda _: 1.0)

    def fail(*_: object, **__: object) -> None:
        raise ValueError("too many bins")

    monkeypatch.setattr(accuracy, "by_onnx_runtime", fail)
    monkeypatch.setattr(accuracy.fx, "quantize", fail)
    (row,) = accuracy.rows_of(case, wanted=["ONNX Runtime entropy"])
    assert (row.score, row.failed) == (None, "ValueError: too many bins")
    assert accuracy.table([row]).splitlines()[2] == "| ONNX Runtime entropy | fails |"
    with pytest.raises(ValueError, match="too many bins"):
        list(accuracy.rows_of(case, wanted=["ours minmax"]))
