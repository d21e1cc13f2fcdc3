"""How good a quantised model is: by the caller's metric, or by how far its outputs move."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from tvm_fusionx.compress.quantize.runner import Runner, runner
from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.errors import InputError

Metric = Callable[..., float]
"""From a runner, and the validation set where there is one, to a number; more is better."""

TOP1 = "top1"

# Samples on which outputs are compared: their outputs in float stay in memory.
COMPARED_SAMPLES = 16

# The divergence of outputs that are NaN or infinite where those in float are numbers, or the other
# way: more than a model may have, and still a number.
LOST = 1e30

DIVERGENCE = "output divergence on the calibration set"


@dataclass(frozen=True)
class Score:
    """One model's.

    Attributes
    ----------
    value
        The metric's, or the divergence's negative.
    divergence
        Squares of the differences of the outputs from those in float, relative to the squares of
        those, the mean of outputs and samples.
    """

    value: float
    divergence: float


class Judge:
    """Scores models against the one in float.

    Parameters
    ----------
    model
        In float.
    samples
        On which outputs are compared.
    metric
        None, ``"top1"``, or a function. See :func:`tvm_fusionx.quantize`.
    validation
        What the metric gets as its second argument.
    engine
        What runs models.
    """

    def __init__(
        self,
        model: Any,
        samples: Samples,
        metric: Metric | str | None,
        validation: Iterable[Any] | None,
        engine: str,
    ) -> None:
        self._engine, self._samples, self._validation = engine, samples, validation
        self._metric = _metric_of(metric, validation)
        run = runner(model, engine)
        self._exact = [run(sample) for sample in islice(samples, COMPARED_SAMPLES)]
        self.name = DIVERGENCE if self._metric is None else _name_of(metric)
        self.float_score = Score(self._value(run, 0.0), 0.0)

    @property
    def is_metric(self) -> bool:
        """Tell whether the caller's metric judges."""
        return self._metric is not None

    def score(self, model: Any) -> Score:
        """Return a model's score."""
        run = runner(model, self._engine)
        divergence = self._moved(run)
        return Score(self._value(run, divergence), divergence)

    def _moved(self, run: Runner) -> float:
        compared = islice(self._samples, COMPARED_SAMPLES)
        pairs = zip(compared, self._exact, strict=True)
        return float(np.mean([_divergence(run(sample), exact) for sample, exact in pairs]))

    def divergence(self, model: Any) -> float:
        """Return how far a model's outputs are from those in float; the metric is not asked."""
        return self._moved(runner(model, self._engine))

    def drop(self, score: Score) -> float:
        """Return how much worse than in float a score is."""
        return self.float_score.value - score.value

    def _value(self, run: Runner, divergence: float) -> float:
        if self._metric is None:
            return -divergence
        arguments = [run] if self._validation is None else [run, self._validation]
        value = float(self._metric(*arguments))
        if not math.isfinite(value):
            raise InputError(
                f"metric {self.name}",
                expected="a finite number, larger for better",
                found=str(value),
                next_step="Mend the function, or leave it out to compare outputs.",
            )
        return value


def _metric_of(metric: Metric | str | None, validation: Iterable[Any] | None) -> Metric | None:
    if metric == TOP1:
        if validation is None:
            raise InputError(
                "metric 'top1'",
                expected="validation, a list of pairs of inputs and the right class",
                found="none",
                next_step="Give validation=[(inputs, label), ...].",
            )
        return top1
    if metric is None or callable(metric):
        return metric
    raise InputError(
        f"metric {metric!r}",
        expected="'top1', a function from a runner to a number, or None",
        found=type(metric).__name__,
        next_step="Write a function of run, which takes inputs by name and returns the outputs.",
    )


def _name_of(metric: Metric | str | None) -> str:
    return metric if isinstance(metric, str) else getattr(metric, "__name__", "the metric")


def top1(run: Runner, validation: Iterable[tuple[Any, Any]]) -> float:
    """Return the share of rows whose largest first output is the one of their label.

    Parameters
    ----------
    validation
        Pairs: inputs by name, and the labels of the rows, an integer or an array of them.
    """
    right = total = 0
    for inputs, labels in validation:
        wanted = np.atleast_1d(np.asarray(labels))
        found = run(inputs)[0].reshape(len(wanted), -1).argmax(axis=1)
        right += int((found == wanted).sum())
        total += len(wanted)
    return right / total if total else float("nan")


def _divergence(found: list[np.ndarray], exact: list[np.ndarray]) -> float:
    parts = []
    for ours, theirs in zip(found, exact, strict=True):
        if theirs.dtype.kind != "f":
            continue
        wide = theirs.astype(np.float64)
        # A masked logit is minus infinity, in both.
        is_number = np.isfinite(wide)
        if not np.array_equal(np.isfinite(ours), is_number):
            parts.append(LOST)
            continue
        told = wide[is_number]
        wrong, right = np.square(ours[is_number] - told).sum(), np.square(told).sum()
        parts.append(float(wrong / right) if right else float(wrong))
    return float(np.mean(parts)) if parts else 0.0
