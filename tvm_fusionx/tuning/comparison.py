"""Measure the best few against the default in turns, so that neither profits from its place."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.contrib import graph_executor

from tvm_fusionx._tvm.arrays import numpy_of
from tvm_fusionx.devices import DeviceSession, export_kernel
from tvm_fusionx.tuning.bench import Bench
from tvm_fusionx.tuning.task import Task

ROUNDS = 11
# Less than this is no difference: two builds of one kernel differ by as much.
LEAST_GAIN = 1.01
# A candidate must be faster in this share of the rounds.
LEAST_WINS = 0.75
ROUND_MILLISECONDS = 20
WARM_UP_RUNS = 3
# Several kernels or whole models run in turns: they are slow to send, and a phone may take a second
# for a run. A session of trials is shorter, and half over where a trial may begin in it.
COMPARISON_SECONDS = 600.0


@dataclass(frozen=True)
class Comparison:
    """Two sides measured in turns, a time of each for each round."""

    default: tuple[float, ...]
    """Seconds of the default."""

    candidate: tuple[float, ...]
    """Seconds of the candidate."""

    @property
    def ratios(self) -> list[float]:
        """Return how many times faster the candidate was in each round."""
        return [a / b for a, b in zip(self.default, self.candidate, strict=True) if b > 0]

    @property
    def ratio(self) -> float:
        """Return the median of the rounds' ratios; 1 without rounds."""
        return statistics.median(self.ratios) if self.ratios else 1.0

    @property
    def spread(self) -> float:
        """Return the distance between the quartiles of the ratios."""
        if not self.ratios:
            return 0.0
        low, high = np.percentile(self.ratios, [25, 75])
        return float(high - low)

    @property
    def is_better(self) -> bool:
        """Tell whether the candidate is faster beyond what chance explains."""
        wins = sum(ratio > 1 for ratio in self.ratios)
        return self.ratio >= LEAST_GAIN and wins >= LEAST_WINS * len(self.ratios)

    @property
    def verdict(self) -> str:
        """Return the result in words."""
        if self.is_better:
            return "faster"
        slower = Comparison(self.candidate, self.default)
        return "slower" if slower.is_better else "no significant difference"


def in_turns(sides: Sequence[Callable[[], float]], rounds: int) -> list[tuple[float, ...]]:
    """Return the seconds of each side, one for each round, another side first each time."""
    taken: list[list[float]] = [[] for _ in sides]
    for turn in range(rounds):
        for step in range(len(sides)):
            position = (turn + step) % len(sides)
            taken[position].append(sides[position]())
    return [tuple(each) for each in taken]


def _patient_session(bench: Bench) -> DeviceSession:
    return bench.session(lasting=max(COMPARISON_SECONDS, bench.device.session_timeout_seconds))


def compare_kernels(
    bench: Bench,
    task: Task,
    paths: Sequence[Path],
    rounds: int = ROUNDS,
    images: Sequence[Mapping[int, str]] = (),
) -> list[tuple[float, ...]]:
    """Return the seconds of built candidates of a block, measured in turns on the device.

    `images` names, for each, the scopes of the parameters that it takes as OpenCL images.

    Raises
    ------
    DeviceError, DeviceLostError, tvm.TVMError
        The device does not run them.
    """
    return bench.call(_kernels_in_turns, task, list(paths), rounds, list(images))


def _kernels_in_turns(
    bench: Bench,
    task: Task,
    paths: Sequence[Path],
    rounds: int,
    images: Sequence[Mapping[int, str]],
) -> list[tuple[float, ...]]:
    session = _patient_session(bench)
    modules = [session.load(path) for path in paths]
    taken = images or [{} for _ in paths]
    arrays = [bench.arguments(session, task, each) for each in taken]
    timers = [
        module.time_evaluator(
            task.symbol,
            session.context,
            number=1,
            repeat=1,
            min_repeat_ms=bench.timing.milliseconds,
        )
        for module in modules
    ]

    def one_turn(timer: Any, given: list[Any]) -> float:
        return float(timer(*given).results[0])

    turns = [partial(one_turn, *each) for each in zip(timers, arrays, strict=True)]
    return in_turns(turns, rounds)


def compare_models(
    bench: Bench,
    factories: Sequence[Any],
    inputs: Mapping[str, np.ndarray],
    folder: Path,
    rounds: int = ROUNDS,
) -> tuple[list[tuple[float, ...]], list[list[np.ndarray]]]:
    """Measure whole models in turns on the device.

    Parameters
    ----------
    factories
        Graph-executor factory modules built for the device.
    inputs
        One array for each input.
    folder
        Where their libraries go.

    Returns
    -------
    list of tuple of float, list of list of numpy.ndarray
        Seconds of each model, one for each round, and the outputs of each.

    Raises
    ------
    DeviceError, DeviceLostError, tvm.TVMError
        The device does not run them.
    """
    models = [
        (
            factory.get_graph_json(),
            export_kernel(factory.get_lib(), folder / f"model_{number}.so", bench.device),
            bytes(tvm.runtime.save_param_dict(factory.get_params())),
        )
        for number, factory in enumerate(factories)
    ]
    return bench.call(_models_in_turns, models, dict(inputs), rounds)


def _models_in_turns(
    bench: Bench,
    models: Sequence[tuple[str, Path, bytes]],
    inputs: Mapping[str, np.ndarray],
    rounds: int,
) -> tuple[list[tuple[float, ...]], list[list[np.ndarray]]]:
    """Measure models in turns: graph, library and parameters of each."""
    session = _patient_session(bench)
    executors = []
    for graph, path, parameters in models:
        executor = graph_executor.create(graph, session.load(path), session.context)
        executor.load_params(parameters)
        for name, value in inputs.items():
            executor.set_input(name, tvm.nd.array(value, session.context))
        for _ in range(WARM_UP_RUNS):
            executor.run()
        executors.append(executor)
    outputs = [
        [numpy_of(executor.get_output(position)) for position in range(executor.get_num_outputs())]
        for executor in executors
    ]
    timers = [
        executor.module.time_evaluator(
            "run", session.context, number=1, repeat=1, min_repeat_ms=ROUND_MILLISECONDS
        )
        for executor in executors
    ]

    def one_turn(timer: Any) -> float:
        return float(timer().results[0])

    return in_turns([partial(one_turn, timer) for timer in timers], rounds), outputs
