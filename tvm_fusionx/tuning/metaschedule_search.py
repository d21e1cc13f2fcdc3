"""MetaSchedule's evolutionary search over our knobs.

The design space is a trace of one ``sample_categorical`` for each knob, annotated on the root
block. The search mutates its decisions; our templates make a kernel of what the annotations say.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import meta_schedule as ms
from tvm.meta_schedule.cost_model import PyCostModel
from tvm.meta_schedule.database import MemoryDatabase, TuningRecord
from tvm.meta_schedule.mutator import PyMutator
from tvm.meta_schedule.runner import RunnerResult
from tvm.meta_schedule.utils import derived_object

from tvm_fusionx.tuning.cost_model import CostModel, TaskFeatures, import_xgboost
from tvm_fusionx.tuning.task import Choice, Space, Task, choice_key
from tvm_fusionx.tuning.tvm_tuners import without_tensor_intrinsics

ANNOTATION = "fusionx."
SAMPLE = "SampleCategorical"

# TVM's defaults (512 traces, 4 generations) spend minutes on the host for a handful of trials.
POPULATION = 48
GENERATIONS = 3
MEASURED_SHARE = 0.3
LEAST_UNMEASURED = 4
RANDOM_SHARE = 0.1
# More trials than any session makes of one block.
MAX_TRIALS = 1 << 20
# TVM tells every step at INFO, and warns of each space that gets empty.
_QUIET = logging.getLogger("tvm_fusionx.tuning.evolutionary_search")
_QUIET.setLevel(logging.ERROR)

# What a failed candidate is recorded with, as MetaSchedule itself does.
FAILED_SECONDS = 1e10


def design_space(space: Space) -> Any:
    """Return the function that makes MetaSchedule's design space of our knobs."""

    def sample(sch: Any) -> None:
        root = sch.get_block("root")
        for name, knob in space.knobs.items():
            choices = list(knob.choices)
            value = sch.sample_categorical(choices, [1.0 / len(choices)] * len(choices))
            sch.annotate(root, ANNOTATION + name, value)

    return sample


def choice_of(sch: Any) -> dict[str, int]:
    """Return the values that a schedule of :func:`design_space` chose."""
    annotations = sch.get(sch.get_block("root")).annotations
    return {
        str(key)[len(ANNOTATION) :]: int(value)
        for key, value in annotations.items()
        if str(key).startswith(ANNOTATION)
    }


def traced(task: Task, choice: Choice) -> Any:
    """Return the schedule of :func:`design_space` that decides for `choice`."""
    sch = tvm.tir.Schedule(tvm.IRModule({"main": task.func}))
    root = sch.get_block("root")
    for name, knob in task.space.knobs.items():
        choices = list(knob.choices)
        value = sch.sample_categorical(
            choices, [1.0 / len(choices)] * len(choices), decision=choices.index(choice[name])
        )
        sch.annotate(root, ANNOTATION + name, value)
    return sch


@derived_object
class _ChangeOneKnob(PyMutator):
    """Draws one decision of a trace anew."""

    def __init__(self, seed: str) -> None:
        super().__init__()
        self.generator = random.Random(seed)

    def _initialize_with_tune_context(self, context: Any) -> None:
        pass

    def apply(self, trace: Any, _: Any = None) -> Any:
        samples = [inst for inst in trace.insts if str(inst.kind.name) == SAMPLE]
        chosen = self.generator.choice(samples)
        decision = self.generator.randrange(len(chosen.attrs[0]))
        return trace.with_decision(chosen, tvm.tir.IntImm("int32", decision), remove_postproc=True)

    def clone(self) -> Any:
        return _ChangeOneKnob(str(self.generator.random()))

    def __str__(self) -> str:
        return "change one knob"


@derived_object
class _Predictions(PyCostModel):
    """Our cost model, as MetaSchedule asks for one."""

    def __init__(self, model: CostModel, features: TaskFeatures) -> None:
        super().__init__()
        self.model = model
        self.features = features

    def load(self, path: str) -> None:
        """Do nothing: the journal holds what was learned."""

    def save(self, path: str) -> None:
        """Do nothing: the journal holds what was learned."""

    def update(self, context: Any, candidates: Any, results: Any) -> None:
        """Do nothing: the session teaches the model."""

    def predict(self, context: Any, candidates: Any) -> np.ndarray:
        scores = self.model.predict(self.features, [choice_of(each.sch) for each in candidates])
        # The search wants scores above zero.
        return np.exp2(scores)


class MetaScheduleSearch:
    """One task's evolutionary search, asked and told by our own loop.

    Parameters
    ----------
    cost_model
        What chooses among mutations; the session teaches it.

    Raises
    ------
    MissingDependencyError
        xgboost is not installed.
    """

    def __init__(
        self,
        task: Task,
        target: tvm.target.Target,
        cost_model: CostModel,
        *,
        seed: int = 0,
        batch: int = 8,
    ) -> None:
        import_xgboost()
        self._task = task
        generator = ms.space_generator.ScheduleFn(
            design_space(task.space),
            sch_rules=[],
            postprocs=[],
            mutator_probs={_ChangeOneKnob(f"{seed} {task.key}"): 1.0},
        )
        search = ms.search_strategy.EvolutionarySearch(
            population_size=POPULATION,
            init_measured_ratio=MEASURED_SHARE,
            init_min_unmeasured=LEAST_UNMEASURED,
            genetic_num_iters=GENERATIONS,
            eps_greedy=RANDOM_SHARE,
        )
        # One thread: our mutator and cost model are Python.
        with without_tensor_intrinsics():
            self._context = ms.TuneContext(
                mod=tvm.IRModule({"main": task.func}),
                target=target,
                space_generator=generator,
                search_strategy=search,
                task_name=task.symbol,
                rand_state=seed + 1,
                num_threads=1,
                logger=_QUIET,
            )
        self._database = MemoryDatabase()
        self._workload = self._database.commit_workload(self._context.mod)
        self._context.pre_tuning(
            max_trials=MAX_TRIALS,
            num_trials_per_iter=batch,
            design_spaces=self._context.generate_design_space(),
            database=self._database,
            cost_model=_Predictions(cost_model, TaskFeatures.of(task)),
        )
        self._asked: dict[Any, Any] = {}
        self._waiting: list[dict[str, int]] = []

    def ask(self, count: int) -> list[dict[str, int]]:
        """Return the next candidates; none when the search finds no new ones."""
        while not self._waiting:
            # None when TVM gives up, after five turns without a new one.
            candidates = self._context.generate_measure_candidates()
            if candidates is None:
                return []
            for candidate in candidates:
                choice = choice_of(candidate.sch)
                self._asked[choice_key(choice)] = candidate
                self._waiting.append(choice)
        asked, self._waiting = self._waiting[:count], self._waiting[count:]
        return asked

    def tell(self, choices: Sequence[Choice], seconds: Sequence[float]) -> None:
        """Learn what candidates took; infinity for those that failed."""
        candidates, results = [], []
        for choice, taken in zip(choices, seconds, strict=True):
            if self._task.space.index(choice) is None:
                continue
            failed = not np.isfinite(taken)
            spent = [FAILED_SECONDS if failed else float(taken)]
            candidate = self._asked.pop(choice_key(choice), None)
            trace = (candidate.sch if candidate else traced(self._task, choice)).trace
            self._database.commit_tuning_record(
                TuningRecord(trace, self._workload, spent, self._context.target, None)
            )
            if candidate is not None:
                candidates.append(candidate)
                results.append(RunnerResult(spent, "failed" if failed else None))
        if candidates:
            self._context.notify_runner_results(candidates, results)
