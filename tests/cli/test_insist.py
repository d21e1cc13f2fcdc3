from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tvm_fusionx.cli import insist
from tvm_fusionx.cli.insist import INTERRUPTED, WAITING, insistent

ROOT = Path(__file__).resolve().parents[2]

# A command that writes a file and works in compiled code, where no signal is looked at. Python
# looks between two of its own steps: between the word and the work, both called by `map`, is none.
COMMAND = """
import functools, hashlib, os, tempfile
import click
from tvm_fusionx.cli import doctor_command, entry
from tvm_fusionx.output_file import new_file

@click.command("doctor")
def command():
    with tempfile.TemporaryDirectory(), new_file("result") as scratch:
        scratch.write_text("half")
        say = functools.partial(os.write, 1, b"begun\\n")
        work = functools.partial(hashlib.pbkdf2_hmac, "sha256", b"word", b"salt", 1 << 30)
        list(map(functools.partial.__call__, [say, work]))

doctor_command.command = command
entry.main(["doctor"])
"""


def _begin(folder: Path) -> subprocess.Popen[str]:
    (folder / "tmp").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def test_a_second_one_ends_what_does_not_stop_and_leaves_nothing(tmp_path: Path) -> None:
    process = _begin(tmp_path)
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    try:
        assert process.stderr.readline() == f"{WAITING}\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
    finally:
        process.kill()
    assert process.stderr.read() == f"{INTERRUPTED}\n"
    assert [path.name for path in tmp_path.rglob("*")] == ["tmp"]


@pytest.fixture(name="said")
def fixture_said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is said; nothing ends, and patience is short."""
    said: list[str] = []
    monkeypatch.setattr(insist, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(insist, "_end", lambda: said.append("ends"))
    monkeypatch.setattr(insist, "print", lambda text, **how: said.append(text), raising=False)
    return said


def _interrupted_in_scope(seconds: float, times: int) -> None:
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        with insistent():
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            time.sleep(seconds)
    finally:
        signal.signal(signal.SIGINT, before)


def test_one_that_is_obeyed_is_not_spoken_of(said: list[str]) -> None:
    _interrupted_in_scope(0, 1)
    with insistent():
        pass
    assert said == []


def test_two_at_once_are_one(said: list[str]) -> None:
    _interrupted_in_scope(0.5, 2)
    assert said == [WAITING]


def test_in_another_thread_nothing_is_watched() -> None:
    before = threading.active_count()
    seen = []

    def work() -> None:
        with insistent():
            seen.append(threading.active_count())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before + 1]
