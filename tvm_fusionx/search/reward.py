"""What a search wants: accuracy under a latency limit, hard or soft, latency, or the front."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tvm_fusionx.search.journal import Result

# MnasNet (Tan et al., 2019), section 3: doubling the latency is worth 5 % of accuracy.
SOFT_EXPONENT = -0.07
# Latencies are told relative to this where there is no limit.
REFERENCE_US = 1000.0


@dataclass(frozen=True)
class Reward:
    """A number that is larger for better networks.

    Attributes
    ----------
    limit_us
        The latency that is asked for; infinite where none is.
    exponent
        0 for a hard limit: a network above it is worth nothing and need not be trained. Otherwise
        accuracy times ``(latency / limit) ** exponent``, as in MnasNet.
    least_accuracy
        Where above 0, the fastest network that is so accurate is asked for. What is not is worth
        its accuracy, what is more than 1.
    is_front
        Whether the Pareto front is asked for: then a network is worth MnasNet's product, and a
        search that knows the front looks for what is beyond it.
    floor
        Of the front: what a network must be more accurate than. One that is not is worth nothing,
        however fast, and the front's area counts what lies above.
    """

    limit_us: float = math.inf
    exponent: float = 0.0
    least_accuracy: float = 0.0
    is_front: bool = False
    floor: float = 0.0

    def __post_init__(self) -> None:
        wants = bool(self.exponent) + bool(self.least_accuracy) + self.is_front
        if not 0 <= self.least_accuracy <= 1 or wants > 1:
            raise ValueError(
                f"reward: expected an accuracy between 0 and 1, and one of that, an exponent and "
                f"the front; found {self.least_accuracy}, {self.exponent}, {self.is_front}. "
                f"Choose one."
            )
        if not 0 <= self.floor < 1 or (self.floor and not self.is_front):
            raise ValueError(
                f"reward: expected a floor from 0 to below 1, of the front alone; found "
                f"{self.floor}. Ask for the front, or leave it out."
            )
        if not self.limit_us > 0 or self.exponent > 0 or (self.exponent and self.is_unlimited):
            raise ValueError(
                f"reward: expected a limit above 0 and an exponent of 0 or less, which needs a "
                f"limit; found {self.limit_us} and {self.exponent}. Correct them."
            )

    @property
    def is_unlimited(self) -> bool:
        """Tell whether any latency will do."""
        return math.isinf(self.limit_us)

    def allows(self, latency_us: float) -> bool:
        """Tell whether a network that takes so long is worth training."""
        return math.isfinite(latency_us) and (self.exponent < 0 or latency_us <= self.limit_us)

    def meets(self, result: Result) -> bool:
        """Tell whether a result is all that is asked for."""
        return self(result) > 0 and result.accuracy >= self.least_accuracy

    def __call__(self, result: Result) -> float:
        """Return the reward, 0 for what failed."""
        accuracy = result.accuracy
        if math.isnan(accuracy) or not self.allows(result.latency_us):
            return 0.0
        if self.least_accuracy:
            is_enough = accuracy >= self.least_accuracy
            return 1 + 1 / (1 + result.latency_us / REFERENCE_US) if is_enough else accuracy
        if self.is_front and accuracy <= self.floor:
            return 0.0
        if self.is_front:
            return float(accuracy * (result.latency_us / REFERENCE_US) ** SOFT_EXPONENT)
        if not self.exponent:
            return accuracy
        return float(accuracy * (result.latency_us / self.limit_us) ** self.exponent)


def pareto_front(results: Iterable[Result]) -> list[Result]:
    """Return the results that no other beats in both, the fastest first."""
    usable = [r for r in results if not math.isnan(r.accuracy) and math.isfinite(r.latency_us)]
    front: list[Result] = []
    for result in sorted(usable, key=lambda r: (r.latency_us, -r.accuracy)):
        if not front or result.accuracy > front[-1].accuracy:
            front.append(result)
    return front


def front_area(results: Iterable[Result], slowest_us: float, floor: float = 0.0) -> float:
    """Return the area that a front takes: accuracy above a floor, over doublings of speed.

    It is the hypervolume whose reference point is the floor and the slowest latency: what is below
    the one or above the other adds nothing.
    """
    front = pareto_front(r for r in results if r.latency_us <= slowest_us and r.accuracy > floor)
    ends = [*(each.latency_us for each in front[1:]), slowest_us][: len(front)]
    return sum(
        (each.accuracy - floor) * math.log2(end / each.latency_us)
        for each, end in zip(front, ends, strict=True)
    )
