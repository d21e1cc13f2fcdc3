"""C++ of ours, compiled on the user's machine."""

from __future__ import annotations

import logging
import sys

import pytest

from tvm_fusionx.compiled_sources import compile_sources
from tvm_fusionx.errors import MissingDependencyError

NEXT = "Install another compiler."


def _program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_what_compiles_says_nothing() -> None:
    compile_sources(_program("pass"), "the pool", NEXT)


def test_the_first_error_is_told_and_all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    said = r"import sys; sys.stderr.write('note\na.cc:1: error: x\nerror: y\n'); sys.exit(1)"
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(
            MissingDependencyError,
            match=r"^the pool: expected sources that compile; found a.cc:1: error: x. Install an",
        ),
    ):
        compile_sources(_program(said), "the pool", NEXT)
    assert "note\na.cc:1: error: x\nerror: y" in caplog.text


def test_a_silent_failure_has_its_exit_code() -> None:
    with pytest.raises(MissingDependencyError, match="found exit code 3"):
        compile_sources(_program("raise SystemExit(3)"), "the pool", NEXT)


def test_what_does_not_end_or_begin_is_told() -> None:
    with pytest.raises(MissingDependencyError, match="timed out"):
        compile_sources(_program("import time; time.sleep(60)"), "the pool", NEXT, seconds=0.1)
    with pytest.raises(MissingDependencyError, match="no-such-compiler"):
        compile_sources(["no-such-compiler"], "the pool", NEXT)
