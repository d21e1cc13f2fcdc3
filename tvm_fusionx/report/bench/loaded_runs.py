"""What runs of one side took, and what they cost others: processor time, and threads that slept."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tvm_fusionx.report.bench.timing import LONG_SECONDS, MILLISECONDS, RUNS_A_TURN

# A side that waits for others must not take the time of all: its turn ends after so long.
TURN_SECONDS = 0.25
PERCENTILES = (90, 99)


@dataclass(frozen=True)
class LoadedRuns:
    """What one side took beside busy processes.

    Attributes
    ----------
    median, p90, p99
        Milliseconds a run.
    cpu_ms
        Processor time of all threads of this process, milliseconds a run.
    switches
        Voluntary context switches of all threads a run: how often one went to sleep.
    n
        Timed runs.
    """

    median: float
    p90: float
    p99: float
    cpu_ms: float
    switches: float
    n: int

    def to_json(self) -> dict[str, Any]:
        """Return the numbers under their names in the benchmark's schema."""
        return asdict(self)


class Meter:
    """Counts what the runs of one side take."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self._run = run
        self._seconds: list[float] = []
        self._cpu_s = 0.0
        self._switches = 0

    def take_turn(self) -> None:
        """Run once, untimed unless that takes long, then up to five times."""
        started = time.perf_counter()
        first = self._measured()
        if first[0] >= LONG_SECONDS:
            self._count(first)
        for _ in range(RUNS_A_TURN):
            if time.perf_counter() - started >= TURN_SECONDS and self._seconds:
                break
            self._count(self._measured())

    def _measured(self) -> tuple[float, float, int]:
        before = resource.getrusage(resource.RUSAGE_SELF)
        started = time.perf_counter()
        self._run()
        seconds = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return seconds, cpu_s, after.ru_nvcsw - before.ru_nvcsw

    def _count(self, measured: tuple[float, float, int]) -> None:
        seconds, cpu_s, switches = measured
        self._seconds.append(seconds)
        self._cpu_s += cpu_s
        self._switches += switches

    def result(self) -> LoadedRuns:
        """Return the statistics of all runs so far."""
        count = len(self._seconds)
        milliseconds = np.asarray(self._seconds) * MILLISECONDS
        p90, p99 = np.percentile(milliseconds, PERCENTILES)
        return LoadedRuns(
            median=float(np.median(milliseconds)),
            p90=float(p90),
            p99=float(p99),
            cpu_ms=self._cpu_s * MILLISECONDS / count,
            switches=self._switches / count,
            n=count,
        )
