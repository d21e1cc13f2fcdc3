"""Time several sides beside busy processes: how long runs take, and what they cost others."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tvm_fusionx.errors import DeviceError, InputError
from tvm_fusionx.report.bench.bench_result import OURS
from tvm_fusionx.report.bench.loaded_runs import LoadedRuns, Meter
from tvm_fusionx.report.bench.timing import SEED, SETTLE_SECONDS, describe_failure
from tvm_fusionx.threads import OURS as OUR_POOL
from tvm_fusionx.threads import TVMS, on_pool, pool_in_use

Run = Callable[[], Any]

Loads = Sequence[int] | Mapping[int, float]
"""Numbers of busy processes; a mapping has the seconds of timing, of all sides, beside each."""

# Our kernels once more, on TVM's pool: what the pool does, apart from the kernels.
OURS_ON_TVMS_POOL = "fusionx-tvm-pool"

# More than a machine has cores is a load that no device sees.
MOST_BUSY = 64
# How long all sides are timed beside each number of busy processes.
DEFAULT_SECONDS = 12.0
# Each load comes so often, a share of the seconds each: a machine's slow moment is not all of one.
ROUNDS = 2
LEAST_TURNS = 2
# What a process started just now needs until the system treats it as one that computes.
BUSY_SECONDS = 0.2

# Ends with its parent, however that ends; Ctrl-C is for the parent, which ends it.
BUSY = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
parent = os.getppid()
print(flush=True)
while os.getppid() == parent:
    for _ in range(100000):
        pass
"""


def check_loads(loads: Loads) -> None:
    """Raise ``InputError`` unless each of `loads` is a number of processes that can be started."""
    wrong = [load for load in loads if not 0 <= load <= MOST_BUSY]
    if wrong:
        raise InputError(
            "busy processes",
            expected=f"numbers from 0 to {MOST_BUSY}",
            found=", ".join(map(str, wrong)),
            next_step="Give as many as the device has cores, as in --busy 0,1,2,4.",
        )


def runs_of(executors: Mapping[str, Any]) -> dict[str, Run]:
    """Return what runs each executor: plain TVM's on TVM's own pool, our kernels on ours."""

    def on_tvms(run: Run) -> Run:
        def switched() -> Any:
            with on_pool(TVMS):
                return run()

        return switched

    return {
        side: on_tvms(executor.run) if side.startswith("tvm") else executor.run
        for side, executor in executors.items()
    }


def with_both_pools(sides: Mapping[str, Run]) -> dict[str, Run]:
    """Return `sides`, and beside ours the same on TVM's pool, where ours is in use."""
    found = dict(sides)
    if OURS in sides and pool_in_use() == OUR_POOL:
        ours = sides[OURS]

        def on_tvms() -> Any:
            with on_pool(TVMS):
                return ours()

        found[OURS_ON_TVMS_POOL] = on_tvms
    return found


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[list[int]]:
    """Keep `count` processes computing while the scope lasts; yield their numbers.

    They are bound to no core, have the usual priority, and end with the scope, and with this
    process.

    Raises
    ------
    DeviceError
        The system does not start them.
    """
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            started.append(
                subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", BUSY],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                )
            )
        for process in started:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise DeviceError(
                    "busy processes",
                    expected=f"{count} that run",
                    found=f"one that ended with {process.wait()}",
                    next_step="Ask for fewer.",
                )
        time.sleep(BUSY_SECONDS if count else 0.0)
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def time_under_load(
    sides: Mapping[str, Run],
    loads: Loads,
    on_stage: Callable[[str], None] = lambda what: None,
) -> tuple[dict[str, dict[str, LoadedRuns]], dict[str, str]]:
    """Time every side beside each number of busy processes, taking turns; ours on both pools.

    Parameters
    ----------
    sides
        What to run, by name.
    loads
        Numbers of busy processes; the timing of all sides together beside one of them takes what a
        mapping has for it, else :data:`DEFAULT_SECONDS`. A side whose turn takes longer has two
        turns all the same.

    Returns
    -------
    dict of str to dict of str to LoadedRuns, dict of str to str
        By the number of processes, then by side; and the message of each side that failed.
    """
    sides = with_both_pools(sides) if loads else {}
    meters = {load: {name: Meter(run) for name, run in sides.items()} for load in loads}
    asked = loads if isinstance(loads, Mapping) else dict.fromkeys(loads, DEFAULT_SECONDS)
    failures: dict[str, str] = {}
    chance = random.Random(SEED)
    for turn in range(ROUNDS):
        for load in loads:
            on_stage(f"beside {load} busy processes, round {turn + 1} of {ROUNDS}")
            with busy_processes(load):
                _take_turns(meters[load], asked[load] / ROUNDS, chance, failures)
    return {
        str(load): {name: each.result() for name, each in row.items() if name not in failures}
        for load, row in meters.items()
    }, failures


def _take_turns(
    meters: Mapping[str, Meter],
    seconds: float,
    chance: random.Random,
    failures: dict[str, str],
) -> None:
    order = list(meters)
    ends_at, turns = time.perf_counter() + seconds, 0
    while turns < LEAST_TURNS or time.perf_counter() < ends_at:
        # After a turn and its reverse all have had the same place.
        if turns % 2:
            order.reverse()
        else:
            chance.shuffle(order)
        for name in order:
            if name in failures:
                continue
            time.sleep(SETTLE_SECONDS)
            try:
                meters[name].take_turn()
            except Exception as error:  # another runtime may raise anything
                failures[name] = describe_failure(error)
        turns += 1
        if len(failures) == len(meters):
            return
