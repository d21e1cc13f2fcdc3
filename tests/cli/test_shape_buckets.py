from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import onnx
import pytest

from tests.cli.run_cli import Ran, runner
from tests.tiny_models import FEATURES, HIDDEN, perceptron
from tvm_fusionx.cli.shape_buckets import ShapeBuckets


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("x:[1,3]", [{"x": (1, 3)}]),
        ("x:[1,8|16]", [{"x": (1, 8)}, {"x": (1, 16)}]),
        ("x:[1,8|16] m:[1, 8 | 16]", [{"x": (1, n), "m": (1, n)} for n in (8, 16)]),
        ("x:[1|4,8|16]", [{"x": (b, n)} for b in (1, 4) for n in (8, 16)]),
        ("x:[8|16,8|16]", [{"x": (8, 8)}, {"x": (16, 16)}]),
    ],
)
def test_equal_lists_grow_together_and_others_are_combined(
    text: str, shapes: list[dict[str, tuple[int, ...]]]
) -> None:
    assert ShapeBuckets().convert(text, None, None) == shapes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x:[1,8|8]", "names an extent twice"),
        ("x:[1,8|]", "not a list of whole numbers"),
        ("x:[a|1]", "not a list of whole numbers"),
        ("x:[1|99999999999999999999999]", "whole numbers up to 2147483647"),
        pytest.param(f"x:[1|{'9' * 5000}]", "whole numbers up to", id="thousands of digits"),
        ("a:[1|2|3|4|5] b:[1|2|3|4] c:[1|2|3|4|6]", "100 programs"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, message: str) -> None:
    with pytest.raises(click.BadParameter, match=message):
        ShapeBuckets().convert(text, None, None)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


def test_one_file_runs_inputs_of_several_sizes(run: Callable[..., Ran], tmp_path: Path) -> None:
    model, library = tmp_path / "model.onnx", tmp_path / "lib.tar"
    onnx.save(perceptron("batch"), str(model))
    made = run(
        "compile",
        model,
        "-o",
        library,
        "--input-shapes",
        f"x:[2|4,{FEATURES}]",
        "--dump-code",
        "ll",
    )
    assert made.code == 0, made.err
    assert [line.split(", ")[-1] for line in made.out.splitlines()] == ["x:[2,16]", "x:[4,16]"]
    assert (tmp_path / "lib.tar.program1.ll").is_file()
    inputs, outputs = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(inputs, x=np.ones((3, FEATURES), "float32"))
    ran = run("run", library, "--inputs", inputs, "--outputs", outputs)
    assert ran.code == 0, ran.err
    assert "program 2 of 2: x:[4,16]; zeros fill axis 0 of x from 3" in ran.err
    with np.load(outputs) as written:
        assert written["output_0"].shape == (3, HIDDEN)
    shown = run("run", library, "--inputs", inputs)
    assert f"output_0:[3,{HIDDEN}] float32" in shown.out
    np.savez(inputs, x=np.ones((5, FEATURES), "float32"))
    refused = run("run", library, "--inputs", inputs)
    assert refused.code == 2
    assert "at most 4 along axis 0" in refused.problem
