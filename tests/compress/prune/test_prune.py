from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import tvm_fusionx as fx
from tests.compress.prune.small_modules import CLASSES, example, mixed, nn, perceptron, task
from tests.compress.quantize.small_networks import residual
from tvm_fusionx.compress.prune.batches import Batches
from tvm_fusionx.errors import InputError, ModelError, OutputFileError, RecordError

X, Y = task()
BATCHES = Batches(X, Y, size=32)
CONFIG: dict[str, Any] = {
    "global_config": {"structure": "block", "block_size": 4, "target_sparsity": 0.5},
    "weight_threshold": 0,
    "training": {"retrain_steps": 30, "learning_rate": 0.01},
}


def _train(module: Any, step: int) -> Any:
    x, y = BATCHES[step]
    return nn.functional.cross_entropy(module(x), y)


def _accuracy(module: Any) -> float:
    return float((module(X).argmax(1) == Y).float().mean())


def test_a_module_becomes_a_file_with_zeros_a_report_and_a_checkpoint(tmp_path: Path) -> None:
    module = perceptron()
    output = tmp_path / "m.onnx"
    given: dict[str, Any] = {"train": _train, "evaluate": _accuracy, "example": (X[:2],)}
    result = fx.compress.prune(module, config=CONFIG, output=output, **given)
    assert not any((each == 0).any() for each in module.parameters()), "the module was changed"
    arrays = [numpy_helper.to_array(t) for t in onnx.load(output).graph.initializer]
    matrices = {array.shape: array for array in arrays if array.ndim == 2}
    assert np.count_nonzero(matrices[32, 16]) == 32 * 16 // 2
    told = json.loads((tmp_path / "m.onnx.report.json").read_text())
    assert told["score"] == result.score == _accuracy(result.module)
    assert told["layers"][0]["structure"] == "block 4x1"
    assert result.text().splitlines()[-1].startswith("ONNX Runtime and torch are")
    # It goes on with the checkpoint, where that is this run's.
    stages: list[str] = []
    again = fx.compress.prune(
        module, config=CONFIG, output=output, resume=True, on_stage=stages.append, **given
    )
    assert stages == ["exporting"]
    assert again.layers == result.layers
    other = {**CONFIG, "weight_threshold": 1}
    with pytest.raises(RecordError, match="begin anew without resume"):
        fx.compress.prune(module, config=other, output=output, resume=True, **given)


@pytest.mark.parametrize(
    "structure",
    [
        {"structure": "pattern", "target_sparsity": 0.7, "group_size": 4},
        {"structure": "connectivity", "target_sparsity": 0.5, "group_size": 2},
        {"structure": "block", "target_sparsity": 0.5, "block_size": [1, 4]},
        {"structure": "n_m", "n_m_ratio": [2, 4]},
        {"structure": "filter", "target_sparsity": 0.25},
        {"target_sparsity": 0.9},
    ],
    ids=lambda words: words.get("structure", "unstructured"),
)
def test_every_structure_on_every_kind_of_layer_is_exported_right(structure: Any) -> None:
    config = {"global_config": structure, "weight_threshold": 0}
    result = fx.compress.prune(mixed(), config=config, example=example())
    pruned = [row for row in result.layers if row.structure]
    suited = {"pattern": 3, "connectivity": 3}.get(structure.get("structure"), 13)
    assert len(pruned) == suited
    assert all(row.zeros for row in pruned)
    assert all(row.reason for row in result.layers if not row.structure)


def test_the_rate_is_found_for_a_time() -> None:
    config = {**CONFIG, "budget": {"target_latency_ms": 4.0, "trials": 6}}
    result = fx.compress.prune(
        *(perceptron(),),
        config=config,
        train=_train,
        example=(X[:2],),
        latency_of_rate=lambda sparsity: 10 * (1 - sparsity),
    )
    assert result.sparsity_found is not None
    assert 0.6 <= result.sparsity_found < 0.65
    assert abs(result.sparsity - result.sparsity_found) < 0.05
    assert len(result.history) == 8


def test_the_rate_is_found_for_a_score(tmp_path: Path) -> None:
    config = {**CONFIG, "budget": {"target_accuracy": 0.5, "trials": 4}}
    given: dict[str, Any] = {"train": _train, "evaluate": _accuracy, "example": (X[:2],)}
    result = fx.compress.prune(perceptron(), config=config, output=tmp_path / "m.onnx", **given)
    assert result.score is not None
    assert result.score >= 0.5
    assert result.sparsity_found == max(s for s, score in result.history if score >= 0.5)
    assert len(list(tmp_path.glob("*.checkpoint.pt"))) == len(result.history)
    impossible = {**CONFIG, "budget": {"target_accuracy": 1.1, "trials": 1}}
    with pytest.raises(InputError, match="a score that a pruned model reaches"):
        fx.compress.prune(perceptron(), config=impossible, **given)


def _share_left(model: Any) -> float:
    arrays = [numpy_helper.to_array(t) for t in model.graph.initializer]
    weights = [array for array in arrays if array.ndim > 1]
    return sum(map(np.count_nonzero, weights)) / sum(array.size for array in weights)


def test_an_onnx_file_is_cut_without_training(tmp_path: Path) -> None:
    onnx.save(residual(), tmp_path / "m.onnx")
    table: dict[str, Any] = {"global_config": {"target_sparsity": 0.5}, "weight_threshold": 0}
    result = fx.compress.prune(
        tmp_path / "m.onnx", config=table, output=tmp_path / "p.onnx", evaluate=lambda _: 0.25
    )
    assert result.sparsity == pytest.approx(0.5, abs=0.01)
    assert result.score == 0.25
    assert result.seed is None
    assert (tmp_path / "p.onnx.report.json").exists()
    table["budget"] = {"target_accuracy": 0.3, "trials": 8}
    found = fx.compress.prune(residual(), config=table, evaluate=_share_left)
    assert found.sparsity_found == pytest.approx(0.7, abs=0.02)
    assert found.sparsity == pytest.approx(found.sparsity_found, abs=0.01)
    with pytest.raises(InputError, match="a torch module to train"):
        fx.compress.prune(residual(), config=table, train=_train)


@pytest.mark.parametrize(
    ("left_out", "more", "words"),
    [
        ("train", {}, "train: .*30 steps of training"),
        ("evaluate", {"budget": {"target_accuracy": 0.5}}, "evaluate: .*target_accuracy"),
        ("", {"budget": {"target_latency_ms": 5.0}}, "latency_of_rate: .*target_latency_ms"),
        ("example", {}, "example: .*the export"),
    ],
)
def test_a_function_that_is_missing_is_told(left_out: str, more: Any, words: str) -> None:
    given: dict[str, Any] = {"train": _train, "evaluate": _accuracy, "example": (X[:2],)}
    given.pop(left_out, None)
    with pytest.raises(InputError, match=words):
        fx.compress.prune(perceptron(), config={**CONFIG, **more}, **given)


def test_what_cannot_be_is_told_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(OutputFileError):
        fx.compress.prune(residual(), config=CONFIG, output=tmp_path / "none" / "m.onnx")
    dense = {"weight_threshold": 0}
    with pytest.raises(ModelError, match="not to be pruned"):
        fx.compress.prune(nn.Linear(3, CLASSES), config=dense, example=(X[:2, :3],))
    named = {"op_name_configs": {"1": None}}
    with pytest.raises(InputError, match="expected one of 0, 3"):
        fx.compress.prune(perceptron(), config=named, example=(X[:2],))
