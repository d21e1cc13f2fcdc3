"""Time several sides of one comparison so that none profits from its place in the order."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.errors import InputError
from tvm_fusionx.threads import usable_cores

MILLISECONDS = 1e3

# Timed runs of one side in a row, at most. Each turn starts with a run that brings the side's data
# back into the caches that the others have filled.
RUNS_A_TURN = 5

# From this long on that run counts as well: filling a cache of 32 MiB takes 1 to 2 ms.
LONG_SECONDS = 0.5

# Turns that the runs asked for are spread over. A machine's slow moments last seconds: what a turn
# says of two sides is one observation, however many runs it has, and few of them tell little.
TURNS = 10

# Of the orders that sides run in: every measurement of as many sides has the same.
SEED = 0

# The other sides' idle threads keep spinning for a while after their last run, ours too; this
# outlasts it.
SETTLE_SECONDS = 0.02

LOW_PERCENTILE = 10
HIGH_PERCENTILE = 90


@dataclass(frozen=True)
class Latency:
    """What one side took, in milliseconds a run, over `n` timed runs.

    Attributes
    ----------
    turns
        The median of each turn's runs, in order; empty where no turns were taken. Sides that are
        timed together took their turns together: these are compared turn by turn.
    """

    median: float
    p10: float
    p90: float
    n: int
    turns: tuple[float, ...] = ()

    @classmethod
    def of(cls, seconds: list[float], turns: Iterable[list[float]] = ()) -> Latency:
        """Return the statistics of single runs, given in seconds, and of turns of some of them."""
        milliseconds = np.asarray(seconds) * MILLISECONDS
        return cls(
            median=float(np.median(milliseconds)),
            p10=float(np.percentile(milliseconds, LOW_PERCENTILE)),
            p90=float(np.percentile(milliseconds, HIGH_PERCENTILE)),
            n=len(seconds),
            turns=tuple(float(np.median(turn)) * MILLISECONDS for turn in turns),
        )

    @classmethod
    def of_turns(cls, turns: list[list[float]]) -> Latency:
        """Return the statistics of all runs of `turns`, given in seconds."""
        return cls.of([run for turn in turns for run in turn], turns)

    def to_json(self) -> dict[str, Any]:
        """Return the statistics under their names in the benchmark's schema."""
        turns = {"turns": list(self.turns)} if self.turns else {}
        return {"median": self.median, "p10": self.p10, "p90": self.p90, "n": self.n, **turns}


def check_repeat(repeat: int) -> None:
    """Raise ``InputError`` unless something is timed at least once."""
    if repeat < 1:
        raise InputError(
            "repeat",
            expected="a number of at least 1",
            found=repr(repeat),
            next_step="Leave it out for the default.",
        )


def _take_turn(run: Callable[[], Any], runs: int) -> list[float]:
    first = _seconds_of(run)
    taken = [first] if first >= LONG_SECONDS else []
    return taken + [_seconds_of(run) for _ in range(runs - len(taken))]


def _seconds_of(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def runs_a_turn(repeat: int) -> int:
    """Return how often each side runs before the next one's turn."""
    return min(RUNS_A_TURN, -(-repeat // TURNS))


def turns_of(repeat: int) -> int:
    """Return how many turns `repeat` runs of each side take."""
    return -(-repeat // runs_a_turn(repeat))


def time_interleaved(
    sides: Mapping[str, Any],
    repeat: int,
    on_turn: Callable[[], None] = lambda: None,
    take_turn: Callable[[Any, int], list[float]] = _take_turn,
    least_seconds: float = 0.0,
) -> tuple[dict[str, Latency], dict[str, str]]:
    """Time every side `repeat` times or for `least_seconds` in all, taking turns.

    Parameters
    ----------
    sides
        What to run, by name: functions, or what `take_turn` takes.
    repeat
        Timed runs of each side, in ten turns or more.
    on_turn
        Called after each turn of all sides. What it takes is no part of `least_seconds`.
    take_turn
        Runs a side so many times after an untimed one, and returns the seconds of each.
    least_seconds
        What all of it takes at least: a short model's sides are timed in further turns.

    Returns
    -------
    dict of str to Latency, dict of str to str
        The latencies, and the message of each side that failed while running; it has no latency.
    """
    turns: dict[str, list[list[float]]] = {name: [] for name in sides}
    most = runs_a_turn(repeat)
    failures: dict[str, str] = {}
    order, chance = list(sides), random.Random(SEED)
    ends_at = time.perf_counter() + least_seconds
    for turn in itertools.count():
        left = repeat - turn * most
        if len(failures) == len(sides) or (left <= 0 and time.perf_counter() >= ends_at):
            break
        # Whatever a side leaves behind meets each of the others at some time, and after a turn and
        # its reverse all have had the same place.
        if turn % 2:
            order.reverse()
        else:
            chance.shuffle(order)
        for name in order:
            if name in failures:
                continue
            runs = min(most, left) if left > 0 else most
            try:
                time.sleep(SETTLE_SECONDS)
                turns[name].append(take_turn(sides[name], runs))
            except Exception as error:  # another runtime may raise anything
                failures[name] = describe_failure(error)
        paused = time.perf_counter()
        on_turn()
        ends_at += time.perf_counter() - paused
    return {
        name: Latency.of_turns(taken) for name, taken in turns.items() if name not in failures
    }, failures


@contextlib.contextmanager
def threads_apart(threads: int) -> Iterator[None]:
    """Keep the calling thread on one core and all others off it, while the scope lasts.

    Every runtime computes on the calling thread and on workers that spin. Linux at times leaves a
    caller and its spinning worker on one core and another core idle, for seconds: all sides then
    took twice as long (two cores; OpenVINO and MNN loaded). Nothing is changed where there are
    fewer cores than threads, or for a single thread.

    Parameters
    ----------
    threads
        Threads of each side: the first of the cores is the caller's, the next `threads` - 1 the
        workers'.
    """
    cores = usable_cores()
    if threads < 2 or len(cores) < threads or not hasattr(os, "sched_setaffinity"):
        yield
        return
    caller = threading.get_native_id()
    before = {}
    for thread in _native_threads():
        with contextlib.suppress(OSError):  # it ended since it was listed
            before[thread] = os.sched_getaffinity(thread)
            os.sched_setaffinity(thread, cores[:1] if thread == caller else cores[1:threads])
    try:
        yield
    finally:
        for thread, mask in before.items():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, mask)


def _native_threads() -> list[int]:
    tasks = Path("/proc/self/task")
    return [int(task.name) for task in tasks.iterdir()] if tasks.is_dir() else []


def describe_failure(error: BaseException) -> str:
    """Return an exception as one line: its type and the last line of its message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__
