"""Prepare several models at once, and time each alone: the others stand still meanwhile.

Building and converting take most of a benchmark and care for no noise; timing takes little and
cares for all of it. Each model's process and those that it starts are one process group. Whoever
times holds a lock and has the other groups stopped.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

logger = logging.getLogger(__name__)

# What shells say of a command that they cannot start.
NOT_STARTED = 127

# Tells a model's process where the lock and the names of the groups are.
FOLDER_VARIABLE = "FUSIONX_TIMED_ALONE"
LOCK = "lock"
# A line for each time that one held the others still: its group, and for how many seconds.
PAUSES = "pauses"

# The largest models take so much with every side loaded; less must not be left when one starts.
LEAST_FREE_BYTES = 8 << 30
POLL_SECONDS = 1.0


@contextlib.contextmanager
def timed_alone() -> Iterator[None]:
    """Hold the other groups of :func:`run_groups` still; do nothing where there are none."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen is None:
        yield
        return
    with _held(Path(chosen)):
        others = [group for group in _groups(Path(chosen)) if group != os.getpgrp()]
        _signal(others, signal.SIGSTOP)
        started = time.perf_counter()
        try:
            yield
        finally:
            with (Path(chosen) / PAUSES).open("a") as told:
                told.write(f"{os.getpgrp()} {time.perf_counter() - started}\n")
            _signal(others, signal.SIGCONT)


def running_clock() -> float:
    """Return seconds as `time.perf_counter` does, less those that this process stood still."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    now = time.perf_counter()
    if chosen is None or not (told := Path(chosen) / PAUSES).is_file():
        return now
    lines = (line.split() for line in told.read_text().splitlines())
    return now - sum(float(seconds) for group, seconds in lines if int(group) != os.getpgrp())


def run_groups(
    commands: Mapping[str, Sequence[str]],
    jobs: int,
    limit_seconds: float,
    environment: Mapping[str, str],
) -> Iterator[tuple[str, int | None]]:
    """Run commands, `jobs` at a time, each in a group of its own.

    Every second worker begins at the end: where the order is by size, large meets small. Another
    command starts only while memory for it is free.

    Parameters
    ----------
    commands
        By name.
    limit_seconds
        After which a command and all that it started are killed.

    Yields
    ------
    name, status
        As commands end: the exit status, None for one that was killed at the limit,
        `NOT_STARTED` for one that the system did not start.
    """
    waiting, ended = deque(commands), deque[tuple[str, int | None]]()
    running, changed = set[str](), threading.Condition()

    with tempfile.TemporaryDirectory(prefix="fusionx-groups-") as name, _ends_when_terminated():
        folder = Path(name)

        def work(take: Callable[[], str]) -> None:
            while True:
                with changed:
                    if not waiting:
                        return
                    if running and _free_bytes() < LEAST_FREE_BYTES:
                        chosen = None
                    else:
                        chosen = take()
                        running.add(chosen)
                if chosen is None:
                    time.sleep(POLL_SECONDS)
                    continue
                try:
                    status = _run_group(commands[chosen], folder, limit_seconds, environment)
                except OSError:
                    logger.exception("%s was not started", chosen)
                    status = NOT_STARTED
                with changed:
                    running.discard(chosen)
                    ended.append((chosen, status))
                    changed.notify()

        workers = [
            threading.Thread(target=work, args=(waiting.pop if index % 2 else waiting.popleft,))
            for index in range(jobs)
        ]
        for worker in workers:
            worker.start()
        try:
            for _ in commands:
                with changed:
                    changed.wait_for(lambda: bool(ended))
                    told = ended.popleft()
                yield told
        finally:
            # Where the reader stops early, nothing may go on by itself.
            with changed:
                waiting.clear()
            for worker in workers:
                while worker.is_alive():
                    # Again and again: one may be about to start.
                    _signal(_groups(folder), signal.SIGKILL)
                    worker.join(POLL_SECONDS)


def _run_group(
    command: Sequence[str], folder: Path, limit_seconds: float, environment: Mapping[str, str]
) -> int | None:
    # Not while somebody times.
    with _held(folder):
        process = subprocess.Popen(
            command,
            env={**environment, FOLDER_VARIABLE: str(folder)},
            start_new_session=True,
        )
        told = folder / str(process.pid)
        told.touch()
    try:
        return process.wait(limit_seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        told.unlink()
        # What it has started and left, and what it had stopped when it was killed.
        _signal([process.pid], signal.SIGKILL)
        process.wait()
        _signal(_groups(folder), signal.SIGCONT)


@contextlib.contextmanager
def _ends_when_terminated() -> Iterator[None]:
    """Let SIGTERM raise as Ctrl-C does: a group that stands still would stand there for good."""
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the lock, which the system takes back from a process that ends."""
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _groups(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]


def _signal(groups: Sequence[int], number: signal.Signals) -> None:
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)


def _free_bytes() -> int:
    """Return the memory that a new process may take; without a limit where Linux does not tell."""
    told = Path("/proc/meminfo")
    if not told.exists():
        return LEAST_FREE_BYTES
    return int(told.read_text().split("MemAvailable:")[1].split()[0]) << 10
