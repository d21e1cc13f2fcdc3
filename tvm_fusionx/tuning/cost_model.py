"""What trials teach about trials to come: gradient-boosted trees over knobs and block sizes.

One model for blocks of the same template and knobs, since knobs are its features. What is learned
is relative, the speed-up over the default, so that blocks of different sizes teach each other.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_fusionx._tvm.presence import install_command
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.tuning.task import Choice, Task

# Fewer samples than this teach nothing.
LEAST_SAMPLES = 8
# A failed candidate counts as this many doublings slower than the default.
FAILURE_SCORE = -3.0

# Shallow trees and few rounds: a session has tens of samples of a block.
BOOSTING_ROUNDS = 60
TREES = {
    "max_depth": 4,
    "eta": 0.2,
    "min_child_weight": 1,
    "lambda": 1.0,
    "objective": "reg:squarederror",
    "verbosity": 0,
    "nthread": 1,
}


@dataclass(frozen=True)
class TaskFeatures:
    """What the model sees of a block beside its knobs."""

    template: str
    default: Mapping[str, int]
    most: Mapping[str, int]
    flops: float
    moved_bytes: float

    @classmethod
    def of(cls, task: Task) -> TaskFeatures:
        """Return the features of a task."""
        return cls(
            task.template,
            task.space.default,
            {name: max(knob.choices) for name, knob in task.space.knobs.items()},
            task.flops,
            task.work.bytes,
        )

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> TaskFeatures:
        """Return the features that :meth:`to_json` wrote; `KeyError` where they are not there."""
        return cls(**{name: row[name] for name in cls.__dataclass_fields__})

    def to_json(self) -> dict[str, Any]:
        """Return the features as a dictionary that ``json.dumps`` takes."""
        return {
            "template": self.template,
            "default": dict(self.default),
            "most": dict(self.most),
            "flops": self.flops,
            "moved_bytes": self.moved_bytes,
        }

    @property
    def kind(self) -> tuple[str, ...]:
        """Return what blocks that teach each other have in common: template and knobs."""
        return (self.template, *sorted(self.default))

    def row(self, choice: Choice) -> list[float]:
        """Return the numbers the trees split on, for one candidate.

        Beside each knob the product of each two: what a tile takes of registers or of a cache is
        one, and trees that split on one knob at a time find it from many more samples.
        """
        names = sorted(self.default)
        default = {name: _log(self.default[name]) for name in names}
        value = {name: _log(choice.get(name, self.default[name])) for name in names}
        numbers = [_log(self.flops), _log(self.moved_bytes)]
        for name in names:
            most = _log(self.most[name])
            numbers += [value[name], value[name] - default[name], value[name] - most]
        for one, other in itertools.combinations(names, 2):
            product = value[one] + value[other]
            numbers += [product, product - default[one] - default[other]]
        return numbers


def _log(value: float) -> float:
    # Knobs begin at 0.
    return math.log2(1.0 + max(0.0, value))


@dataclass
class _Samples:
    rows: list[list[float]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    defaults: list[list[float]] = field(default_factory=list)
    booster: Any = None
    fitted: int = 0

    @property
    def tried(self) -> int:
        """Return the number of samples that are no block's default."""
        return len(self.rows) - len(self.defaults)


class CostModel:
    """Predicts how many doublings faster than the default a candidate is.

    Samples are added at any time; the trees are fitted anew when they are asked and there are half
    as many samples more.
    """

    def __init__(self) -> None:
        self._by_kind: dict[tuple[str, ...], _Samples] = defaultdict(_Samples)

    def add(
        self, features: TaskFeatures, choice: Choice, seconds: float, default_seconds: float
    ) -> None:
        """Learn what a candidate took, infinity for one that failed.

        With the first of a block, its default is learned too: no doubling faster than itself.
        """
        score = FAILURE_SCORE
        if math.isfinite(seconds) and seconds > 0 and math.isfinite(default_seconds):
            score = max(FAILURE_SCORE, math.log2(default_seconds / seconds))
        samples = self._by_kind[features.kind]
        default = features.row(features.default)
        if default not in samples.defaults:
            samples.defaults.append(default)
            samples.rows.append(default)
            samples.scores.append(0.0)
        samples.rows.append(features.row(choice))
        samples.scores.append(score)

    def knows(self, features: TaskFeatures) -> bool:
        """Tell whether there are samples enough to predict for a block."""
        return self._by_kind[features.kind].tried >= LEAST_SAMPLES

    def predict(self, features: TaskFeatures, choices: Sequence[Choice]) -> np.ndarray:
        """Return a score for each candidate, float64; zeros where nothing is known.

        Raises
        ------
        MissingDependencyError
            xgboost is not installed.
        """
        samples = self._by_kind[features.kind]
        if not choices or samples.tried < LEAST_SAMPLES:
            return np.zeros(len(choices))
        xgboost = import_xgboost()
        if samples.booster is None or 2 * len(samples.rows) >= 3 * samples.fitted:
            data = xgboost.DMatrix(np.asarray(samples.rows), np.asarray(samples.scores))
            samples.booster = xgboost.train(TREES, data, num_boost_round=BOOSTING_ROUNDS)
            samples.fitted = len(samples.rows)
        rows = np.asarray([features.row(choice) for choice in choices])
        return np.asarray(samples.booster.predict(xgboost.DMatrix(rows)), dtype="float64")


def import_xgboost() -> Any:
    """Return the module.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    try:
        import xgboost
    except ImportError as error:
        raise MissingDependencyError(
            "xgboost",
            expected="the package, which learns what is worth measuring",
            found="none",
            next_step=f"Install it with: {install_command('xgboost')}; or tune with --tuner autotvm"
            " --search ga.",
        ) from error
    return xgboost
