"""Numbers that change with the steps: sparsity, the penalty of ADMM, the learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence


def cubic_sparsity(progress: float, target: float, initial: float = 0.0) -> float:
    """Return the sparsity at a share of the way (Zhu and Gupta, 2017, equation 1).

    Parameters
    ----------
    progress
        0 at the beginning, 1 at the end and after it.
    target, initial
        Sparsities at the end and at the beginning.
    """
    left = 1 - min(1.0, max(0.0, progress))
    return target + (initial - target) * left**3


def stage_of(step: int, steps: int, values: Sequence[float]) -> float:
    """Return the value of the stage that a step is in: `steps` in equal stages, one a value."""
    return values[min(len(values) - 1, step * len(values) // max(1, steps))]


def learning_rate(step: int, steps: int, highest: float, warm_up: float) -> float:
    """Return the rate of a step: a line up to `highest`, then a half cosine down to zero.

    Parameters
    ----------
    step, steps
        The step, and how many there are.
    highest
        The largest rate.
    warm_up
        Share of the steps in which the rate rises.
    """
    rising = max(1, round(warm_up * steps))
    if step < rising:
        return highest * (step + 1) / rising
    return highest * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising))) / 2
