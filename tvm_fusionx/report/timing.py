"""Time several sides of one comparison so that none profits from its place in the order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

MILLISECONDS = 1e3

# Timed runs of one side in a row. Each turn starts with an untimed run, which brings the side's
# data back into the caches that the others have filled.
RUNS_A_TURN = 5

# The other sides' idle threads keep spinning for a while after their last run, ours too; this
# outlasts it.
SETTLE_SECONDS = 0.02

LOW_PERCENTILE = 10
HIGH_PERCENTILE = 90


@dataclass(frozen=True)
class Latency:
    """What one side took, in milliseconds a run, over `n` timed runs."""

    median: float
    p10: float
    p90: float
    n: int

    @classmethod
    def of(cls, seconds: list[float]) -> Latency:
        """Return the statistics of single runs, given in seconds."""
        milliseconds = np.asarray(seconds) * MILLISECONDS
        return cls(
            median=float(np.median(milliseconds)),
            p10=float(np.percentile(milliseconds, LOW_PERCENTILE)),
            p90=float(np.percentile(milliseconds, HIGH_PERCENTILE)),
            n=len(seconds),
        )

    def to_json(self) -> dict[str, float | int]:
        """Return the statistics under their names in the benchmark's schema."""
        return {"median": self.median, "p10": self.p10, "p90": self.p90, "n": self.n}


def time_interleaved(
    sides: Mapping[str, Callable[[], Any]],
    repeat: int,
    on_turn: Callable[[], None] = lambda: None,
) -> tuple[dict[str, Latency], dict[str, str]]:
    """Time every side `repeat` times, taking turns.

    Parameters
    ----------
    sides
        What to run, by name.
    repeat
        Timed runs of each side.
    on_turn
        Called after each turn of all sides.

    Returns
    -------
    dict of str to Latency, dict of str to str
        The latencies, and the message of each side that failed while running; it has no latency.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    failures: dict[str, str] = {}
    order = list(sides)
    for turn in range(-(-repeat // RUNS_A_TURN)):
        # Another side goes first each time: whatever a neighbour leaves behind is shared by all.
        first = turn % len(order)
        for name in order[first:] + order[:first]:
            if name in failures:
                continue
            runs = min(RUNS_A_TURN, repeat - turn * RUNS_A_TURN)
            try:
                seconds[name] += _take_turn(sides[name], runs)
            except Exception as error:  # another runtime may raise anything
                failures[name] = describe_failure(error)
        on_turn()
    return {
        name: Latency.of(taken) for name, taken in seconds.items() if name not in failures
    }, failures


def _take_turn(run: Callable[[], Any], runs: int) -> list[float]:
    time.sleep(SETTLE_SECONDS)
    run()
    taken = []
    for _ in range(runs):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return taken


def describe_failure(error: BaseException) -> str:
    """Return an exception as one line: its type and the last line of its message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__
