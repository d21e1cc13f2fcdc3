from __future__ import annotations

import time
from typing import Any

import pytest

from tvm_fusionx.report.bench import loaded_runs
from tvm_fusionx.report.bench.loaded_runs import Meter


class Usage:
    """What the system says of a process that each run costs 3 ms and 2 switches."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, whose: int) -> Any:
        self.ru_utime, self.ru_stime = 0.002 * self.runs, 0.001 * self.runs
        self.ru_nvcsw = 2 * self.runs
        return type("Usage", (), dict(vars(self)))


def test_the_first_run_of_a_turn_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = Usage()
    monkeypatch.setattr(loaded_runs.resource, "getrusage", usage)

    def run() -> None:
        usage.runs += 1

    meter = Meter(run)
    meter.take_turn()
    found = meter.result()
    assert (usage.runs, found.n) == (6, 5)
    assert found.cpu_ms == pytest.approx(3)
    assert found.switches == pytest.approx(2)
    assert found.median <= found.p90 <= found.p99
    assert found.to_json()["n"] == 5


def test_a_slow_side_has_few_runs_a_turn_and_its_first_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loaded_runs, "TURN_SECONDS", 0.01)
    monkeypatch.setattr(loaded_runs, "LONG_SECONDS", 0.02)
    meter = Meter(lambda: time.sleep(0.02))
    meter.take_turn()
    assert meter.result().n == 1
    assert meter.result().median >= 20
