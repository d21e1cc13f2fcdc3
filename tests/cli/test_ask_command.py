"""``fusionx ask``: the passage, the answer, and errors in one sentence."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.apps.tiny_spans import write_model, write_tokenizer
from tests.cli.run_cli import Ran, runner


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.mark.slow
def test_the_answer_of_a_span_model(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_FUSIONX_TEXT", str(tmp_path / "kept"))
    model = write_model(tmp_path / "spans.onnx")
    write_tokenizer(tmp_path / "tokenizer.json")
    passage = tmp_path / "passage.txt"
    passage.write_text("they lost. red team won.\n")
    ran = run("ask", "who won", "--context", passage, "--span-model", model)
    assert ran.code == 0, ran.err
    shown, _, answer = ran.out.partition("\n\n")
    assert shown.strip() == "they lost. red team won."
    assert answer.startswith("red team  (")
    assert answer.strip().endswith(" ms)")
    # The shortest length holds them, and is kept; the passage may come by standard input.
    (kept,) = (tmp_path / "kept").glob("*/*")
    assert kept.name == "tokens64"
    _give(monkeypatch, passage.read_bytes())
    again = run("ask", "who won", "--context", "-", "--span-model", model)
    assert again.code == 0, again.err
    assert again.out.partition("  (")[0] == ran.out.partition("  (")[0]


def _give(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Put bytes on standard input."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


WRONG = [
    (b"\xff\xfe\x00", "expected text in UTF-8"),
    (b"GGUF\0", "found a byte of 0 at character 5"),
    (b"a" * ((1 << 20) + 1), "expected at most 1048576 bytes; found more"),
    # The end of what is read lies within a character.
    (("\u20ac" * (1 << 19)).encode(), "expected at most 1048576 bytes; found more"),
    (b" \n", "passage: expected some text; found none"),
]


@pytest.mark.parametrize(("content", "problem"), WRONG)
def test_a_passage_that_is_no_text_is_2(
    run: Callable[..., Ran],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    problem: str,
) -> None:
    monkeypatch.setenv("TVM_FUSIONX_TEXT", str(tmp_path / "kept"))
    model = write_model(tmp_path / "spans.onnx")
    write_tokenizer(tmp_path / "tokenizer.json")
    odd = tmp_path / "odd.txt"
    odd.write_bytes(content)
    _give(monkeypatch, content)
    for passage in (odd, "-"):
        ran = run("ask", "who won", "--context", passage, "--span-model", model)
        assert ran.code == 2
        assert problem in ran.problem


def test_what_cannot_be_read_is_2(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run("ask", "who won", "--context", tmp_path / "none.txt")
    assert ran.code == 2
    assert "expected text in UTF-8; found No such file or directory. " in ran.problem
    assert "found Is a directory. " in run("ask", "who", "--context", tmp_path).problem
    monkeypatch.setattr("sys.stdin", None)
    ran = run("ask", "who won", "--context", "-")
    assert ran.code == 2
    assert "passage on standard input: expected text in UTF-8; found none: it is" in ran.problem


def test_a_pipe_is_read_no_further_than_a_file(run: Callable[..., Ran]) -> None:
    # Its size is told as 0, and it never ends.
    ran = run("ask", "who won", "--context", "/dev/zero")
    assert ran.code == 2
    assert "expected at most 1048576 bytes; found more" in ran.problem


def test_a_file_may_be_called_as_standard_input_is(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-").write_bytes(b"\0")
    _give(monkeypatch, b"\xff")
    assert "found a byte of 0" in run("ask", "who", "--context", "./-").problem
    assert "can't decode byte 0xff" in run("ask", "who", "--context", "-").problem


def test_options_that_mean_nothing_together_are_2(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("ask", "who won", "--context", "passage.txt", "--tokenizer", "tokenizer.json")
    assert ran.code == 2
    assert "--tokenizer goes with --span-model" in ran.err
    ran = run("ask", "who won", "--context", "p", "--model", "m.gguf", "--span-model", "m.onnx")
    assert ran.code == 2
    assert "--model or --span-model answers, not both" in ran.err
