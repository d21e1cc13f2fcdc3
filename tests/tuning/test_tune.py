"""Tuning end to end on this machine: both tuners, the records, and going on after a stop."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.relay_modules import REASSOCIATING, assert_close, inputs_of
from tests.tuning.small_tasks import RESOLVED, small_model
from tvm_fusionx.build.fused_build import build_fused
from tvm_fusionx.errors import DeviceError, DeviceLostError, RecordError, TuningError
from tvm_fusionx.measuring.places import versions
from tvm_fusionx.records import Record, own_file, read_records, write_records
from tvm_fusionx.records.device import this_device
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import target_key
from tvm_fusionx.tuning import finals
from tvm_fusionx.tuning.finals import FOUND_EARLIER
from tvm_fusionx.tuning.journal import DRY_RUN
from tvm_fusionx.tuning.session import Session
from tvm_fusionx.tuning.task import TRACE, collect_tasks
from tvm_fusionx.tuning.tune import journal_path, tune

BRIEF: dict[str, Any] = {"workers": 0, "batch": 4, "rounds": 3, "finalists": 1, "trials": 6}


def _rows(root: Path) -> list[dict[str, Any]]:
    (file,) = (root / "journal").glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("tuner", ["metaschedule", "autotvm"])
def test_a_model_is_tuned_and_its_records_build_it(tmp_path: Path, tuner: str) -> None:
    stages = []
    mod = small_model()
    report = tune(
        mod,
        "local",
        records=tmp_path,
        tuner=tuner,
        watch=lambda stage, _: stages.append(stage),
        **BRIEF,
    )
    assert report.trials == BRIEF["trials"]
    assert len(report.tasks) == 2
    assert report.peak is not None
    assert "searching" in stages
    records = read_records(own_file(tmp_path))
    assert {record.hash for record in records} == {result.task.key for result in report.tasks}
    assert all(record.target == target_key(RESOLVED) for record in records)
    built = build_fused(mod, RESOLVED, records=tmp_path)
    inputs = inputs_of(mod)
    untuned = build_fused(mod, RESOLVED)
    assert_close(run_once(built.library, inputs), run_once(untuned.library, inputs), REASSOCIATING)


def _pretend_trials(session: Session) -> None:
    for progress in session.progresses.values():
        progress.trials = 1


SLOWER, FASTER = [(1.0,) * 3, (1.5,) * 3], [(1.5,) * 3, (1.0,) * 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "winners", "verdict"),
    [
        # Both blocks' winners, then that of the block which saves more.
        ([SLOWER, SLOWER], 0, "slower than untuned"),
        ([SLOWER, FASTER], 1, "records.jsonl"),
    ],
)
def test_winners_that_do_not_help_the_whole_model_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: Any, winners: int, verdict: str
) -> None:
    asked = iter(answers)
    outputs = [[np.ones(3, "float32")]] * 2
    monkeypatch.setattr(
        finals, "compare_kernels", lambda *_: [(2.0,) * 3] + [(1.0,) * 3] * (len(_[2]) - 1)
    )
    monkeypatch.setattr(finals, "compare_models", lambda *_: (next(asked), outputs))

    monkeypatch.setattr(Session, "search", _pretend_trials)
    monkeypatch.setattr(Session, "best_choices", lambda self, task: [task.space.choice(0)])
    report = tune(small_model(), "local", records=tmp_path, tuner="autotvm", **BRIEF)
    assert report.is_accepted is (winners > 0)
    assert verdict in report.verdict()
    defaults = {each.task.key: each.task.space.default for each in report.tasks}
    records = read_records(own_file(tmp_path))
    assert sum(record.knobs != defaults[record.hash] for record in records) == winners
    assert next(asked, None) is None


def _found_earlier(root: Path, tasks: list[Any]) -> list[Record]:
    """Write what an earlier session on this machine found for `tasks`: each one's first choice."""
    found = [
        Record(
            target_key(RESOLVED),
            task.key,
            task.template,
            task.space.choice(0),
            device=this_device(RESOLVED) or "",
            trials=4,
            versions=versions(),
        )
        for task in tasks
    ]
    write_records(root, found)
    return found


@pytest.mark.slow
def test_a_later_session_undoes_an_earlier_one_only_by_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mod = small_model()
    tasks = collect_tasks(build_fused(mod, RESOLVED), RESOLVED)
    found = _found_earlier(tmp_path, tasks)
    outputs = [[np.ones(3, "float32")]] * 2
    monkeypatch.setattr(sys.modules[tune.__module__], "measure_peak", lambda *_: None)
    monkeypatch.setattr(Session, "search", lambda self: None)

    def session(block: Any, whole: Any) -> tuple[Any, list[Any]]:
        monkeypatch.setattr(finals, "compare_kernels", block)
        monkeypatch.setattr(finals, "compare_models", whole)
        report = tune(mod, "local", records=tmp_path, tuner="autotvm", **BRIEF)
        records = read_records(own_file(tmp_path))
        return report, [(each.hash, each.knobs, each.trials) for each in records]

    def lost(bench: Any, task: Any = None, *_: Any) -> Any:
        if getattr(task, "key", None) == tasks[0].key:
            return [(2.0,) * 3, (1.0,) * 3]
        raise DeviceError("local", expected="an answer", found="none", next_step="x.")

    before = [(each.hash, each.knobs, 4) for each in found]
    # The first block's kernels are compared and the model with them is not; the second's are not.
    assert session(lost, lost)[1] == before
    # Nothing is tried, and what was found is still faster.
    report, kept = session(lambda *_: [(2.0,) * 3, (1.0,) * 3], lambda *_: (FASTER, outputs))
    assert (report.is_accepted, kept) == (True, before)
    assert {each.reason for each in report.tasks} == {FOUND_EARLIER}
    # As fast as the defaults now.
    _, undone = session(lambda *_: [(1.0,) * 3] * 2, lost)
    assert undone == [(task.key, task.space.default, 4) for task in tasks]


@pytest.mark.slow
def test_what_this_session_found_spoils_no_earlier_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the whole model is slower with all winners, the earlier ones are tried alone."""
    mod = small_model()
    first, second = collect_tasks(build_fused(mod, RESOLVED), RESOLVED)
    (found,) = _found_earlier(tmp_path, [second])
    answers = iter([SLOWER, FASTER])
    outputs = [[np.ones(3, "float32")]] * 2
    monkeypatch.setattr(sys.modules[tune.__module__], "measure_peak", lambda *_: None)
    # What saves more is new.
    monkeypatch.setattr(
        finals,
        "compare_kernels",
        lambda *_: [(9.0 if _[1].key == first.key else 2.0,) * 3, (1.0,) * 3],
    )
    monkeypatch.setattr(finals, "compare_models", lambda *_: (next(answers), outputs))
    monkeypatch.setattr(Session, "search", _pretend_trials)
    monkeypatch.setattr(
        Session,
        "best_choices",
        lambda self, task: [task.space.choice(0)] * (task.key == first.key),
    )
    report = tune(mod, "local", records=tmp_path, tuner="autotvm", **BRIEF)
    assert [each.is_better for each in report.tasks] == [False, True]
    chosen = {each.hash: each.knobs for each in read_records(own_file(tmp_path))}
    assert chosen == {first.key: first.space.default, second.key: found.knobs}


@pytest.mark.slow
@pytest.mark.parametrize("space", ["tvm", "both"])
def test_schedules_of_tvms_own_are_found_kept_and_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: str
) -> None:
    def won(bench: Any, task: Any, paths: Any, *_: Any) -> Any:
        return [(2.0,) * 3] + [(1.0,) * 3] * (len(paths) - 1)

    outputs = [[np.ones(3, "float32")]] * 2
    monkeypatch.setattr(finals, "compare_kernels", won)
    monkeypatch.setattr(finals, "compare_models", lambda *_: (FASTER, outputs))
    best = Session.best_choices
    monkeypatch.setattr(Session, "best_choices", lambda self, task: _traced(self, task, best))
    mod = small_model()
    options = BRIEF | {"trials": 16, "space": space}
    report = tune(mod, "local", records=tmp_path, **options)
    assert report.trials == 16
    tried = [row["knobs"] for row in _rows(tmp_path) if row.get("event") == "start"]
    assert any(TRACE in each for each in tried)
    assert any(TRACE not in each and each for each in tried)
    won_traces = [record for record in read_records(own_file(tmp_path)) if record.trace]
    assert won_traces
    assert {record.template for record in won_traces} == {"tvm"}
    built = build_fused(mod, RESOLVED, records=tmp_path)
    assert {
        entry.key: entry.fallback_reason for entry in built.log.entries if entry.template == "tvm"
    } == {record.hash: None for record in won_traces}
    inputs = inputs_of(mod)
    untuned = build_fused(mod, RESOLVED)
    assert_close(run_once(built.library, inputs), run_once(untuned.library, inputs), REASSOCIATING)


def _traced(session: Session, task: Any, best: Any) -> list[Any]:
    """Return a schedule of TVM's that ran, whatever it took; else what was best."""
    ran = [
        choice
        for _, choice, outcome in session.journal.outcomes(task.key)
        if TRACE in choice and outcome.failure is None
    ]
    return ran[:1] or best(session, task)


def test_tvms_space_is_for_processors(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="a CPU target"):
        tune(small_model(), "pocl", records=tmp_path, space="tvm")


@pytest.mark.slow
def test_a_stopped_session_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = BRIEF | {"records": tmp_path, "tuner": "autotvm", "algorithm": "random"}
    trials = 0

    def stop(stage: str, session: Any) -> None:
        nonlocal trials
        trials += bool(session and session.trials)
        if trials == 3:
            raise DeviceLostError("local", expected="an answer", found="none", next_step="x.")

    with pytest.raises(DeviceLostError):
        tune(small_model(), "local", watch=stop, **options)
    before = [row for row in _rows(tmp_path) if row.get("event") == "end"]
    report = tune(small_model(), "local", resume=True, **options)
    rows = _rows(tmp_path)
    ends = [row for row in rows if row.get("event") == "end"]
    assert ends[: len(before)] == before
    assert report.trials == BRIEF["trials"]
    started = [json.dumps([r["task"], r["knobs"]]) for r in rows if r.get("event") == "start"]
    assert len(started) == len(set(started))
    assert rows[-1]["event"] == "finish"


@pytest.mark.slow
def test_a_dry_run_times_and_writes_no_records(tmp_path: Path) -> None:
    report = tune(small_model(), "local", records=tmp_path, dry_run=True, **BRIEF)
    assert report.trials == 0
    assert all(result.default_seconds > 0 for result in report.tasks)
    assert not own_file(tmp_path).exists()
    (begun,) = [row for row in _rows(tmp_path) if row.get("event") == "session"]
    assert begun[DRY_RUN]


@pytest.mark.slow
def test_a_budget_too_small_is_said_to_be(tmp_path: Path) -> None:
    options = BRIEF | {"trials": None, "budget_seconds": 0.001}
    report = tune(small_model(), "local", records=tmp_path, **options)
    assert "the budget was spent" in report.verdict()


@pytest.mark.slow
def test_a_budget_that_is_left_is_not_called_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhaust(self: Session) -> None:
        for progress in self.progresses.values():
            progress.is_exhausted = True

    monkeypatch.setattr(Session, "search", exhaust)
    report = tune(small_model(), "local", records=tmp_path, **BRIEF)
    assert "no candidate was left to try" in report.verdict()


@pytest.mark.slow
def test_a_device_lost_at_the_end_leaves_a_session_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pretend(self: Session) -> None:
        for progress in self.progresses.values():
            progress.trials = 1

    def lose(*_: Any) -> Any:
        raise DeviceLostError("local", expected="an answer", found="none", next_step="x.")

    monkeypatch.setattr(Session, "search", pretend)
    monkeypatch.setattr(Session, "best_choices", lambda self, task: [task.space.choice(0)])
    monkeypatch.setattr(finals, "compare_kernels", lose)
    options = BRIEF | {"records": tmp_path, "tuner": "autotvm"}
    with pytest.raises(DeviceLostError):
        tune(small_model(), "local", **options)
    assert not own_file(tmp_path).exists()
    assert not [row for row in _rows(tmp_path) if row.get("event") == "finish"]
    monkeypatch.setattr(finals, "compare_kernels", lambda *_: [(1.0,) * 3] * len(_[2]))
    tune(small_model(), "local", resume=True, **options)
    events = [row.get("event") for row in _rows(tmp_path)]
    assert events.count("session") == 1
    assert events[-1] == "finish"


def test_this_machine_times_one_kernel_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="1 at a time"):
        tune(small_model(), "local", records=tmp_path, parallel=2)


def test_records_must_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="folder"):
        tune(small_model(), "local", records=tmp_path / "r.jsonl")


def test_devices_have_journals_of_their_own() -> None:
    assert journal_path(Path(), RESOLVED, "a") != journal_path(Path(), RESOLVED, "b")
