"""Run one side for long without a pause: whether it keeps its speed as the device gets warm."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.report.bench.timing import MILLISECONDS, Latency, describe_failure

# What a part at the beginning and at the end has of all runs: of 30 s the first and last three,
# in which a phone's boost has not ended yet, or is over.
PART = 0.1
# Runs of a part at least, where there are so many: the median of fewer is one run's luck.
LEAST_RUNS = 3
# A pause before each side, in its own running times: the one before has warmed the device.
REST_SHARE = 0.5


@dataclass(frozen=True)
class Sustained:
    """What one side took, run after run.

    Attributes
    ----------
    latency
        Milliseconds of a run, over all runs.
    first, last
        Median milliseconds of the first and of the last tenth of the runs.
    seconds
        How long it ran.
    """

    latency: Latency
    first: float
    last: float
    seconds: float

    @property
    def throttling(self) -> float:
        """Return the last over the first median: 1.25 is a run a quarter longer at the end."""
        return self.last / self.first

    @classmethod
    def of(cls, seconds: list[float]) -> Sustained:
        """Return the statistics of runs in a row, given in seconds."""
        part = min(max(round(len(seconds) * PART), LEAST_RUNS), len(seconds))
        first, last = (
            float(np.median(runs)) * MILLISECONDS for runs in (seconds[:part], seconds[-part:])
        )
        return cls(Latency.of(seconds), first, last, sum(seconds))

    def to_json(self) -> dict[str, float | int]:
        """Return the statistics under their names in the benchmark's schema."""
        return {
            **self.latency.to_json(),
            "first": self.first,
            "last": self.last,
            "throttling": self.throttling,
            "seconds": self.seconds,
        }


def time_sustained(
    sides: Mapping[str, Callable[[], Any]],
    seconds: float,
    on_side: Callable[[str], None] = lambda side: None,
) -> tuple[dict[str, Sustained], dict[str, str]]:
    """Run every side for a while, one side after the other.

    Parameters
    ----------
    sides
        What to run, by name.
    seconds
        How long each side runs; a run that has begun is finished.
    on_side
        Told each side before its pause.

    Returns
    -------
    dict of str to Sustained, dict of str to str
        The statistics, and the message of each side that failed while running.
    """
    found: dict[str, Sustained] = {}
    failures: dict[str, str] = {}
    for name, run in sides.items():
        on_side(name)
        time.sleep(seconds * REST_SHARE)
        try:
            run()  # brings its data back into the caches that the others have filled
            found[name] = Sustained.of(_runs_of(run, seconds))
        except Exception as error:  # another runtime may raise anything
            failures[name] = describe_failure(error)
    return found, failures


def _runs_of(run: Callable[[], Any], seconds: float) -> list[float]:
    taken = []
    before = time.perf_counter()
    ends_at = before + seconds
    while before < ends_at:
        run()
        after = time.perf_counter()
        taken.append(after - before)
        before = after
    return taken
