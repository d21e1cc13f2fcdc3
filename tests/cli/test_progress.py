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


def test_what_is_counted_is_shown_with_the_seconds_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _be_on_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.02)
    clock = iter(range(100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with Stages("compiling") as stage:
        for kernel in range(1, 6):
            stage(f"scheduling kernel {kernel} of 45")
        time.sleep(0.3)
    # A second a kernel, by that clock.
    shown = capsys.readouterr().err
    assert "compiling: scheduling kernel 5 of 45 00:00, 40 s left" in shown


def test_another_stage_is_not_judged_by_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    stage = Stages("benchmarking")
    told = ["scheduling 1 of 9", "scheduling 5 of 9", "timing: turn 6 of 9", "importing"]
    assert [stage._seconds_left(each) for each in told] == [None, 1.0, None, None]


def test_a_line_fits_into_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _be_on_a_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.02)
    with Stages(f"compiling {'very' * 20} long.onnx") as stage:
        stage("scheduling kernel 12 of 45")
        time.sleep(0.3)
    lines = capsys.readouterr().err.split("\r")
    assert any("long.onnx: scheduling kernel 12 of 45 00:00" in line for line in lines)
    assert all(len(line) < 80 for line in lines[1:])


def test_asked_to_say_more_stages_are_logged_and_no_line_is_drawn(
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _be_on_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.02)
    with caplog.at_level("INFO", "tvm_fusionx"), Stages("compiling") as stage:
        stage("importing")
        stage("scheduling kernel 1 of 9")
        time.sleep(0.2)
    assert caplog.messages == ["compiling: importing"]
    assert capsys.readouterr().err == ""
