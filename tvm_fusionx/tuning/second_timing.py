"""A default timed once more, before candidates are compared with it."""

from __future__ import annotations

from contextlib import suppress

from tvm_fusionx.tuning.allocation import Progress
from tvm_fusionx.tuning.bench import Bench
from tvm_fusionx.tuning.build_candidates import CandidateBuilder


def time_again(progress: Progress, builder: CandidateBuilder, bench: Bench) -> None:
    """Time the default of a task again, and keep the shorter of both times.

    What else a machine does makes a block look up to twice as slow for some seconds, and worth all
    trials: seen on two virtual cores, as if they shared one core of their host. It is seldom so at
    both moments.

    Raises
    ------
    DeviceLostError
        The device is not there, and stays away.
    """
    task = progress.task
    (candidate,) = builder.build(task, [task.space.default])
    try:
        if candidate.failure is None:
            outcome, _ = bench.run(task, candidate.path, None, candidate.images)
            progress.default_seconds = min(progress.default_seconds, outcome.least_seconds)
    finally:
        with suppress(OSError):
            candidate.path.unlink()
