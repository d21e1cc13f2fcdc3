"""What a search wants: accuracy under a latency limit, hard or soft, and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tvm_fusionx.search.journal import Result

# MnasNet (Tan et al., 2019), section 3: doubling the latency is worth 5 % of accuracy.
SOFT_EXPONENT = -0.07


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
    """

    limit_us: float = math.inf
    exponent: float = 0.0

    def __post_init__(self) -> None:
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

    def __call__(self, result: Result) -> float:
        """Return the reward, 0 for what failed."""
        if math.isnan(result.accuracy) or not self.allows(result.latency_us):
            return 0.0
        if not self.exponent:
            return result.accuracy
        return float(result.accuracy * (result.latency_us / self.limit_us) ** self.exponent)


def pareto_front(results: Iterable[Result]) -> list[Result]:
    """Return the results that no other beats in both, the fastest first."""
    usable = [r for r in results if not math.isnan(r.accuracy) and math.isfinite(r.latency_us)]
    front: list[Result] = []
    for result in sorted(usable, key=lambda r: (r.latency_us, -r.accuracy)):
        if not front or result.accuracy > front[-1].accuracy:
            front.append(result)
    return front
