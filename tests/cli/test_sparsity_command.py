from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run_cli import Ran, runner
from tests.tiny_models import perceptron, save


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


def test_layers_are_told_in_lines_and_as_json(run: Callable[..., Ran], tmp_path: Path) -> None:
    model, told = save(perceptron(), tmp_path), tmp_path / "s.json"
    ran = run("sparsity", model, "--target", "llvm -mcpu=znver4", "--json", told)
    assert ran.code == 0, ran.err
    layers = json.loads(told.read_text())["layers"]
    assert layers
    assert all("fewer than 25%" in layer["reason"] for layer in layers)
    assert f"0 of {len(layers)} products leave zeros out" in ran.out
    ran = run("sparsity", model, "--target", "llvm -mcpu=znver4", "--dry-run", "2", "--json", told)
    assert ran.code == 0, ran.err
    again = json.loads(told.read_text())["layers"]
    assert [layer["channels"] for layer in again] == [layer["channels"] for layer in layers]
    assert any(layer.get("density", 1) <= 0.6 for layer in again)


def test_a_rate_below_one_and_a_foreign_machine_are_refused(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    model = save(perceptron(), tmp_path)
    assert run("sparsity", model, "--dry-run", "0.5").code == 2
    ran = run("sparsity", model, "--target", "opencl", "--measure")
    assert ran.code == 2
    assert "a target that this machine runs" in ran.problem
