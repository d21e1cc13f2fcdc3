"""Plain TVM tuned by its own MetaSchedule: what a benchmark compares our tuning with.

TVM's own Relay pipeline, fusion and schedule space; nothing of ours but the budget in seconds,
which MetaSchedule does not know, and the cures without which candidates fail to build.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import meta_schedule as ms
from tvm.meta_schedule.builder import LocalBuilder, PyBuilder
from tvm.meta_schedule.measure_callback import PyMeasureCallback
from tvm.meta_schedule.runner import LocalRunner
from tvm.meta_schedule.utils import derived_object

from tvm_fusionx._tvm.cures import let_cure, remembered_library_information
from tvm_fusionx._tvm.script_parsing import import_tensor_intrinsics
from tvm_fusionx.errors import TuningError
from tvm_fusionx.report.bench.plain_tvm import cured_config
from tvm_fusionx.tuning.cost_model import import_xgboost
from tvm_fusionx.tuning.metaschedule_search import (
    FAILED_SECONDS,
    GENERATIONS,
    LEAST_UNMEASURED,
    MEASURED_SHARE,
    POPULATION,
    RANDOM_SHARE,
)
from tvm_fusionx.tuning.settings import Settings

# More trials than any budget in seconds allows.
MAX_TRIALS = 1 << 20
# A candidate that compiles or runs for longer is none that wins.
CANDIDATE_SECONDS = 30.0
POOL_SIZE = "TVM_NUM_THREADS"
# TVM tells every step at INFO, and warns of each space that gets empty.
_QUIET = logging.getLogger("tvm_fusionx.tuning.plain_metaschedule")
_QUIET.setLevel(logging.ERROR)
BUILDS = {
    "relay.backend.use_meta_schedule": True,
    "relay.backend.tir_converter": "default",
}


@dataclass(frozen=True)
class PlainTuning:
    """A model as TVM's own tuner leaves it.

    Attributes
    ----------
    library
        The graph-executor factory module.
    trials, failed
        Candidates that were measured, and those of them that failed to build or run.
    tasks, reached
        Different kernels of the model, and those of them that the budget reached.
    seconds
        Time from the first candidate to the last, without the extraction of tasks before.
    """

    library: Any
    trials: int
    failed: int
    tasks: int
    reached: int
    seconds: float


class _BudgetSpentError(Exception):
    """The budget in seconds is spent; TVM's scheduler has no other way to be stopped."""


@derived_object
class _Counter(PyMeasureCallback):
    """Counts trials."""

    def __init__(self) -> None:
        super().__init__()
        self.trials = 0
        self.failed = 0
        self.reached: set[int] = set()

    def apply(self, scheduler: Any, task: int, candidates: Any, builds: Any, results: Any) -> None:
        """Count the results of one round."""
        self.trials += len(results)
        self.failed += sum(result.error_msg is not None for result in results)
        self.reached.add(int(task))


@derived_object
class _BuilderUntil(PyBuilder):
    """Builds candidates, and ends the search when its time is over."""

    def __init__(self, builder: Any, ends_at: float) -> None:
        super().__init__()
        self.builder = builder
        self.ends_at = ends_at
        self.is_over = False

    def build(self, build_inputs: Any) -> Any:
        """Build the candidates of one round, unless it is too late for one."""
        if time.monotonic() > self.ends_at:
            self.is_over = True
            raise _BudgetSpentError
        return self.builder.build(build_inputs)


def build_candidate(mod: tvm.IRModule, target: tvm.target.Target, params: Any) -> Any:
    """Build a candidate in a worker, as MetaSchedule does, with the cure of TVM's LLVM fault."""
    mod = tvm.tir.transform.RemoveWeightLayoutRewriteBlock(skip_ndarray_rewrite=True)(mod)
    with tvm.transform.PassContext(config=cured_config()):
        return tvm.build(mod, target=target)


def tune_plain(
    mod: tvm.IRModule,
    target: tvm.target.Target,
    params: Mapping[str, Any] | None = None,
    *,
    threads: int,
    seconds: float | None = None,
    trials: int | None = None,
    seed: int = 0,
) -> PlainTuning:
    """Tune `mod` with TVM's MetaSchedule and build it with what was found.

    Search settings are those of our own tuner: TVM's defaults (512 traces and 64 trials of a kernel
    before the next one gets any) would spend a budget of minutes on the first kernels alone. As in
    ``fx.tune``, finding the kernels is no part of the budget: it takes 50 s of MobileNetV2 on two
    Zen 3 cores.

    Parameters
    ----------
    mod
        Relay module as imported; not changed.
    threads
        Threads of a run, in candidates too: TVM's workers would take half of the cores.
    seconds
        Budget; the round that it ends in is finished, so a little more is spent. Each kernel gets
        one round of candidates before any gets its second.
    trials
        Budget in candidates instead; with both, whichever is spent first.

    Raises
    ------
    MissingDependencyError
        xgboost is not installed.
    TuningError
        Not one candidate could be measured.
    """
    import_xgboost()
    import_tensor_intrinsics()
    settings = Settings(trials=trials, budget_seconds=seconds, seed=seed)
    most = settings.most_trials
    with_cores = tvm.target.Target({**target.export(), "num-cores": threads})
    given = dict(params or {})
    database = ms.database.MemoryDatabase()
    scheduler = ms.task_scheduler.GradientBased(seed=seed + 1)
    counter = _Counter()
    with let_cure(), remembered_library_information():
        tasks = ms.relay_integration.extract_tasks(mod, with_cores, given)
        started = time.monotonic()
        builder = _BuilderUntil(
            LocalBuilder(
                max_workers=threads, timeout_sec=CANDIDATE_SECONDS, f_build=build_candidate
            ),
            started + seconds if seconds is not None else float("inf"),
        )
        with _pool_of(threads), _until_over(builder, scheduler):
            ms.tune.tune_tasks(
                tasks=[_context(task, threads, seed) for task in tasks],
                task_weights=[float(task.weight) for task in tasks],
                work_dir="",
                max_trials_global=MAX_TRIALS if most == float("inf") else int(most),
                num_trials_per_iter=settings.batch,
                builder=builder,
                runner=LocalRunner(timeout_sec=CANDIDATE_SECONDS),
                database=database,
                measure_callbacks=[*ms.MeasureCallback.create("default"), counter],
                task_scheduler=scheduler,
            )
        spent = time.monotonic() - started
        records = database.get_all_tuning_records()
        if not any(float(record.run_secs[0]) < FAILED_SECONDS for record in records):
            raise TuningError(
                "tuning plain TVM",
                expected="a candidate that was measured",
                found=f"{counter.failed} of {counter.trials} failed in {spent:.0f} s",
                next_step="Give a larger budget.",
            )
        library = ms.relay_integration.compile_relay(
            database, mod, with_cores, given, pass_config={**BUILDS, **cured_config()}
        )
    return PlainTuning(
        library, counter.trials, counter.failed, len(tasks), len(counter.reached), spent
    )


def _context(task: Any, threads: int, seed: int) -> Any:
    """Return the search of one kernel.

    Made here, as TVM's own function reconfigures logging for the whole process.
    """
    return ms.TuneContext(
        mod=task.dispatched[0],
        target=task.target,
        space_generator="post-order-apply",
        search_strategy=ms.search_strategy.EvolutionarySearch(
            population_size=POPULATION,
            init_measured_ratio=MEASURED_SHARE,
            init_min_unmeasured=LEAST_UNMEASURED,
            genetic_num_iters=GENERATIONS,
            eps_greedy=RANDOM_SHARE,
        ),
        task_name=task.task_name,
        logger=_QUIET,
        rand_state=seed + 1,
        num_threads=threads,
    ).clone()


@contextmanager
def _until_over(builder: _BuilderUntil, scheduler: Any) -> Iterator[None]:
    """Take the error that ends a search, as whatever type it comes back from TVM, for its end.

    A round's results come in when the scheduler wants the kernel's next round, which for the first
    is after every kernel had one; those that it did not take yet are taken then.
    """
    try:
        yield
    except Exception:
        if not builder.is_over:
            raise
        for number, task in enumerate(scheduler.tasks_):
            if task.runner_futures is not None:
                scheduler.join_running_task(number)


@contextmanager
def _pool_of(threads: int) -> Iterator[None]:
    """Give TVM's pool that many threads in processes that start in this scope."""
    before = os.environ.get(POOL_SIZE)
    os.environ[POOL_SIZE] = str(threads)
    try:
        yield
    finally:
        del os.environ[POOL_SIZE]
        if before is not None:
            os.environ[POOL_SIZE] = before
