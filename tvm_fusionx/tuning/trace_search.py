"""MetaSchedule's evolutionary search over TVM's own space, of schedules that no template makes.

TVM's rules for the target (tiling, fusing, vectors, unrolling, parallel loops) span the space; a
candidate is the trace of a schedule. The block, and everything around the search, is ours.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import meta_schedule as ms
from tvm.meta_schedule.database import MemoryDatabase, TuningRecord
from tvm.meta_schedule.runner import RunnerResult

from tvm_fusionx._tvm.script_parsing import import_tensor_intrinsics
from tvm_fusionx.schedules.template import UnschedulableError
from tvm_fusionx.schedules.traced import apply_trace, trace_text
from tvm_fusionx.tuning.cost_model import import_xgboost
from tvm_fusionx.tuning.metaschedule_search import (
    FAILED_SECONDS,
    GENERATIONS,
    LEAST_UNMEASURED,
    MAX_TRIALS,
    MEASURED_SHARE,
    POPULATION,
    RANDOM_SHARE,
)
from tvm_fusionx.tuning.task import TRACE, Choice, Task, choice_key
from tvm_fusionx.tuning.tvm_tuners import without_tensor_intrinsics

logger = logging.getLogger(__name__)

# TVM tells every step at INFO, and warns of each space that gets empty.
_QUIET = logging.getLogger("tvm_fusionx.tuning.trace_search.quiet")
_QUIET.setLevel(logging.ERROR)

# Trials after which TVM's cost model predicts; its 100 are more than most blocks ever get.
WARM_UP_TRIALS = 16

# Rules that look for integer products to replace by instructions of the processor, which TVM
# knows by descriptions that take 20 s to load.
INTEGERS = ("int8", "uint8")


class TraceSearch:
    """One task's search over TVM's space, asked and told by our own loop.

    A choice has one entry, :data:`tvm_fusionx.tuning.task.TRACE`. A block for which TVM's rules
    find no schedule has nothing to propose.

    Raises
    ------
    MissingDependencyError
        xgboost is not installed.
    """

    def __init__(
        self, task: Task, target: tvm.target.Target, *, seed: int = 0, batch: int = 8
    ) -> None:
        import_xgboost()
        self._task = task
        self._database = MemoryDatabase()
        self._asked: dict[Any, Any] = {}
        self._waiting: list[dict[str, Any]] = []
        self._state = np.random.RandomState(seed).get_state()
        self._model = ms.cost_model.XGBModel(num_tuning_cores=1, num_warmup_samples=WARM_UP_TRIALS)
        try:
            self._context = self._open(target, seed, batch)
        except tvm.TVMError as error:
            logger.warning("TVM's rules fail on block %s: %s", task.key, _last_line(error))
            self._context = None

    def _open(self, target: tvm.target.Target, seed: int, batch: int) -> Any:
        func = self._task.func
        has_integers = any(str(func.buffer_map[each].dtype) in INTEGERS for each in func.params)
        rules = "from-target" if has_integers else str(target.kind.name)
        search = ms.search_strategy.EvolutionarySearch(
            population_size=POPULATION,
            init_measured_ratio=MEASURED_SHARE,
            init_min_unmeasured=LEAST_UNMEASURED,
            genetic_num_iters=GENERATIONS,
            eps_greedy=RANDOM_SHARE,
        )
        if has_integers:
            import_tensor_intrinsics()
        quick = contextlib.nullcontext() if has_integers else without_tensor_intrinsics()
        with quick:
            context = ms.TuneContext(
                mod=tvm.IRModule({"main": func}),
                target=_with_cores(target),
                space_generator=ms.space_generator.PostOrderApply(
                    sch_rules=rules, postprocs=rules, mutator_probs=rules
                ),
                search_strategy=search,
                task_name=self._task.symbol,
                rand_state=seed + 1,
                num_threads=1,
                logger=_QUIET,
            )
        self._workload = self._database.commit_workload(context.mod)
        spaces = context.generate_design_space()
        if not spaces:
            return None
        context.pre_tuning(
            max_trials=MAX_TRIALS,
            num_trials_per_iter=batch,
            design_spaces=spaces,
            database=self._database,
            cost_model=self._model,
        )
        return context

    def ask(self, count: int) -> list[dict[str, Any]]:
        """Return the next candidates; none when the search finds no new ones."""
        while not self._waiting and self._context is not None:
            with self._own_randomness():
                candidates = self._context.generate_measure_candidates()
            if candidates is None:
                break
            for candidate in candidates:
                choice = {TRACE: trace_text(candidate.sch.trace)}
                self._asked[choice_key(choice)] = candidate
                self._waiting.append(choice)
        asked, self._waiting = self._waiting[:count], self._waiting[count:]
        return asked

    def tell(self, choices: Sequence[Choice], seconds: Sequence[float]) -> None:
        """Learn what candidates took; infinity for those that failed."""
        if self._context is None:
            return
        candidates, results, answers = [], [], []
        for choice, taken in zip(choices, seconds, strict=True):
            if TRACE not in choice:
                continue
            asked = self._asked.pop(choice_key(choice), None)
            candidate = asked or self._known(str(choice[TRACE]))
            if candidate is None:
                continue
            failed = not np.isfinite(taken)
            spent = [FAILED_SECONDS if failed else float(taken)]
            self._database.commit_tuning_record(
                TuningRecord(candidate.sch.trace, self._workload, spent, self._context.target, None)
            )
            candidates.append(candidate)
            results.append(RunnerResult(spent, "failed" if failed else None))
            if asked is not None:
                answers.append((candidate, results[-1]))
        if candidates:
            self._model.update(self._context, candidates, results)
        if answers:
            self._context.notify_runner_results(*map(list, zip(*answers, strict=True)))

    @contextlib.contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """Give TVM's cost model, which draws at random until it has learned, its own state."""
        outside = np.random.get_state()
        np.random.set_state(self._state)
        try:
            yield
        finally:
            self._state = np.random.get_state()
            np.random.set_state(outside)

    def _known(self, text: str) -> Any:
        """Return a candidate that an earlier part of the session measured; None if it is none."""
        try:
            return ms.MeasureCandidate(apply_trace(self._task.func, text), [])
        except UnschedulableError:
            return None


def _with_cores(target: tvm.target.Target) -> tvm.target.Target:
    """Return `target` with the number of cores, which TVM's rule of parallel loops asks for."""
    from tvm_fusionx.schedules import describe_cpu

    return tvm.target.Target({**target.export(), "num-cores": describe_cpu(target).cores})


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
