"""What proposes candidates: one interface, and both of TVM's tuners behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import tvm

from tvm_fusionx.tuning.cost_model import CostModel
from tvm_fusionx.tuning.task import Choice, Task

AUTOTVM = "autotvm"
METASCHEDULE = "metaschedule"
TUNERS: tuple[str, ...] = (METASCHEDULE, AUTOTVM)
ALGORITHMS: tuple[str, ...] = ("xgb", "ga", "random", "grid")

FUSIONX = "fusionx"
TVM = "tvm"
BOTH = "both"
SPACES: tuple[str, ...] = (FUSIONX, TVM, BOTH)
"""What is searched: the knobs of our templates, TVM's own space, or both in turns."""

FAILED = math.inf
"""What a candidate that failed is told to have taken."""


class Search(Protocol):
    """Proposes candidates of one task and learns from what they took."""

    def ask(self, count: int) -> list[dict[str, Any]]:
        """Return up to `count` candidates; none when the search is at its end."""

    def tell(self, choices: Sequence[Choice], seconds: Sequence[float]) -> None:
        """Learn what candidates took; :data:`FAILED` for those that failed.

        Candidates need not be those that were asked for.
        """


class InTurns:
    """Two searches of one task: each is asked every other time, and told all."""

    def __init__(self, first: Search, second: Search) -> None:
        self._next, self._other = first, second

    def ask(self, count: int) -> list[dict[str, Any]]:
        """Return up to `count` candidates of the one whose turn it is, else of the other."""
        self._next, self._other = self._other, self._next
        return self._other.ask(count) or self._next.ask(count)

    def tell(self, choices: Sequence[Choice], seconds: Sequence[float]) -> None:
        """Tell both: each leaves out what is not of its space."""
        self._next.tell(choices, seconds)
        self._other.tell(choices, seconds)


def make_search(
    tuner: str,
    task: Task,
    target: tvm.target.Target,
    *,
    space: str = FUSIONX,
    algorithm: str = ALGORITHMS[0],
    seed: int = 0,
    batch: int = 8,
    cost_model: CostModel | None = None,
) -> Search:
    """Return a search of one of TVM's tuners over the knobs of a task's template, or TVM's space.

    Parameters
    ----------
    tuner
        ``"metaschedule"`` or ``"autotvm"``, for the knobs; TVM's own space is MetaSchedule's.
    space
        One of :data:`SPACES`.
    algorithm
        Of AutoTVM: ``"xgb"``, ``"ga"``, ``"random"`` or ``"grid"``.
    batch
        Candidates that are asked for at a time.
    cost_model
        What older trials taught; MetaSchedule's search goes on with it.

    Raises
    ------
    MissingDependencyError
        The search needs xgboost, which is not installed.
    """
    if space != FUSIONX:
        from tvm_fusionx.tuning.trace_search import TraceSearch

        traces = TraceSearch(task, target, seed=seed, batch=batch)
        if space == TVM or len(task.space) <= 1:
            return traces
        knobs = make_search(
            tuner,
            task,
            target,
            algorithm=algorithm,
            seed=seed,
            batch=batch,
            cost_model=cost_model,
        )
        return InTurns(knobs, traces)
    if tuner == METASCHEDULE:
        from tvm_fusionx.tuning.metaschedule_search import MetaScheduleSearch

        return MetaScheduleSearch(task, target, cost_model or CostModel(), seed=seed, batch=batch)
    if tuner == AUTOTVM:
        from tvm_fusionx.tuning.autotvm_search import AutoTVMSearch

        return AutoTVMSearch(task, target, algorithm, seed=seed, batch=batch)
    raise ValueError(f"tuner: expected one of {TUNERS}; found {tuner!r}.")
