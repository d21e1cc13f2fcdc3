from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from tests.cli.run_cli import Ran, runner
from tests.compress.quantize.small_networks import residual

SCRIPT = """
import torch

torch.manual_seed(0)
x = torch.randn(64, 8)
y = (x[:, 0] > 0).long()

def model():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))

def example():
    return (x[:2],)

def train_step(model, step):
    return torch.nn.functional.cross_entropy(model(x), y)

def evaluate(model):
    return float((model(x).argmax(1) == y).float().mean())

def latency_of_rate(sparsity):
    return 2 - sparsity
"""
CONFIG = {
    "global_config": {"structure": "block", "block_size": 4, "target_sparsity": 0.5},
    "weight_threshold": 0,
    "training": {"retrain_steps": 20, "learning_rate": 0.05},
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    onnx.save(residual(), tmp_path / "m.onnx")
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "c.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_a_script_is_trained_and_goes_on(run: Callable[..., Ran], files: Path) -> None:
    pytest.importorskip("torch")
    words = ["prune", files / "train.py", "--config", files / "c.json", "-o", files / "o.onnx"]
    ran = run(*words, "--json", files / "r.json")
    assert ran.code == 0, ran.err
    assert "2 of 2 layers pruned (one_shot): 50.00%" in ran.out
    assert ran.out.splitlines()[-1] == f"fusionx compile {files / 'o.onnx'}"
    told = json.loads((files / "r.json").read_text())
    assert told["score"] > told["dense_score"]
    assert (files / "o.onnx.checkpoint.pt").exists()
    again = run(*words, "--resume")
    assert again.code == 0
    assert again.out == ran.out


def test_an_onnx_file_is_cut_and_says_what_that_costs(run: Callable[..., Ran], files: Path) -> None:
    ran = run("prune", files / "m.onnx", "--config", files / "c.json", "-o", files / "o.onnx")
    assert ran.code == 0, ran.err
    assert "Nothing was trained: the model has lost accuracy." in ran.out
    told = json.loads((files / "o.onnx.report.json").read_text())
    assert told["sparsity"] == pytest.approx(0.5, abs=0.01)
    assert told["score"] is None


@pytest.mark.parametrize(
    ("source", "config", "words"),
    [
        ("train.txt", "{}", "another ending"),
        ("none.py", "{}", "no file"),
        ("none.onnx", "{}", "no such file"),
        ("train.py:task", "{}", "no function task"),
        ("m.onnx", '{"global_confg": {}}', "Did you mean 'global_config'"),
        ("m.onnx", "{}", "not to be pruned"),
    ],
)
def test_what_is_wrong_is_told(
    run: Callable[..., Ran], files: Path, source: str, config: str, words: str
) -> None:
    (files / "c.json").write_text(config)
    ran = run("prune", files / source, "--config", files / "c.json", "-o", files / "o.onnx")
    assert ran.code == 2
    assert words in ran.problem
