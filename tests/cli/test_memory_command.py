from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from tests.bundle.small_bundles import need
from tests.cli.run_cli import Ran, runner
from tests.data_models import suppressing
from tests.tiny_models import FEATURES, ROWS, perceptron, save


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


def test_memory_is_told_in_lines_as_json_and_as_a_picture(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    model = save(perceptron(), tmp_path)
    told, picture = tmp_path / "m.json", tmp_path / "m.svg"
    need("gcc")
    ran = run("memory", model, "--json", told, "--picture", picture, "--run")
    assert ran.code == 0, ran.err
    memory = json.loads(told.read_text())
    assert memory["inputs_bytes"] == ROWS * FEATURES * 4
    assert memory["arena_bytes"] >= memory["arena_bound_bytes"] > 0
    assert memory["arena_bytes"] - 64 < memory["written_arena_bytes"] <= memory["arena_bytes"]
    assert f"a run wrote {memory['written_arena_bytes']} bytes" in ran.out
    assert memory["peak_kernel"] in ran.out
    assert str(memory["total_bytes"]) in ran.out
    assert picture.read_text().startswith("<svg")


def test_another_picture_is_refused_before_anything_is_built(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = run("memory", save(perceptron(), tmp_path), "--picture", tmp_path / "m.gif")
    assert ran.code == 2
    assert "expected a name that ends in .svg" in ran.err


def test_a_model_of_the_machine_is_told_in_parts(run: Callable[..., Ran], tmp_path: Path) -> None:
    model, told, picture = tmp_path / "nms.onnx", tmp_path / "m.json", tmp_path / "m.svg"
    onnx.save(suppressing(), model)
    ran = run("memory", model, "--json", told, "--picture", picture)
    assert ran.code == 0, ran.err
    assert "of node 'nms'" in ran.out.splitlines()[0]
    memory = json.loads(told.read_text())
    assert "of node 'nms'" in memory["virtual_machine"]
    assert memory["parts"][0]["name"] == "main_static_0"
    assert picture.read_text().startswith("<svg")
    ran = run("compile", model, "--memory-limit", "1GiB", "-o", tmp_path / "nms.tar")
    assert ran.code == 2
    assert "of node 'nms'" in ran.err
    assert "Ask 'fusionx memory MODEL'" in ran.err
