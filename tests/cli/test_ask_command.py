"""``fusionx ask``: the passage, the answer, and errors in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.apps.test_spans import _write_model, _write_tokenizer
from tests.cli.run_cli import Ran, runner


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.mark.slow
def test_the_answer_of_a_span_model(run: Callable[..., Ran], tmp_path: Path) -> None:
    model = _write_model(tmp_path / "spans.onnx")
    _write_tokenizer(tmp_path / "tokenizer.json")
    passage = tmp_path / "passage.txt"
    passage.write_text("they lost. red team won.\n")
    ran = run("ask", "who won", "--context", passage, "--span-model", model)
    assert ran.code == 0, ran.err
    shown, _, answer = ran.out.partition("\n\n")
    assert shown.strip() == "they lost. red team won."
    assert answer.startswith("red team  (")
    assert answer.strip().endswith(" ms)")


def test_a_passage_that_is_no_text_is_2(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("ask", "who won", "--context", tmp_path / "none.txt")
    assert ran.code == 2
    assert "expected a text file in UTF-8; found No such file or directory. " in ran.problem
    odd = tmp_path / "odd.txt"
    odd.write_bytes(b"\xff\xfe\x00")
    assert "expected a text file in UTF-8" in run("ask", "who won", "--context", odd).problem
    odd.write_bytes(b"GGUF\0")
    assert "found a byte of 0 at character 5" in run("ask", "who won", "--context", odd).problem
    odd.write_bytes(b"a" * ((1 << 20) + 1))
    assert "at most 1048576 bytes" in run("ask", "who won", "--context", odd).problem


def test_options_that_mean_nothing_together_are_2(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("ask", "who won", "--context", "passage.txt", "--tokenizer", "tokenizer.json")
    assert ran.code == 2
    assert "--tokenizer goes with --span-model" in ran.err
    ran = run("ask", "who won", "--context", "p", "--model", "m.gguf", "--span-model", "m.onnx")
    assert ran.code == 2
    assert "--model or --span-model answers, not both" in ran.err
