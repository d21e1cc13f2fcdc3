from __future__ import annotations

import sys
import time

import pytest

from tvm_fusionx.cli import progress
from tvm_fusionx.cli.progress import Stages


def _show(seconds: float) -> None:
    with Stages("compiling") as stage:
        stage("building")
        time.sleep(seconds)


def _be_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    # In the test itself: capsys puts another stream in the place of the one at set-up.
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "REFRESH_SECONDS", 0.05)


def test_a_long_stage_is_named_with_the_time_while_it_lasts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _be_on_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.02)
    _show(0.5)
    assert "compiling: building 00:00" in capsys.readouterr().err


def test_what_is_short_is_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _be_on_a_terminal(monkeypatch)
    assert progress.QUIET_SECONDS == 2
    _show(0.2)
    assert capsys.readouterr().err == ""


def test_without_a_terminal_nothing_is_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0)
    _show(0.05)
    assert capsys.readouterr().err == ""
