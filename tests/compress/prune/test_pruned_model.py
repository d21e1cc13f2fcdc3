from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx

from tests.compress.quantize.small_networks import residual
from tvm_fusionx.compress.prune.layouts import Layout
from tvm_fusionx.compress.prune.pruned_model import PrunedModel, layer_row, words_of
from tvm_fusionx.compress.prune.structures import Structure

BLOCK = Structure("block", 0.5, block_size=(4, 2))
DENSE = np.array([[3.0, 4.0], [0.5, 1.0]], "float32")


def _model() -> PrunedModel:
    cut = np.where(DENSE > 2, DENSE, 0)
    rows = (
        layer_row(Layout("a", "linear", (2, 2)), BLOCK, "", DENSE, cut),
        layer_row(Layout("b" * 50, "conv", (2, 2)), None, "depthwise", DENSE, DENSE),
    )
    scores = {"dense_score": 0.9, "cut_score": 0.5, "score": 0.875}
    return PrunedModel(residual(), rows, "admm", 7, **scores, notes=("A note.",))


def test_the_table_tells_all_there_is_to_know() -> None:
    lines = _model().text().splitlines()
    assert lines[1].split() == ["a", "linear", "block", "4x2", "50.0%", "2.00x", "0.952"]
    assert lines[2].startswith("…")
    assert lines[2].split()[-2:] == ["1.000", "depthwise"]
    assert lines[3] == "1 of 2 layers pruned (admm): 50.00% of their weights are zero, 2.00x"
    assert lines[4] == "score: dense 0.9, pruned 0.875, right after the cut 0.5 (seed 7)"
    assert lines[5] == "A note."


def test_files(tmp_path: Path) -> None:
    _model().save(tmp_path / "m.onnx")
    _model().save_report(tmp_path / "r.json")
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"))
    told = json.loads((tmp_path / "r.json").read_text())
    assert told["sparsity"] == told["layers"][0]["sparsity"] == 0.5
    assert told["seed"] == 7
    assert "model" not in told


def test_structures_in_words() -> None:
    assert words_of(BLOCK) == "block 4x2"
    assert words_of(Structure("n_m", 0.5, n_m_ratio=(2, 4))) == "n_m 2:4"
    assert words_of(Structure("pattern", 0.5, group_size=1)) == "pattern /1"
    assert words_of(Structure("filter", 0.5)) == "filter"
