"""What did not run: how often, and why first."""

from __future__ import annotations

from collections import Counter

from tvm_fusionx.tuning.build_candidates import INVALID
from tvm_fusionx.tuning.outcome import Outcome
from tvm_fusionx.tuning.task import Task


class Failures(Counter[str]):
    """Counts failures by kind, and keeps the first cause."""

    def __init__(self) -> None:
        super().__init__()
        self._cause = self._refusal = ""

    def add(self, task: Task, outcome: Outcome) -> None:
        """Count what failed."""
        self[str(outcome.failure)] += 1
        name = task.names[0] if task.names else task.key
        said = f"block {name}: {outcome.failure}: {outcome.detail}"
        if outcome.failure == INVALID:
            self._refusal = self._refusal or said
        else:
            self._cause = self._cause or said

    def __str__(self) -> str:
        """Return the kinds with their numbers, and the first cause.

        Templates refuse candidates of every block: that is the cause where there is no other.
        """
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.most_common())
        return f"{kinds}; the first: {self._cause or self._refusal}"
