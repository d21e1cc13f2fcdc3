"""What proposes candidates: one interface, and both of TVM's tuners behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import tvm

from tvm_fusionx.tuning.cost_model import CostModel
from tvm_fusionx.tuning.task import Choice, Task

AUTOTVM = "autotvm"
METASCHEDULE = "metaschedule"
TUNERS: tuple[str, ...] = (METASCHEDULE, AUTOTVM)
ALGORITHMS: tuple[str, ...] = ("xgb", "ga", "random", "grid")

FAILED = math.inf
"""What a candidate that failed is told to have taken."""


class Search(Protocol):
    """Proposes candidates of one task and learns from what they took."""

    def ask(self, count: int) -> list[dict[str, int]]:
        """Return up to `count` candidates; none when the search is at its end."""

    def tell(self, choices: Sequence[Choice], seconds: Sequence[float]) -> None:
        """Learn what candidates took; :data:`FAILED` for those that failed.

        Candidates need not be those that were asked for.
        """


def make_search(
    tuner: str,
    task: Task,
    target: tvm.target.Target,
    *,
    algorithm: str = ALGORITHMS[0],
    seed: int = 0,
    batch: int = 8,
    cost_model: CostModel | None = None,
) -> Search:
    """Return a search of one of TVM's tuners over the knobs of a task's template.

    Parameters
    ----------
    tuner
        ``"metaschedule"`` or ``"autotvm"``.
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
    if tuner == METASCHEDULE:
        from tvm_fusionx.tuning.metaschedule_search import MetaScheduleSearch

        return MetaScheduleSearch(task, target, cost_model or CostModel(), seed=seed, batch=batch)
    if tuner == AUTOTVM:
        from tvm_fusionx.tuning.autotvm_search import AutoTVMSearch

        return AutoTVMSearch(task, target, algorithm, seed=seed, batch=batch)
    raise ValueError(f"tuner: expected one of {TUNERS}; found {tuner!r}.")
