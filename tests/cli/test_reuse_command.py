"""``fusionx reuse``: a file whose property `fusionx compile` follows; options that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.run_cli import Ran, runner
from tests.reuse_models import images, network
from tvm_fusionx.reuse.choice import ATTRIBUTE, choices_of_text


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    model, inputs = tmp_path / "model.onnx", tmp_path / "inputs.npz"
    onnx.save(network(), model)
    np.savez(inputs, x=np.stack([images(seed=seed) for seed in range(2)]))
    return model, inputs


def test_a_file_with_choices(
    run: Callable[..., Ran], files: tuple[Path, Path], tmp_path: Path
) -> None:
    model, inputs = files
    output, told = tmp_path / "out.onnx", tmp_path / "out.json"
    options = ("--calibration", inputs, "-o", output, "--json", told, "--max-drop", "1e9")
    ran = run("reuse", model, *options, "--least-gain", "0", "--max-error", "1e9", "--first")
    assert ran.code == 0, ran.err
    assert "4 of 4 layers reuse products" in ran.out
    (prop,) = onnx.load(output).metadata_props
    assert prop.key == ATTRIBUTE
    choices = choices_of_text(prop.value)
    assert {choice.representative for choice in choices.values()} == {"first"}
    layers = json.loads(told.read_text())["layers"]
    assert [row["name"] for row in layers] == ["conv1", "conv2", "fc", "fc2"]
    assert all(row["bits"] == choices[row["name"]].bits for row in layers)


def test_wrong_options_are_refused(
    run: Callable[..., Ran], files: tuple[Path, Path], tmp_path: Path
) -> None:
    model, inputs = files
    given = ("--calibration", inputs, "-o", tmp_path / "out.onnx")
    assert run("reuse", model, "-o", tmp_path / "out.onnx").code == 2
    assert run("reuse", model, *given, "--max-drop", "-1").code == 2
    ran = run("reuse", model, *given, "--target", "opencl")
    assert ran.code == 2
    assert "a CPU as the target" in ran.problem
    assert run("reuse", model, "--calibration", inputs, "-o", model).code == 2
    assert not (tmp_path / "out.onnx").exists()
