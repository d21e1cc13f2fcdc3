from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.scripts import script

PICTURES = Path("/usr/share/datasets/fashion-mnist")


def test_each_way_is_a_row_and_is_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    if not PICTURES.is_dir():
        pytest.skip("the Debian package dataset-fashion-mnist is not installed")
    accuracy = script("prune_accuracy")
    results = tmp_path / "rows.json"
    words = [str(tmp_path), "vgg", "--quick", "--ways", "block 8x", "--threads", "1"]
    words += ["--results", str(results)]
    assert accuracy.main(words) == 0
    assert "| vgg | block 8x | 87.5% |" in capsys.readouterr().out
    dense, row = json.loads(results.read_text())
    assert (dense["way"], row["way"]) == ("dense", "block 8x")
    assert row["setting"]["prune_steps"] == accuracy.QUICK_STEPS
    assert row["onnx_bytes"] == next(tmp_path.rglob("block-8x-gradual.onnx")).stat().st_size
    # The file of rows alone decides: another machine has no networks.
    before = results.read_bytes()
    assert accuracy.main([str(tmp_path / "elsewhere"), *words[1:]]) == 0
    assert results.read_bytes() == before
    assert torch.get_num_threads() == 1
    assert accuracy.main(["--table", "--results", str(results)]) == 0
    assert "vgg: dense_steps 4, prune_steps 4, retrain_steps 2" in capsys.readouterr().out


def test_a_row_of_another_setting_stands_beside(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    accuracy, path = script("prune_accuracy"), tmp_path / "rows.json"
    row = {"family": "f", "way": "w", "method": "m", "setting": {"steps": 1}, "score": 0.5}
    for each in (row, {**row, "setting": {"steps": 2}}, {**row, "score": 0.6}):
        accuracy.keep(path, each)
    found = [(each["setting"]["steps"], each["score"]) for each in accuracy.read(path)]
    assert found == [(2, 0.5), (1, 0.6)]


@pytest.mark.parametrize("text", ["1,2", "1,2,x", "0,1,1"])
def test_steps_are_three_numbers(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    with pytest.raises(SystemExit):
        script("prune_accuracy").main(["folder", "vgg", "--steps", text])
    assert "expected" in capsys.readouterr().err


def test_drops_are_from_the_dense_network_that_was_trained_as_long() -> None:
    pytest.importorskip("torch")
    rows = [
        {"family": "f", "way": "dense", "score": 0.9, "sparsity": 0.0},
        {"family": "f", "way": "w", "score": 0.88, "sparsity": 0.875, "cut_score": 0.5},
    ]
    assert script("prune_accuracy").table(rows).splitlines()[2:] == [
        "| f | dense | 0.0% | 0.9000 | +0.0000 | - |",
        "| f | w | 87.5% | 0.8800 | +0.0200 | 0.5000 |",
    ]


def test_an_unknown_way_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    with pytest.raises(SystemExit):
        script("prune_accuracy").main(["folder", "vgg", "--ways", "block 9x"])
    assert "block 9x: expected some of" in capsys.readouterr().err
