from __future__ import annotations

import os
import threading

import pytest

from tvm_fusionx.errors import InputError
from tvm_fusionx.report.bench import timing
from tvm_fusionx.report.bench.timing import (
    Latency,
    check_repeat,
    describe_failure,
    threads_apart,
    time_interleaved,
)
from tvm_fusionx.threads import usable_cores


@pytest.fixture(autouse=True)
def _no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SETTLE_SECONDS", 0)


def test_every_side_is_timed_as_often_as_asked() -> None:
    latencies, failures = time_interleaved({"a": lambda: None, "b": lambda: None}, repeat=12)
    assert {name: latency.n for name, latency in latencies.items()} == {"a": 12, "b": 12}
    assert failures == {}


def _turns(names: str, turns: int) -> list[str]:
    """Return the order of the sides in each of at least ten turns."""
    order: list[str] = []
    sides = {name: (lambda name=name: order.append(name)) for name in names}
    time_interleaved(sides, repeat=turns * timing.RUNS_A_TURN)
    # An untimed run precedes the timed ones of each turn.
    in_a_row = timing.RUNS_A_TURN + 1
    assert all(len(set(order[i : i + in_a_row])) == 1 for i in range(0, len(order), in_a_row))
    firsts = order[::in_a_row]
    return ["".join(firsts[i : i + len(names)]) for i in range(0, len(firsts), len(names))]


@pytest.mark.parametrize("names", ["ab", "abcde"])
def test_the_sides_take_turns_each_followed_by_its_reverse(names: str) -> None:
    turns = _turns(names, 12)
    assert len(turns) == 12
    assert all(sorted(turn) == list(names) for turn in turns)
    assert turns[1::2] == [turn[::-1] for turn in turns[::2]]


def test_a_side_follows_different_neighbours() -> None:
    turns = _turns("abcde", 20)
    before_a = {turn[turn.index("a") - 1] for turn in turns if turn[0] != "a"}
    assert before_a == set("bcde")
    assert turns == _turns("abcde", 20)


def test_a_side_that_fails_midway_has_a_message_and_no_latency() -> None:
    runs = iter(range(3))

    def fails() -> None:
        if next(runs, None) is None:
            raise RuntimeError("lost\nthe device is gone\n")

    latencies, failures = time_interleaved({"a": lambda: None, "bad": fails}, repeat=10)
    assert set(latencies) == {"a"}
    assert failures == {"bad": "RuntimeError: the device is gone"}


def test_what_takes_a_turn_may_be_given() -> None:
    asked: list[tuple[str, int]] = []

    def take_turn(side: str, runs: int) -> list[float]:
        asked.append((side, runs))
        return [2e-3] * runs

    latencies, _ = time_interleaved({"a": "first", "b": "second"}, 52, take_turn=take_turn)
    one, other = asked[0][0], asked[1][0]
    assert {one, other} == {"first", "second"}
    assert asked[:4] == [(one, 5), (other, 5), (other, 5), (one, 5)]
    assert asked[-2:] == [(one, 2), (other, 2)]
    assert {name: (each.median, each.n) for name, each in latencies.items()} == {
        "a": (2.0, 52),
        "b": (2.0, 52),
    }


@pytest.mark.parametrize(("repeat", "turns"), [(7, 7), (12, 6), (20, 10), (50, 10), (60, 12)])
def test_few_runs_are_spread_over_many_turns(repeat: int, turns: int) -> None:
    latencies, _ = time_interleaved({"a": lambda: None, "b": lambda: None}, repeat)
    assert {(each.n, len(each.turns)) for each in latencies.values()} == {(repeat, turns)}


@pytest.mark.parametrize(("seconds", "runs"), [(0.4, 20), (0.6, 10)])
def test_the_first_run_of_a_turn_counts_where_caches_do_not(
    seconds: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, ran = [0.0], [0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def run() -> None:
        ran[0] += 1
        now[0] += seconds

    latencies, _ = time_interleaved({"a": run}, repeat=10)
    assert (ran[0], latencies["a"].n) == (runs, 10)
    assert latencies["a"].median == pytest.approx(seconds * 1e3)


def test_each_turn_tells_the_median_of_its_runs() -> None:
    taken = iter([1.0, 5.0, 2.0, 4.0])
    latencies, _ = time_interleaved(
        {"a": None}, 12, take_turn=lambda _, runs: [next(taken, 3.0) * 1e-3 for _ in range(runs)]
    )
    assert latencies["a"].turns == pytest.approx((3, 3, 3, 3, 3, 3))
    assert latencies["a"].median == pytest.approx(3)


@pytest.mark.parametrize("pause", [0.0, 100.0])
def test_a_short_run_goes_on_in_whole_turns_for_the_least_time_without_pauses(
    pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    def take_turn(_: str, runs: int) -> list[float]:
        pass_by(1.0)
        return [1.0] * runs

    latencies, _ = time_interleaved(
        {"a": "first", "b": "second"}, 15, lambda: pass_by(pause), take_turn, least_seconds=19.0
    )
    # Two seconds a turn: 7 turns of 2 runs and one of 1, and two turns more of 2.
    assert {name: latency.n for name, latency in latencies.items()} == {"a": 19, "b": 19}


def test_no_time_is_waited_for_where_every_side_has_failed() -> None:
    def fails() -> None:
        raise RuntimeError("the device is gone")

    latencies, failures = time_interleaved({"bad": fails}, repeat=5, least_seconds=3600)
    assert not latencies
    assert set(failures) == {"bad"}


def test_the_statistics_are_in_milliseconds() -> None:
    latency = Latency.of([0.001 * (i + 1) for i in range(11)])
    assert (latency.median, latency.p10, latency.p90, latency.n) == pytest.approx((6, 2, 10, 11))
    assert set(latency.to_json()) == {"median", "p10", "p90", "n"}
    in_turns = Latency.of_turns([[0.001, 0.003], [0.004]])
    assert in_turns.to_json()["turns"] == pytest.approx([2, 4])
    assert (in_turns.median, in_turns.n) == pytest.approx((3, 3))


def test_a_failure_without_a_message_is_named_by_its_type() -> None:
    assert describe_failure(KeyError()) == "KeyError"


@pytest.mark.parametrize("repeat", [0, -1])
def test_fewer_runs_than_one_are_refused(repeat: int) -> None:
    check_repeat(1)
    with pytest.raises(InputError, match=f"found {repeat}"):
        check_repeat(repeat)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_callers_and_workers_are_kept_apart_and_released() -> None:
    cores = usable_cores()
    if len(cores) < 2:
        pytest.skip("one core")
    ended, worker = threading.Event(), threading.Thread(target=lambda: ended.wait())
    worker.start()
    assert worker.native_id is not None
    try:
        with threads_apart(2):
            assert usable_cores() == cores[:1]
            assert os.sched_getaffinity(worker.native_id) == {cores[1]}
        assert usable_cores() == cores
        assert os.sched_getaffinity(worker.native_id) == set(cores)
        for threads in (1, len(cores) + 1):
            with threads_apart(threads):
                assert usable_cores() == cores
    finally:
        ended.set()
        worker.join()
