"""AutoTVM's tuners over our knobs: grid, random, genetic, and gradient-boosted trees."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.task.space import ConfigSpace
from tvm.autotvm.tuner.model_based_tuner import ModelBasedTuner
from tvm.autotvm.tuner.sa_model_optimizer import SimulatedAnnealingOptimizer

from tvm_fusionx.tuning.cost_model import import_xgboost
from tvm_fusionx.tuning.task import Choice, Space, Task
from tvm_fusionx.tuning.tvm_tuners import knob_cost_model

TASK_PREFIX = "fusionx."

# Trials between two fits of the trees; TVM's 64 are more than most blocks ever get.
PLAN_SIZE = 16
# TVM's 500 steps of 128 walkers take longer than measuring what they find.
ANNEALING_STEPS = 60
ANNEALING_WALKERS = 32
ANNEALING_PATIENCE = 20
POPULATION = 16
# numpy's seeds are 32 bits wide.
SEED_LIMIT = 2**32


def config_space(space: Space) -> Any:
    """Return our knobs as AutoTVM's space, one ``define_knob`` for each."""
    config = ConfigSpace()
    for name, knob in space.knobs.items():
        config.define_knob(name, list(knob.choices))
    return config


def autotvm_task(task: Task, target: tvm.target.Target) -> Any:
    """Return a block as AutoTVM's task; its name is the template's, its argument the block."""
    made = autotvm.task.Task(TASK_PREFIX + task.template, (task.key,))
    made.target = target
    made.config_space = config_space(task.space)
    made.flop = max(1.0, task.flops)
    return made


def choice_of(config: Any) -> dict[str, int]:
    """Return the values of a configuration of :func:`config_space`."""
    return {str(name): int(value) for name, kind, value in config.to_json_dict()["entity"]}


class AutoTVMSearch:
    """One task's tuner of AutoTVM, asked and told by our own loop.

    TVM's ``tune`` is not called, so nothing of ``autotvm.GLOBAL_SCOPE`` is ever left changed.

    Parameters
    ----------
    algorithm
        ``"grid"``, ``"random"``, ``"ga"`` or ``"xgb"``.

    Raises
    ------
    MissingDependencyError
        ``"xgb"`` and xgboost is not installed.
    """

    def __init__(
        self,
        task: Task,
        target: tvm.target.Target,
        algorithm: str,
        *,
        seed: int = 0,
        batch: int = 8,
    ) -> None:
        self._space = task.space
        self._task = autotvm_task(task, target)
        generator = random.Random(f"{seed} {task.key}")
        self._states = (
            generator.getstate(),
            np.random.RandomState(generator.randrange(SEED_LIMIT)).get_state(),
        )
        with self._own_randomness():
            self._tuner = _make_tuner(self._task, algorithm)

    def ask(self, count: int) -> list[dict[str, int]]:
        """Return up to `count` candidates; none when the space is exhausted."""
        if not self._tuner.has_next():
            return []
        with self._own_randomness():
            configs = self._tuner.next_batch(count)
        return [choice_of(config) for config in configs]

    def tell(self, choices: Sequence[Choice], seconds: Sequence[float]) -> None:
        """Learn what candidates took; infinity for those that failed."""
        inputs, results = [], []
        for choice, taken in zip(choices, seconds, strict=True):
            index = self._space.index(choice)
            if index is None:
                continue
            failed = not np.isfinite(taken)
            config = self._task.config_space.get(index)
            inputs.append(MeasureInput(self._task.target, self._task, config))
            error = MeasureErrorNo.RUNTIME_DEVICE if failed else MeasureErrorNo.NO_ERROR
            costs = (RuntimeError("failed"),) if failed else (taken,)
            results.append(MeasureResult(costs, error, 0.0, time.time()))
        if inputs:
            with self._own_randomness():
                self._tuner.update(inputs, results)

    @contextlib.contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """Give TVM's tuners, which draw from the global generators, a state of their own."""
        outside = random.getstate(), np.random.get_state()
        random.setstate(self._states[0])
        np.random.set_state(self._states[1])
        try:
            yield
        finally:
            self._states = random.getstate(), np.random.get_state()
            random.setstate(outside[0])
            np.random.set_state(outside[1])


def _make_tuner(task: Any, algorithm: str) -> Any:
    if algorithm == "grid":
        return autotvm.tuner.GridSearchTuner(task)
    if algorithm == "random":
        return autotvm.tuner.RandomTuner(task)
    if algorithm == "ga":
        return autotvm.tuner.GATuner(task, pop_size=POPULATION)
    if algorithm == "xgb":
        import_xgboost()
        optimizer = SimulatedAnnealingOptimizer(
            task,
            n_iter=ANNEALING_STEPS,
            parallel_size=ANNEALING_WALKERS,
            early_stop=ANNEALING_PATIENCE,
            log_interval=0,
        )
        return ModelBasedTuner(task, knob_cost_model(task), optimizer, PLAN_SIZE)
    raise ValueError(f"search: expected grid, random, ga or xgb; found {algorithm!r}.")
