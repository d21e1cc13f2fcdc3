"""``fusionx generate``: text on standard output, times behind it, errors in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run_cli import Ran, runner
from tests.tiny_llama import Tiny, write_tiny
from tvm_fusionx.apps import kept_programs, programs
from tvm_fusionx.cli.generate_command import _tokens

pytest.importorskip("tokenizers")


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    monkeypatch.setenv(kept_programs.FOLDER_VARIABLE, str(tmp_path / "kept"))
    monkeypatch.setattr(
        programs.TextPrograms,
        "__init__",
        _with(programs.TextPrograms.__init__, chunks=(1,), buckets=(32,)),
    )
    return runner(capsys)


def _with(made: Callable[..., None], **more: object) -> Callable[..., None]:
    def init(self: object, *given: object, **named: object) -> None:
        made(self, *given, **named, **more)

    return init


def test_one_token_has_no_rate() -> None:
    assert _tokens(1, 0.0) == "1 token"
    assert _tokens(1, 98.04) == "1 token, 98.0 a second"
    assert _tokens(12, 50.0) == "12 tokens, 50.0 a second"


@pytest.mark.slow
def test_text_and_times(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny(path, tiny=Tiny(layers=1))
    first = run("generate", "once", "--model", path, "--max-tokens", "5", "--stats")
    assert first.code == 0, first.err
    assert first.out.startswith("once")
    for word in ("prompt", "first token", "text", "load", "threads"):
        assert f"\n{word}" in first.out
    assert "4 tokens" in first.out.partition("\nprompt")[2].partition("\n")[0]
    again = run("generate", "once", "--model", path, "--max-tokens", "5")
    assert again.code == 0
    assert again.out.strip() == first.out.partition("\nprompt")[0].strip()
    chat = run("generate", "once", "--model", path, "--max-tokens", "5", "--chat")
    assert chat.code == 0
    assert "once" not in chat.out
    long = run("generate", "zz " * 40, "--model", path)
    assert long.code == 2
    assert "at most 32 tokens" in long.problem


def test_what_cannot_be_is_2(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("generate", "once", "--model", tmp_path / "none.gguf")
    assert ran.code == 2
    assert "expected a GGUF file; found no such file" in ran.problem
    ran = run("generate", "once", "--temperature", "-1")
    assert ran.code == 2
    assert "temperature: expected a number from 0 on; found -1.0" in ran.problem


def test_what_no_compilation_helps_is_told_before_it(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny(path, tiny=Tiny(layers=1))
    ran = run("generate", "", "--model", path)
    assert ran.code == 2
    assert "prompt: expected at least one token; found none" in ran.problem
    ran = run("generate", "once", "--model", path, "--target", "llvm -mtriple=aarch64-linux-gnu")
    assert ran.code == 2
    assert "text model: expected a target that this machine runs" in ran.problem
    assert not list((tmp_path / "kept").glob("*/cache*"))
