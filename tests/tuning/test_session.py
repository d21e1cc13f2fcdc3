"""The search with devices that only pretend: budget, journal, faults."""

from __future__ import annotations

import math
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.sampled import few_fast
from tests.tuning.small_tasks import (
    ChoiceBuilder,
    PretendedBench,
    made_up_task,
    relu_task,
    slowness,
)
from tvm_fusionx.errors import DeviceLostError, TuningError
from tvm_fusionx.tuning.bench import RUN_FAILED
from tvm_fusionx.tuning.build_candidates import INVALID
from tvm_fusionx.tuning.journal import Journal
from tvm_fusionx.tuning.outcome import DEVICE_LOST
from tvm_fusionx.tuning.peak import Peak
from tvm_fusionx.tuning.session import Session
from tvm_fusionx.tuning.settings import Settings
from tvm_fusionx.tuning.task import choice_key

GRID = Settings("autotvm", "grid", trials=30, batch=5)
DESCRIPTION = {"model": "m"}


def _journal(path: Path) -> Journal:
    journal = Journal(path / "journal.jsonl", "llvm", "cpu")
    if journal.resume_session(DESCRIPTION) is None:
        journal.begin_session(DESCRIPTION)
    return journal


def _session(
    path: Path,
    *benches: Any,
    settings: Settings = GRID,
    tasks: Any = None,
    builder: Any = None,
    **options: Any,
) -> Session:
    return Session(
        tasks or [made_up_task()],
        benches or [PretendedBench()],
        builder or ChoiceBuilder(),
        _journal(path),
        settings,
        **options,
    )


def _run(session: Session) -> Session:
    session.time_defaults()
    session.search()
    session.journal.close()
    return session


def test_a_peak_that_a_default_exceeds_is_raised_for_all_blocks(tmp_path: Path) -> None:
    # Measured while something else ran, it would leave no block anything to gain.
    session = _session(tmp_path, peak=Peak(1e3, 1e12), tasks=[made_up_task("a"), made_up_task("b")])
    session.time_defaults()
    session.journal.close()
    assert session.peak is not None
    assert session.peak.flops_per_second > 1e3
    for progress in session.progresses.values():
        assert progress.least_seconds == pytest.approx(progress.default_seconds)


def test_a_peak_that_a_default_exceeds_when_timed_again_is_raised(tmp_path: Path) -> None:
    times = iter([1.0, 0.5])
    bench = PretendedBench(lambda choice: next(times, 0.5))
    session = _run(_session(tmp_path, bench, peak=Peak(1.5e6, 1e12)))
    assert session.peak is not None
    assert session.peak.flops_per_second == pytest.approx(1e6 / 0.5)


def test_a_session_spends_its_trials_and_finds_the_best(tmp_path: Path) -> None:
    bench = PretendedBench()
    session = _run(_session(tmp_path, bench))
    assert session.trials == session.measured == 30
    task = made_up_task()
    best = session.best_choices(task)
    assert len(best) == GRID.finalists
    assert slowness(best[0]) <= slowness(best[1]) < slowness(task.space.default)


@pytest.mark.parametrize("tuner", few_fast(["autotvm", "metaschedule"], 1))
def test_both_tuners_find_what_is_fast(tmp_path: Path, tuner: str) -> None:
    session = _run(_session(tmp_path, settings=Settings(tuner, trials=40, seed=1)))
    (progress,) = session.progresses.values()
    assert progress.best_seconds < slowness(progress.task.space.default) / 3


def test_the_trials_go_where_the_time_is(tmp_path: Path) -> None:
    tasks = [made_up_task("rare"), made_up_task("frequent", count=9), relu_task()]
    session = _run(_session(tmp_path, tasks=tasks))
    trials = {key: progress.trials for key, progress in session.progresses.items()}
    assert trials["frequent"] > trials["rare"]
    assert trials[tasks[2].key] == 0


def test_a_time_budget_ends_the_search(tmp_path: Path) -> None:
    clock = iter(range(100000))
    settings = Settings("autotvm", "grid", budget_seconds=100.0)
    session = _run(_session(tmp_path, settings=settings, clock=lambda: float(next(clock))))
    assert 0 < session.trials < 256


def test_a_small_space_is_searched_whole_and_the_session_ends(tmp_path: Path) -> None:
    session = _run(_session(tmp_path, tasks=[made_up_task(sizes=(3, 2))]))
    assert session.trials == 5


@pytest.mark.slow
def test_several_devices_share_the_candidates(tmp_path: Path) -> None:
    benches = [PretendedBench(before=lambda _: time.sleep(0.005)) for _ in range(3)]
    session = _run(_session(tmp_path, *benches))
    ran = [choice_key(choice) for bench in benches for choice in bench.ran]
    assert session.trials == 30
    assert sum(bool(bench.ran) for bench in benches) == 3
    others = [key for key in ran if key != choice_key(made_up_task().space.default)]
    assert len(others) == len(set(others)) == 30


def test_invalid_candidates_cost_no_trial(tmp_path: Path) -> None:
    builder = ChoiceBuilder(lambda choice: INVALID if choice["knob_0"] % 2 == 0 else None)
    session = _run(_session(tmp_path, builder=builder))
    assert session.trials == session.measured == 30
    assert session.failures[INVALID] > 10


def test_nothing_measurable_is_an_error_with_the_first_cause(tmp_path: Path) -> None:
    default = made_up_task().space.default
    bench = PretendedBench(failures=lambda choice: None if choice == default else "wrong result")
    session = _session(tmp_path, bench)
    with pytest.raises(TuningError, match=r"k_0: wrong result: pretended"):
        _run(session)


def test_where_every_candidate_is_refused_the_refusal_is_the_cause(tmp_path: Path) -> None:
    default = made_up_task().space.default
    builder = ChoiceBuilder(lambda choice: None if choice == default else INVALID)
    with pytest.raises(TuningError, match=r"the first: block k_0: invalid"):
        _run(_session(tmp_path, builder=builder))


def test_what_took_the_device_is_not_tried_again_in_another_session(tmp_path: Path) -> None:
    def deadly(choice: Any) -> str | None:
        return DEVICE_LOST if choice["knob_1"] == 2 else None

    _run(_session(tmp_path, PretendedBench(failures=deadly)))
    with Journal(tmp_path / "journal.jsonl", "llvm", "cpu") as journal:
        journal.end_session() if journal.resume_session(DESCRIPTION) else None
    bench = PretendedBench()
    session = _session(tmp_path, bench)
    session.journal.begin_session({"model": "again"})
    _run(session)
    lost = {choice_key(c) for c in bench.ran if c["knob_1"] == 2}
    assert len(lost) < 8, "those of the first session are known"
    default = made_up_task().space.default
    tried = Counter(choice_key(choice) for choice in bench.ran if choice != default)
    assert max(tried.values()) == 1


def test_a_device_that_is_gone_leaves_every_trial_in_the_journal(tmp_path: Path) -> None:
    ran = 0

    def vanish(_: Any) -> None:
        nonlocal ran
        ran += 1
        # The default was timed twice.
        if ran == 13:
            raise DeviceLostError("phone", expected="an answer", found="none", next_step="x.")

    with pytest.raises(DeviceLostError):
        _run(_session(tmp_path, PretendedBench(before=vanish)))
    session = _session(tmp_path)
    assert len(session.journal.outcomes("k")) == 11
    session.journal.close()


def test_trials_of_every_block_count_when_a_session_goes_on(tmp_path: Path) -> None:
    def unplug(session: Session) -> None:
        if session.trials == 10:
            raise DeviceLostError("phone", expected="an answer", found="none", next_step="x.")

    rare, frequent = made_up_task("rare"), made_up_task("frequent", count=9)
    with pytest.raises(DeviceLostError):
        _run(_session(tmp_path, tasks=[rare], on_trial=unplug))
    # Another block is worth more now, and the first one's turn does not come.
    settings = Settings("autotvm", "grid", trials=12, batch=5)
    session = _run(_session(tmp_path, tasks=[rare, frequent], settings=settings))
    trials = {key: progress.trials for key, progress in session.progresses.items()}
    assert session.trials == sum(trials.values()) == settings.trials
    assert trials["frequent"] > 0


def test_transfer_starts_with_what_older_trials_promise(tmp_path: Path) -> None:
    """Counts the trials until a block is within a fifth of its best, with and without history."""

    def trials_needed(path: Path, key: str, transfer: bool) -> int:
        bench = PretendedBench()
        settings = Settings("autotvm", "random", trials=60, seed=2, transfer=transfer)
        session = _session(
            path, bench, settings=settings, tasks=[made_up_task(key, sizes=(16, 16, 16))]
        )
        session.journal.begin_session({"model": key})
        _run(session)
        taken = [slowness(choice) for choice in bench.ran]
        return next((n for n, each in enumerate(taken) if each <= 6e-3), len(taken))

    trials_needed(tmp_path, "old", True)
    with_history = trials_needed(tmp_path, "new", True)
    without = trials_needed(tmp_path, "plain", False)
    assert with_history < without / 2


def _tune_in_child(path: Path, ran: Path) -> None:
    def write_down(choice: Any) -> None:
        with ran.open("ab", buffering=0) as file:
            file.write(repr(choice_key(choice)).encode() + b"\n")
        time.sleep(0.002)

    settings = Settings("autotvm", "random", trials=60, batch=5)
    _run(_session(path, PretendedBench(before=write_down), settings=settings))
    os._exit(0)


def test_a_default_is_timed_however_often_the_tuner_was_ended_meanwhile(tmp_path: Path) -> None:
    task = made_up_task()
    for _ in range(3):
        journal = _journal(tmp_path)
        journal.start(task.key, task.template, task.space.default)
        journal.close()
    bench = PretendedBench()
    session = _run(_session(tmp_path, bench))
    assert bench.ran[0] == task.space.default
    assert math.isfinite(session.progresses[task.key].default_seconds)
    assert session.measured == GRID.most_trials


@pytest.mark.parametrize("kind", [DEVICE_LOST, RUN_FAILED])
@pytest.mark.parametrize("is_resumed", [True, False])
def test_a_default_that_failed_is_tried_once_in_each_process(
    tmp_path: Path, kind: str, is_resumed: bool
) -> None:
    for attempt in range(2):
        bench = PretendedBench(failures=lambda choice: kind)
        with pytest.raises(TuningError, match=f"1 {kind}"):
            _run(_session(tmp_path, bench))
        assert len(bench.ran) == 1, f"process {attempt}"
    session = _session(tmp_path)
    if not is_resumed:
        session.journal.begin_session({"model": "again"})
    _run(session)
    assert math.isfinite(session.progresses["k"].default_seconds)
    assert session.measured == GRID.most_trials


class _Unplugged(PretendedBench):
    """Loses its device in a trial; it comes back where it is said to."""

    def __init__(self, trial: int, comes_back: bool) -> None:
        super().__init__(failures=lambda _: DEVICE_LOST if len(self.ran) == trial else None)
        self.trial = trial
        self.comes_back = comes_back

    def expect(self) -> None:
        if len(self.ran) == self.trial and not self.comes_back:
            raise DeviceLostError("phone", expected="an answer", found="none", next_step="x.")


def test_what_took_a_device_that_comes_back_is_quarantined(tmp_path: Path) -> None:
    bench = _Unplugged(3, comes_back=True)
    _run(_session(tmp_path, bench))
    session = _session(tmp_path)
    known = session.journal.outcome("k", "dot", bench.ran[2])
    assert known is not None
    assert known.failure == DEVICE_LOST
    session.journal.close()


def test_what_ran_when_a_device_went_away_for_good_is_tried_once_more(tmp_path: Path) -> None:
    suspects = []
    for _ in range(2):
        # The default runs twice before.
        bench = _Unplugged(3, comes_back=False)
        session = _session(tmp_path, bench)
        with pytest.raises(DeviceLostError):
            _run(session)
        session.journal.close()
        suspects.append(bench.ran[-1])
    assert suspects[0] == suspects[1], "tried once more"
    bench = PretendedBench()
    session = _run(_session(tmp_path, bench))
    assert session.measured == GRID.most_trials
    assert suspects[0] not in bench.ran


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, RuntimeError])
def test_a_trial_in_which_the_tuner_was_stopped_is_tried_again(
    tmp_path: Path, stopped: type[BaseException]
) -> None:
    suspects = []
    for _ in range(3):

        def stop(choice: Any) -> None:
            if choice != made_up_task().space.default:
                suspects.append(choice)
                raise stopped

        session = _session(tmp_path, PretendedBench(before=stop))
        with pytest.raises(stopped):
            _run(session)
        session.journal.close()
    assert suspects == [suspects[0]] * 3
    bench = PretendedBench()
    _run(_session(tmp_path, bench))
    assert suspects[0] in bench.ran


@pytest.mark.slow
def test_killed_at_twenty_instants_nothing_is_lost_and_nothing_repeated(tmp_path: Path) -> None:
    generator = random.Random(5)
    fork = multiprocessing.get_context("fork")
    kills = 0
    seen: dict[Any, Any] = {}
    for _ in range(200):
        child = fork.Process(target=_tune_in_child, args=(tmp_path, tmp_path / "ran"))
        child.start()
        if kills < 20:
            time.sleep(generator.uniform(0.0, 0.06))
            if child.is_alive() and child.pid is not None:
                os.kill(child.pid, signal.SIGKILL)
        child.join(60)
        kills += child.exitcode == -signal.SIGKILL
        with _journal(tmp_path) as journal:
            now = {choice_key(choice): out for _, choice, out in journal.outcomes("k")}
        assert all(now.get(key) == outcome for key, outcome in seen.items()), "a trial was lost"
        seen = now
        if child.exitcode == 0:
            break
    assert kills == 20
    assert child.exitcode == 0
    # Every candidate that ended ran once; one that was cut short ran twice at most.
    ran = Counter((tmp_path / "ran").read_text().splitlines())
    default = repr(choice_key(made_up_task().space.default))
    repeated = {key: count for key, count in ran.items() if count > 1 and key != default}
    assert max(repeated.values(), default=2) == 2
    assert len(repeated) <= kills
    assert len([key for key in seen if math.isfinite(seen[key].least_seconds)]) >= 60
