from __future__ import annotations

import time

import pytest

from tvm_fusionx.report.bench import sustained
from tvm_fusionx.report.bench.sustained import Sustained, time_sustained


def test_a_device_that_slows_down_shows_in_the_last_part() -> None:
    runs = [0.010] * 20 + [0.012] * 60 + [0.015] * 20
    found = Sustained.of(runs)
    assert (found.first, found.last) == pytest.approx((10, 15))
    assert found.throttling == pytest.approx(1.5)
    assert found.seconds == pytest.approx(sum(runs))
    assert found.latency.median == pytest.approx(12)
    assert set(found.to_json()) == {
        "median",
        "p10",
        "p90",
        "n",
        "first",
        "last",
        "throttling",
        "seconds",
    }


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_runs_are_enough(count: int) -> None:
    assert Sustained.of([0.5] * count).throttling == 1


def test_a_part_is_a_tenth_and_three_runs_at_least() -> None:
    # Of ten runs one is a tenth: one slow run at the end would look like throttling.
    assert Sustained.of([1.0] * 9 + [5.0]).throttling == 1


def test_every_side_runs_for_the_time_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    now, order = [0.0], []

    def run(name: str, seconds: float) -> None:
        order.append(name)
        now[0] += seconds

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    rests: list[float] = []
    monkeypatch.setattr(sustained.time, "sleep", rests.append)
    told: list[str] = []
    sides = {"quick": lambda: run("quick", 0.5), "slow": lambda: run("slow", 3.0)}
    found, failures = time_sustained(sides, 4.0, told.append)
    assert failures == {}
    assert told == ["quick", "slow"]
    # One untimed run each, then as many as begin within the time.
    assert order == ["quick"] * 9 + ["slow"] * 3
    assert (found["quick"].latency.n, found["slow"].latency.n) == (8, 2)
    assert rests == [4.0 * sustained.REST_SHARE] * 2


def test_a_side_that_fails_has_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sustained.time, "sleep", lambda _: None)

    def fails() -> None:
        raise RuntimeError("too hot")

    found, failures = time_sustained({"a": fails, "b": lambda: None}, 0.001)
    assert set(found) == {"b"}
    assert failures == {"a": "RuntimeError: too hot"}
