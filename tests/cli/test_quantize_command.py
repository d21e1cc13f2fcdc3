from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.cli.run_cli import Ran, runner
from tests.compress.quantize.small_networks import operators, pictures, residual
from tvm_fusionx.cli import quantize_command
from tvm_fusionx.compress.quantize import ranges, weights_only
from tvm_fusionx.compress.quantize import runner as engines

METRIC = "def score(run):\n    return float(run({'x': X})[0].std())\n"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    onnx.save(residual(), tmp_path / "m.onnx")
    samples = np.concatenate([each["x"] for each in pictures()])
    np.savez(tmp_path / "c.npz", x=samples)
    return tmp_path


def _words(files: Path, *more: Any) -> list[Any]:
    return [
        *("quantize", files / "m.onnx", "--calibration", files / "c.npz"),
        *("-o", files / "q.onnx"),
        *more,
    ]


def test_a_model_a_table_and_a_journal(run: Callable[..., Ran], files: Path) -> None:
    words = ("--json", files / "r.json", "--picture", files / "p.svg")
    ran = run(*_words(files, *words))
    assert ran.code == 0, ran.err
    assert "6 of 6 layers in integers: costs" in (files / "p.svg").read_text()
    assert "6 of 6 layers in integers" in ran.out
    assert ran.out.splitlines()[-1] == f"fusionx compile {files / 'q.onnx'}"
    assert "QuantizeLinear" in operators(onnx.load(files / "q.onnx"))
    assert len(json.loads((files / "r.json").read_text())["layers"]) == 6
    journal = files / "q.onnx.journal.jsonl"
    assert len(journal.read_text().splitlines()) == 2
    again = run(*_words(files, "--resume"))
    assert again.code == 0
    assert len(journal.read_text().splitlines()) == 2


def test_a_function_of_the_users_judges(run: Callable[..., Ran], files: Path) -> None:
    (files / "v.py").write_text("import numpy as np\nX = np.ones((1, 8, 8, 8), 'f')\n" + METRIC)
    ran = run(*_words(files, "--validation", f"{files / 'v.py'}:score", "--max-drop", "1"))
    assert ran.code == 0, ran.err
    assert "score: float" in ran.out


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (None, "score", "no file"),
        ("X = 1", "score", "no function score"),
        ("1 / 0", "score", "ZeroDivisionError"),
    ],
)
def test_a_bad_function_is_told(
    run: Callable[..., Ran], files: Path, text: str | None, name: str, words: str
) -> None:
    if text is not None:
        (files / "v.py").write_text(text)
    ran = run(*_words(files, "--validation", f"{files / 'v.py'}:{name}"))
    assert ran.code == 2
    assert words in ran.problem


def test_weights_alone_need_no_calibration(run: Callable[..., Ran], files: Path) -> None:
    ran = run("quantize", files / "m.onnx", "--weights-only", "4", "-o", files / "q.onnx")
    assert ran.code == 0, ran.err
    assert operators(onnx.load(files / "q.onnx")).count("DequantizeLinear") == 1
    ran = run("quantize", files / "m.onnx", "-o", files / "q.onnx")
    assert ran.code == 2
    assert "Missing option '--calibration'" in ran.err


def test_bad_files_are_told(run: Callable[..., Ran], files: Path) -> None:
    assert (
        "no such file" in run(*_words(files)[:1], files / "none.onnx", *_words(files)[2:]).problem
    )
    words = ["quantize", files / "m.onnx", "--calibration", files / "none.npz"]
    assert "none.npz" in run(*words, "-o", files / "q.onnx").problem
    assert "output" in run(*words, "-o", files / "none" / "q.onnx").problem


def test_another_picture_is_refused(run: Callable[..., Ran], files: Path) -> None:
    ran = run(*_words(files, "--picture", files / "p.gif"))
    assert ran.code == 2
    assert "expected a name that ends in .svg" in ran.err
    words = ("--weights-only", "4", "--picture", files / "p.svg", "-o", files / "q.onnx")
    ran = run("quantize", files / "m.onnx", *words)
    assert ran.code == 2
    assert "--weights-only tries nothing" in ran.err


def test_choices_are_those_of_the_room() -> None:
    assert (ranges.AUTO, *ranges.METHODS) == quantize_command.METHODS
    assert quantize_command.ENGINES == engines.ENGINES
    assert tuple(map(str, weights_only.BITS)) == quantize_command.BITS
    assert tuple(map(str, weights_only.BLOCKS)) == quantize_command.BLOCKS
