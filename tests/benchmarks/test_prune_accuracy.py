from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.scripts import script

PICTURES = Path("/usr/share/datasets/fashion-mnist")


def test_each_way_is_a_file_and_is_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    if not PICTURES.is_dir():
        pytest.skip("the Debian package dataset-fashion-mnist is not installed")
    accuracy = script("prune_accuracy")
    words = [str(tmp_path), "vgg", "--quick", "--ways", "block 8x", "--threads", "1"]
    assert accuracy.main(words) == 0
    told = capsys.readouterr().out
    assert "| vgg | block 8x | 87.5% |" in told
    folder = tmp_path / "quick" / "vgg"
    row = json.loads((folder / "block-8x-gradual.json").read_text())
    assert row["onnx_bytes"] == (folder / "block-8x-gradual.onnx").stat().st_size
    before = row["cpu_seconds"]
    assert accuracy.main(words) == 0
    assert json.loads((folder / "block-8x-gradual.json").read_text())["cpu_seconds"] == before
    assert torch.get_num_threads() == 1


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
