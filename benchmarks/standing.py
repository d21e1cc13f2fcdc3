"""How ours stands beside the other runtimes: ratios of times, turn by turn, with an interval.

A shared machine is faster in one minute than in the next. Two sides of one turn ran within seconds
of each other, so the ratio of a turn is free of most of that; the median over the turns is told,
with the interval between two order statistics that holds the true median in 95 of 100 cases,
whatever the times are distributed like.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import quantile_test

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_runs import NOT_PEERS, OURS, MeasuredRun, is_right

CONFIDENCE = 0.95


@dataclass(frozen=True)
class SideRatio:
    """The time of another side over ours.

    Attributes
    ----------
    value
        Above 1 where ours is faster.
    low, high
        Where the median lies in 95 of 100 cases; nan where the turns are not told or too few.
    """

    value: float
    low: float = math.nan
    high: float = math.nan

    @property
    def has_interval(self) -> bool:
        """Whether there were turns enough to tell chance apart."""
        return not math.isnan(self.low)

    def __str__(self) -> str:
        """Return the ratio, and its interval where there is one."""
        if not self.has_interval:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"


def ratio_to_ours(result: Mapping[str, Any], side: str) -> SideRatio:
    """Return the time of `side` over ours, of a result that has both.

    Older results do not tell their turns: the ratio is that of the medians, without an interval.
    """
    theirs, ours = (result["latency_ms"][each] for each in (side, OURS))
    turns = [row.get("turns", ()) for row in (theirs, ours)]
    if not turns[0] or len(turns[0]) != len(turns[1]):
        return SideRatio(theirs["median"] / ours["median"])
    ratios = np.asarray(turns[0]) / np.asarray(turns[1])
    interval = quantile_test(ratios, p=0.5).confidence_interval(CONFIDENCE)
    return SideRatio(float(np.median(ratios)), float(interval.low), float(interval.high))


def best_peer(result: Mapping[str, Any]) -> tuple[str, SideRatio] | None:
    """Return the fastest other runtime and its time over ours; None where none was timed.

    One that computed something else is no rival; where ours did, there is no comparison.
    """
    if not is_right(result, OURS):
        return None
    peers = {
        side: ratio_to_ours(result, side)
        for side in result["latency_ms"]
        if side not in NOT_PEERS and is_right(result, side)
    }
    return min(peers.items(), key=lambda item: item[1].value, default=None)


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean; nan of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def summary(run: MeasuredRun) -> str:
    """Return in a few sentences how we stand."""
    best = [found[1] for found in map(best_peer, run.results) if found is not None]
    over_tvm = [
        ratio_to_ours(each, "tvm").value
        for each in run.results
        if "tvm" in each["latency_ms"] and is_right(each, "tvm") and is_right(each, OURS)
    ]
    first = sum(ratio.value > 1 for ratio in best)
    return (
        f"Ours is the fastest on {first} of {len(best)} models{_not_by_chance(best)}; against the "
        f"best other runtime of each, {geometric_mean(ratio.value for ratio in best):.2f} times as "
        f"fast in the geometric mean, and {geometric_mean(over_tvm):.2f} times as fast as TVM's "
        "default."
    )


def _not_by_chance(best: list[SideRatio]) -> str:
    """Return on how many models the interval says so too; nothing where intervals are missing."""
    if not best or not all(ratio.has_interval for ratio in best):
        return ""
    ahead, behind = sum(ratio.low > 1 for ratio in best), sum(ratio.high < 1 for ratio in best)
    return (
        f" (on {ahead} beyond chance, on {behind} slower beyond chance, level on "
        f"{len(best) - ahead - behind})"
    )
