"""Features of the processor that are hidden from a process, its threads and its children."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.benchmarks.scripts import script

hidden = script("hidden_features")

# What NumPy found by asking the processor: in a thread of another process's child.
ASKS = """
import subprocess, sys, threading
ask = "import numpy; f = numpy._core._multiarray_umath.__cpu_features__;"
ask += "print(f['SSE42'], f['AVX512F'], f['AVX512_ICL'])"
thread = threading.Thread(target=lambda: subprocess.run([sys.executable, "-c", ask], check=True))
thread.start()
thread.join()
"""


def _needs_faults() -> None:
    problem = hidden.why_not()
    if problem is not None:
        pytest.skip(problem)


def test_wide_vectors_are_hidden_from_children(capfd: pytest.CaptureFixture[str]) -> None:
    _needs_faults()
    assert hidden.main([sys.executable, "-c", ASKS]) == 0
    assert capfd.readouterr().out == "True False False\n"


def test_a_fault_of_the_program_is_still_one(capfd: pytest.CaptureFixture[str]) -> None:
    _needs_faults()
    assert hidden.main([sys.executable, "-c", "import ctypes; ctypes.string_at(0)"]) == -11


def test_the_exit_code_is_the_commands() -> None:
    _needs_faults()
    assert hidden.main([sys.executable, "-c", "raise SystemExit(7)"]) == 7


def test_where_nothing_can_be_hidden_it_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(hidden, "FLAG", "no_such_flag")
    assert hidden.main(["true"]) == hidden.CANNOT
    assert "the processor's flags lack no_such_flag" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="no_such_flag"):
        hidden.environment(tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_a_command_it_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    assert hidden.main([]) == 2
    assert "hidden_features.py python" in capsys.readouterr().err
