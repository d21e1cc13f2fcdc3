"""Search a sparsity: the least with which a model is fast enough, the most with which it is good.

Both halve the interval of the logarithm of what stays, so that 2x, 4x and 8x are equally far apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm_fusionx.errors import InputError

# Of which hardly anything is left; beyond it structures have a tile or two.
MOST_SPARSITY = 0.98

History = tuple[tuple[float, float], ...]


def least_sparsity(
    latency_of_rate: Callable[[float], float], target_ms: float, trials: int
) -> tuple[float, History]:
    """Return the least sparsity found with which a model takes at most `target_ms`.

    Parameters
    ----------
    latency_of_rate
        Milliseconds of the model at a sparsity, from the compiler: predicted or measured. More
        sparsity is taken to cost no time.
    target_ms
        What it may take.
    trials
        How often to halve.

    Returns
    -------
    sparsity
        0 where the dense model is fast enough.
    history
        ``(sparsity, milliseconds)`` of each trial.

    Raises
    ------
    InputError
        Not even the sparsest model is fast enough.
    """
    history = [(0.0, float(latency_of_rate(0.0)))]
    if history[0][1] <= target_ms:
        return 0.0, tuple(history)
    history.append((MOST_SPARSITY, float(latency_of_rate(MOST_SPARSITY))))
    if history[1][1] > target_ms:
        raise InputError(
            f"target_latency_ms {target_ms:g}",
            expected=f"a time that some sparsity up to {MOST_SPARSITY:g} reaches",
            found=f"{history[0][1]:.3f} ms dense and {history[1][1]:.3f} ms at the most",
            next_step="Allow more time, prune more layers, or take a smaller model.",
        )
    slow, fast = 0.0, MOST_SPARSITY
    for _ in range(trials):
        middle = _between(slow, fast)
        history.append((middle, float(latency_of_rate(middle))))
        if history[-1][1] <= target_ms:
            fast = middle
        else:
            slow = middle
    return fast, tuple(history)


def most_sparsity(
    score_of: Callable[[float], float], target: float, trials: int, most: float = MOST_SPARSITY
) -> tuple[float | None, History]:
    """Return the most sparsity found with which a model scores at least `target`.

    Parameters
    ----------
    score_of
        The score of the model pruned at a sparsity, larger for better.
    target
        What it must reach.
    trials
        How many models are tried.
    most
        The sparsity that is tried first.

    Returns
    -------
    sparsity
        None where no trial was good enough.
    history
        ``(sparsity, score)`` of each trial.
    """
    good, bad = 0.0, most
    found: float | None = None
    history: list[tuple[float, float]] = []
    for trial in range(trials):
        tried = most if trial == 0 else _between(good, bad)
        history.append((tried, float(score_of(tried))))
        if history[-1][1] >= target:
            found = good = tried
            if trial == 0:
                break
        else:
            bad = tried
    return found, tuple(history)


def _between(low: float, high: float) -> float:
    return 1 - math.sqrt((1 - low) * (1 - high))
