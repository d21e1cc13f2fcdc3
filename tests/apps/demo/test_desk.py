"""A desk: one after the other, each told how many are before, and a stop stops its own job only."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tvm_fusionx.apps.demo.desk import MOST_WAITING, Desk, Event, Job, compiling
from tvm_fusionx.errors import InputError

# A test that hangs ends; nothing is ever asserted of how long something took.
SECONDS = 30


def _events(job: Job | None) -> list[Event]:
    assert job is not None
    found = [event for event in job.events() if event is not None]
    assert found[0] == {"event": "begin", "job": job.name}
    return found[1:]


def _counting(begun: threading.Event, go: threading.Event) -> Callable[[str, Job], Event]:
    """Return work that tells numbers until it is stopped, or may end."""

    def work(model: str, job: Job) -> Event:
        begun.set()
        number = 0
        while not job.is_stopped and not go.wait(0.01):
            number += 1
        return {"model": model, "counted": number}

    return work


def test_a_job_is_done_by_the_model_which_is_made_once() -> None:
    made: list[str] = []

    def make(say: Callable[[str], None]) -> str:
        say("compiling")
        made.append(threading.current_thread().name)
        return "model"

    desk = Desk(make)
    first = _events(desk.submit(lambda model, job: {"said": model}))
    assert first == [{"event": "stage", "text": "compiling"}, {"event": "end", "said": "model"}]
    assert _events(desk.submit(lambda model, job: {})) == [{"event": "end"}]
    assert made == ["desk"]


def test_two_people_at_once_and_a_stop_of_one() -> None:
    desk = Desk(lambda say: "model")
    begun, go = threading.Event(), threading.Event()
    first = desk.submit(_counting(begun, go))
    assert begun.wait(SECONDS)
    second = desk.submit(_counting(threading.Event(), go))
    third = desk.submit(_counting(threading.Event(), go))
    assert first is not None
    assert second is not None
    assert desk.stop(second.name)
    assert not first.is_stopped
    # At once, and not when its turn comes.
    assert _events(second) == [{"event": "waiting", "before": 1}, {"event": "stopped"}]
    go.set()
    assert _events(first)[-1]["event"] == "end"
    told = _events(third)
    assert [each["before"] for each in told if each["event"] == "waiting"] == [2, 1]
    assert told[-1]["event"] == "end"
    assert not desk.stop(first.name)
    assert not desk.stop("nobody's")


def test_the_one_that_runs_is_stopped() -> None:
    desk = Desk(lambda say: "model")
    begun = threading.Event()
    job = desk.submit(_counting(begun, threading.Event()))
    assert begun.wait(SECONDS)
    assert job is not None
    assert desk.stop(job.name)
    assert _events(job)[-1]["event"] == "stopped"


def test_a_reader_that_goes_away_stops_its_job() -> None:
    desk = Desk(lambda say: "model")
    begun = threading.Event()
    job = desk.submit(_counting(begun, threading.Event()))
    assert job is not None
    read = job.events(heartbeat=0.01)
    assert next(read) is not None
    assert begun.wait(SECONDS)
    # Nothing comes: the reader hears that the stream is alive.
    assert next(read) is None
    read.close()
    assert job.is_stopped


def test_a_full_line_takes_nobody_until_someone_leaves() -> None:
    desk = Desk(lambda say: "model")
    begun, go = threading.Event(), threading.Event()
    desk.submit(_counting(begun, go))
    assert begun.wait(SECONDS)
    waiting = [desk.submit(lambda model, job: {}) for _ in range(MOST_WAITING)]
    assert desk.submit(lambda model, job: {}) is None
    assert waiting[0] is not None
    waiting[0].stop()
    last = desk.submit(lambda model, job: {})
    go.set()
    assert _events(last)[-1] == {"event": "end"}


def test_errors_are_told_and_the_desk_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    tries: list[int] = []

    def make(say: Callable[[str], None]) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise InputError("model", expected="one", found="none", next_step="Give one.")
        return "model"

    def fail(model: Any, job: Job) -> Event:
        raise RuntimeError("secret of the server")

    desk = Desk(make)
    told = "model: expected one; found none. Give one."
    assert _events(desk.submit(fail)) == [{"event": "error", "text": told}]
    (error,) = _events(desk.submit(fail))
    assert error["event"] == "error"
    assert "secret" not in error["text"]
    assert "secret of the server" in caplog.text
    assert _events(desk.submit(lambda model, job: {}))[-1] == {"event": "end"}


def test_names_of_jobs_are_not_to_be_guessed() -> None:
    names = {Job().name for _ in range(100)}
    assert len(names) == 100
    assert min(map(len, names)) >= 20


def test_a_desk_that_closes_stops_all() -> None:
    desk = Desk(lambda say: "model")
    begun = threading.Event()
    first = desk.submit(_counting(begun, threading.Event()))
    assert begun.wait(SECONDS)
    second = desk.submit(_counting(threading.Event(), threading.Event()))
    assert desk.close(SECONDS)
    assert _events(first)[-1]["event"] == "stopped"
    assert _events(second)[-1]["event"] == "stopped"
    assert desk.submit(lambda model, job: {}) is None


def test_who_waits_for_another_to_compile_is_told() -> None:
    begun, go = threading.Event(), threading.Event()

    def compile_slowly(say: Callable[[str], None]) -> str:
        begun.set()
        assert go.wait(SECONDS)
        return "model"

    slow, other = Desk(compile_slowly), Desk(lambda say: "model")
    first = slow.submit(lambda model, job: {})
    assert begun.wait(SECONDS)
    second = other.submit(lambda model, job: {})
    assert second is not None
    events = second.events()
    told = [event for event in (next(events), next(events)) if event is not None]
    assert told[-1]["text"] == "waiting for another model, which is being compiled"
    go.set()
    assert _events(first)[-1] == {"event": "end"}
    assert [*events][-1] == {"event": "end"}


def test_who_compiles_may_compile_more() -> None:
    stages: list[str] = []
    with compiling(stages.append), compiling(stages.append):
        pass
    assert stages == []
