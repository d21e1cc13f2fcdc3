from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

from tests.frontend.small_models import model, value
from tvm_fusionx.cli import compile_command, explain_command, verify_command
from tvm_fusionx.cli.constants import Constants, as_words, bind, join_constants, without_bound


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        ("sr=16000", {"sr": 16000}),
        ("sr=16000 orig_im_size=[480,640]", {"sr": 16000, "orig_im_size": [480, 640]}),
        ("a=1.5, b=[[1, 2], [3, 4]] ,", {"a": 1.5, "b": [[1, 2], [3, 4]]}),
        ("flag=true other=false", {"flag": True, "other": False}),
        ("a/b:0 = -3", {"a/b:0": -3}),
        ("x=[]", {"x": []}),
    ],
)
def test_numbers_and_lists_are_read(text: str, constants: dict[str, Any]) -> None:
    assert Constants().convert(text, None, None) == constants


@pytest.mark.parametrize(
    "text",
    [
        *("sr", "sr=", "=3", "sr=fast", "size=[1,2", "sr=1 and", "a=1 b", "a=1 a=1"),
        pytest.param(f"a={'[' * 100_000}{']' * 100_000}", id="thousands of lists"),
    ],
)
def test_what_cannot_be_read_comes_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"write it like sr=16000"):
        Constants().convert(text, None, None)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["m", "--constants", "a=1", "b=[2]", "-o", "x=y"], ["m", "--constants", "a=1 b=[2]"]),
        (["--constants", "a=1", "m.onnx"], ["--constants", "a=1", "m.onnx"]),
        (["--constants=a=1", "b=2"], ["--constants=a=1 b=2"]),
        (["m=1", "--target", "t=2"], ["m=1", "--target", "t=2"]),
        (["--constants"], ["--constants"]),
    ],
)
def test_words_behind_the_flag_are_one_value(words: list[str], expected: list[str]) -> None:
    assert join_constants(words)[: len(expected)] == expected
    assert len(join_constants(words)) == len(expected) + 2 * ("-o" in words)


def _saved(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("Concat", ["nc", "size"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["r"]),
        helper.make_node("Mul", ["r", "factor"], ["y"]),
    ]
    inputs = [
        value("x", [2, 6]),
        value("size", [2], onnx.TensorProto.INT64),
        value("factor", []),
    ]
    path = tmp_path / "small.onnx"
    given = model(nodes, inputs, ["y"], {"nc": np.array([1])})
    given.graph.output[0].CopyFrom(value("y", None))
    onnx.save(given, path)
    return path


def test_a_model_is_bound_where_there_are_constants(tmp_path: Path) -> None:
    path = _saved(tmp_path)
    assert bind(path, {}) is path
    bound = bind(path, {"size": [3, 4]})
    assert bound.graph.name == "small"
    assert [info.name for info in bound.graph.input] == ["x", "factor"]
    assert without_bound({"x": 1, "size": 2}, {"size": [3, 4]}) == {"x": 1}


@pytest.mark.parametrize("words", [["--constants", "size=[3,4]", "factor=2"]])
def test_commands_take_the_flag(tmp_path: Path, words: list[str]) -> None:
    path = _saved(tmp_path)
    arrays = tmp_path / "in.npz"
    np.savez(
        arrays,
        x=np.ones((2, 6), "float32"),
        size=np.array([3, 4]),
        factor=np.float32(2),
    )
    runner = CliRunner()
    for command, more in (
        (explain_command.command, []),
        (verify_command.command, ["--inputs", str(arrays), "--target", "llvm"]),
        (compile_command.command, ["-o", str(tmp_path / "m.tar"), "--target", "llvm"]),
    ):
        done = runner.invoke(command, [str(path), *more, *words], standalone_mode=False)
        assert done.exception is None, done.exception
    assert (tmp_path / "m.tar").is_file()


def test_without_the_flag_the_message_names_it(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    inputs = [value("x", [6]), value("pads", [2], onnx.TensorProto.INT64)]
    made = model([helper.make_node("Pad", ["x", "pads"], ["y"])], inputs, ["y"])
    made.graph.output[0].CopyFrom(value("y", None))
    onnx.save(made, path)
    done = CliRunner().invoke(explain_command.command, [str(path)])
    assert "--constants pads=[N,N]" in str(done.exception)


def test_what_the_run_time_can_decide_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = CliRunner().invoke(explain_command.command, [str(_saved(tmp_path))])
    assert done.exception is None, done.exception
    assert "--constants size=[N,N]" in caplog.text


def test_the_flag_is_written_as_it_is_read() -> None:
    constants = {"sr": 16000, "size": [480, 640], "flag": True}
    words = as_words(constants)
    assert words == " --constants sr=16000 size=[480,640] flag=true"
    assert Constants().convert(words.split(" ", 2)[2], None, None) == constants
    assert as_words({}) == ""
