"""What a candidate that nobody trained is expected to add to what is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.search.journal import WHOLE, Result
from tvm_fusionx.search.reward import Reward, pareto_front


@dataclass(frozen=True)
class Told:
    """What is believed of candidates: means and deviations of accuracy and of log latency."""

    accuracy: np.ndarray
    accuracy_deviation: np.ndarray
    log_us: np.ndarray
    log_deviation: np.ndarray


def gain(told: Told, results: Sequence[Result], reward: Reward) -> np.ndarray:
    """Return what each candidate is expected to add to what `reward` asks for.

    For accuracy under a limit the improvement of the best accuracy, times the chance to be fast
    enough; for latency the improvement of its logarithm, times the chance to be accurate enough;
    for the front what its area grows by (:func:`front_gain`).
    """
    latency = np.exp(told.log_us)
    limit = np.full(latency.shape, math.log(reward.limit_us) if not reward.is_unlimited else np.inf)
    fast = np.ones(latency.shape) if reward.exponent else _chance(limit, told.log_us, told)
    whole = [each for each in results if each.share == WHOLE and not math.isnan(each.accuracy)]
    kept = [each for each in whole if reward(each) > 0]
    if reward.least_accuracy:
        enough = [math.log(each.latency_us) for each in kept if reward.meets(each)]
        over = (told.accuracy - reward.least_accuracy) / told.accuracy_deviation
        best = min(enough, default=float(told.log_us.max()))
        return fast * _normal(over) * _improvement(-told.log_us, told.log_deviation, -best)
    if reward.is_front:
        return fast * front_gain(told, pareto_front(kept), reward.floor)
    weight = (latency / reward.limit_us) ** reward.exponent if reward.exponent else 1.0
    best = max(map(reward, kept), default=0.0)
    return fast * _improvement(told.accuracy * weight, told.accuracy_deviation * weight, best)


def front_gain(told: Told, front: Sequence[Result], floor: float) -> np.ndarray:
    """Return by how much each candidate is expected to enlarge the area of a front.

    The area is :func:`tvm_fusionx.search.reward.front_area`'s, up to the slowest that is known of:
    at each latency that the candidate does not exceed, what it is expected to be more accurate than
    the best network there, and than the floor. A latency is taken at its mean.
    """
    known = np.array([math.log(each.latency_us) for each in front])
    slowest = max([*known, *told.log_us])
    begins = np.array([min(told.log_us), *known])
    ends = np.array([*known, slowest])
    total = np.zeros(told.log_us.shape)
    for begin, end, best in zip(begins, ends, [floor, *(f.accuracy for f in front)], strict=True):
        width = np.maximum(end - np.maximum(begin, told.log_us), 0.0)
        total += width * _improvement(told.accuracy, told.accuracy_deviation, max(best, floor))
    return total / math.log(2)


def _chance(limit: np.ndarray, mean: np.ndarray, told: Told) -> np.ndarray:
    return _normal((limit - mean) / told.log_deviation)


def _improvement(mean: np.ndarray, deviation: np.ndarray, best: Any) -> np.ndarray:
    """Return the expected improvement of normal variables over `best` (Jones et al., 1998)."""
    over = (mean - best) / deviation
    density = np.exp(-np.square(over) / 2) / math.sqrt(2 * math.pi)
    return deviation * (over * _normal(over) + density)


def _normal(values: np.ndarray) -> np.ndarray:
    return np.array([(1 + math.erf(each / math.sqrt(2))) / 2 for each in values])
