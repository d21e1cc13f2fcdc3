from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.cli.run_cli import Ran, runner
from tests.tiny_models import perceptron, save
from tvm_fusionx.zoo import catalog
from tvm_fusionx.zoo.recipe import Recipe


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.fixture
def tiny_zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Recipe]:
    model = save(perceptron(), tmp_path)
    row = Recipe(
        summary="a perceptron, 8x8",
        sample=lambda: {"x": np.ones((2, 8), np.float32)},
        write=lambda inputs, path, exporter: path.write_bytes(model.read_bytes()),
    )
    recipes = {"tiny": row}
    monkeypatch.setattr(catalog, "RECIPES", recipes)
    return recipes


def test_list_shows_every_model_with_what_it_is(run: Callable[..., Ran]) -> None:
    ran = run("zoo", "list")
    assert ran.code == 0
    shown = ran.out.split()
    assert all(name in shown for name in (*catalog.names(), *catalog.further_names()))
    assert "EfficientNet-B0" in ran.out


@pytest.mark.usefixtures("tiny_zoo")
def test_export_writes_the_model_and_its_inputs(run: Callable[..., Ran], tmp_path: Path) -> None:
    output, inputs = tmp_path / "m.onnx", tmp_path / "in.npz"
    ran = run("zoo", "export", "tiny", "-o", output, "--inputs", inputs)
    assert ran.code == 0, ran.err
    assert "a perceptron" in ran.out
    assert "x: float32 [2, 8]" in ran.out
    assert f"fusionx compile {output} --input-shapes 'x:[2,8]'\n" in ran.out
    assert output.stat().st_size > 0
    np.testing.assert_array_equal(np.load(inputs)["x"], np.ones((2, 8), np.float32))


@pytest.mark.usefixtures("tiny_zoo")
def test_without_output_the_file_bears_the_models_name(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("zoo", "export", "tiny").code == 0
    assert (tmp_path / "tiny.onnx").is_file()


def test_an_unknown_model_is_2_and_the_known_ones_are_named(run: Callable[..., Ran]) -> None:
    ran = run("zoo", "export", "nessie")
    assert ran.code == 2
    assert "nessie" in ran.problem
    assert "`fusionx zoo list`" in ran.problem
    assert "near resnet18" in run("zoo", "export", "resnet-18").problem


def test_a_file_that_cannot_be_written_is_2_before_any_work(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = run("zoo", "export", "minilm", "-o", tmp_path / "missing" / "m.onnx")
    assert ran.code == 2
    assert not (tmp_path / "missing").exists()
