"""Tuning through a tracker on an emulated Arm board, and what may happen to the two meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.devices.emulated_board import emulated_boards
from tests.tuning.small_tasks import small_model
from tvm_fusionx.build.fused_build import build_fused
from tvm_fusionx.devices.emulation import Emulation
from tvm_fusionx.errors import DeviceLostError
from tvm_fusionx.records import read_records
from tvm_fusionx.tuning.bench import Bench
from tvm_fusionx.tuning.outcome import DEVICE_LOST
from tvm_fusionx.tuning.tune import tune

pytestmark = pytest.mark.slow

BRIEF: dict[str, Any] = {"workers": 0, "batch": 3, "rounds": 1, "finalists": 1, "trials": 4}


def _rows(root: Path, event: str) -> list[dict[str, Any]]:
    (file,) = (root / "journal").glob("*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return [row for row in rows if row.get("event") == event]


def _after(trials: int, act: Callable[[Any], None]) -> Callable[[str, Any], None]:
    """Return a watcher that acts once, after so many trials."""
    done: list[bool] = []

    def watch(stage: str, session: Any) -> None:
        if session is not None and session.trials == trials and not done:
            done.append(True)
            act(session)

    return watch


def test_metaschedule_and_autotvm_tune_a_board(tmp_path: Path) -> None:
    with emulated_boards() as boards:
        device = boards.device
        for tuner in ("metaschedule", "autotvm"):
            report = tune(small_model(), device, records=tmp_path, tuner=tuner, **BRIEF)
            assert report.trials == BRIEF["trials"]
            assert report.target.startswith("llvm aarch64")
            assert not report.failures
    records = read_records(tmp_path)
    assert {record.hash for record in records} == {result.task.key for result in report.tasks}
    build = build_fused(small_model(), device.tvm_target(), records=tmp_path)
    assert {entry.key for entry in build.log.entries} == {record.hash for record in records}


def test_server_and_tracker_may_come_back(tmp_path: Path) -> None:
    def restart(boards: Emulation) -> Callable[[Any], None]:
        def act(session: Any) -> None:
            boards.stop_tracker()
            boards.servers[-1].kill()
            boards.servers[-1].wait()
            boards.start_tracker()
            boards.start_server()

        return act

    with emulated_boards() as boards:
        report = tune(
            small_model(),
            boards.device,
            records=tmp_path,
            tuner="autotvm",
            algorithm="random",
            watch=_after(2, restart(boards)),
            **BRIEF,
        )
    assert report.trials == BRIEF["trials"]
    assert not report.failures, "between two trials nothing is lost"


def test_a_board_that_dies_in_mid_trial_costs_that_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Bench.arguments
    killed: list[Any] = []

    with emulated_boards() as boards:

        def arguments(self: Bench, session: Any, task: Any, images: Any) -> Any:
            arrays = original(self, session, task, images)
            if _rows(tmp_path, "start") and len(_rows(tmp_path, "start")) == 4 and not killed:
                killed.append(task.key)
                boards.servers[-1].kill()
                boards.servers[-1].wait()
                boards.start_server()
            return arrays

        monkeypatch.setattr(Bench, "arguments", arguments)
        report = tune(
            small_model(),
            boards.device,
            records=tmp_path,
            tuner="autotvm",
            algorithm="random",
            **BRIEF,
        )
    assert killed
    assert dict(report.failures) == {DEVICE_LOST: 1}
    lost = [row for row in _rows(tmp_path, "end") if row.get("failure") == DEVICE_LOST]
    assert len(lost) == 1
    assert report.trials == BRIEF["trials"]


def test_a_board_that_is_gone_for_good_keeps_every_trial(tmp_path: Path) -> None:
    with emulated_boards() as boards:

        def unplug(session: Any) -> None:
            boards.servers[-1].kill()
            boards.servers[-1].wait()
            session.benches[0].back_off_seconds = (0.0, 0.2)

        with pytest.raises(DeviceLostError, match="--resume"):
            tune(
                small_model(),
                boards.device,
                records=tmp_path,
                tuner="autotvm",
                algorithm="random",
                watch=_after(2, unplug),
                **BRIEF,
            )
        ends = _rows(tmp_path, "end")
        boards.start_server()
        boards.wait_until_free()
        report = tune(
            small_model(),
            boards.device,
            records=tmp_path,
            tuner="autotvm",
            algorithm="random",
            resume=True,
            **BRIEF,
        )
    assert _rows(tmp_path, "end")[: len(ends)] == ends
    assert report.trials == BRIEF["trials"]
    started = [json.dumps([row["task"], row["knobs"]]) for row in _rows(tmp_path, "start")]
    assert len(started) == len(set(started))
