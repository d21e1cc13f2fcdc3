"""Waiting for a machine that is fast enough, with a speed and a clock of its own."""

from __future__ import annotations

from tests.benchmarks.scripts import script

fast_enough = script("fast_enough")


def test_it_waits_until_the_machine_is_as_fast_as_asked() -> None:
    speeds = iter([90.0, 149.0, 180.0, 100.0, 160.0])
    slept: list[float] = []
    machine = fast_enough.FastEnough(lambda: next(speeds), 150.0, slept.append)
    machine.wait()
    assert machine.seen == [180.0]
    machine.wait()
    assert machine.seen == [180.0, 160.0]
    assert slept == [fast_enough.POLL_SECONDS] * 3
    assert machine.to_json() == {
        "asked": 150.0,
        "waited_s": 3 * fast_enough.POLL_SECONDS,
        "median": 170.0,
        "least": 160.0,
    }


def test_without_a_wish_it_only_tells_how_fast_the_machine_was() -> None:
    speeds = iter([90.0, 180.0])
    machine = fast_enough.FastEnough(lambda: next(speeds))
    machine.wait()
    machine.wait()
    assert machine.to_json() == {"asked": 0.0, "waited_s": 0.0, "median": 135.0, "least": 90.0}
