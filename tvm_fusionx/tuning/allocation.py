"""Where the next trials go: to the block whose time they may save most of."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tvm_fusionx.tuning.peak import Peak
from tvm_fusionx.tuning.task import Task

# Part of what separates a default from the machine's limit that tuning is expected to win.
EXPECTED_PART = 0.3
# Without a measured limit, as if a block could become this much faster.
UNKNOWN_HEADROOM = 0.5
# Gains below this are noise and do not count as progress.
PROGRESS = 0.99


@dataclass
class Progress:
    """How far the search of one task has come."""

    task: Task
    default_seconds: float
    """Of one run with the default values; infinity where it failed."""

    least_seconds: float = 0.0
    """What no kernel of the block can go below; 0 where unknown."""

    best_seconds: float = math.inf
    trials: int = 0
    fruitless_rounds: int = 0
    is_exhausted: bool = False

    @property
    def now(self) -> float:
        """Return seconds of one run, as far as is known."""
        return min(self.best_seconds, self.default_seconds)

    @property
    def headroom(self) -> float:
        """Return the part of the time that lies above the machine's limit."""
        if not self.least_seconds or not math.isfinite(self.now):
            return UNKNOWN_HEADROOM
        return max(0.0, 1.0 - self.least_seconds / self.now)

    @property
    def expected_seconds(self) -> float:
        """Return what the next round may save in a run of the model."""
        if not math.isfinite(self.now):
            return 0.0
        chance = 1.0 / (1 + self.fruitless_rounds)
        return self.task.count * self.now * self.headroom * EXPECTED_PART * chance

    def add_round(self, best_seconds: float, trials: int) -> None:
        """Count a round of trials whose best took `best_seconds`."""
        self.fruitless_rounds = (
            0 if best_seconds < self.now * PROGRESS else self.fruitless_rounds + 1
        )
        self.best_seconds = min(self.best_seconds, best_seconds)
        self.trials += trials


def next_task(progresses: Iterable[Progress]) -> Progress | None:
    """Return the task to go on with, or None where none has anything left to try."""
    open_tasks = [
        each
        for each in progresses
        if each.task.is_tunable and not each.is_exhausted and math.isfinite(each.now)
    ]
    return max(open_tasks, key=lambda each: each.expected_seconds, default=None)


def shares(progresses: Iterable[Progress]) -> dict[str, float]:
    """Return the share of each task's blocks in the time of all blocks, by the task's key."""
    spent = {
        each.task.key: each.task.count * each.now if math.isfinite(each.now) else 0.0
        for each in progresses
    }
    total = sum(spent.values())
    return {key: seconds / total if total else 0.0 for key, seconds in spent.items()}


def least_seconds(task: Task, peak: Peak | None) -> float:
    """Return the time that no kernel of a block can go below; 0 where that is unknown."""
    return 0.0 if peak is None else peak.least_seconds(task.work)
