"""What a tuning session may spend, and how it searches."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_fusionx.tuning.search import ALGORITHMS, FUSIONX, METASCHEDULE, SPACES, TUNERS

DEFAULT_TRIALS = 200


@dataclass(frozen=True)
class Settings:
    """How a session searches; two sessions of equal settings propose the same first candidates."""

    tuner: str = METASCHEDULE
    """``"metaschedule"`` or ``"autotvm"``."""

    algorithm: str = ALGORITHMS[0]
    """Of AutoTVM: ``"xgb"``, ``"ga"``, ``"random"`` or ``"grid"``."""

    space: str = FUSIONX
    """``"fusionx"``, our templates' knobs; ``"tvm"``, MetaSchedule's own space; or ``"both"``."""

    trials: int | None = None
    """Candidates to measure over all blocks; without it and a budget, :data:`DEFAULT_TRIALS`."""

    budget_seconds: float | None = None
    """Time for all of it; a part is kept for the last comparisons."""

    seed: int = 0
    """Of everything that is drawn."""

    batch: int = 8
    """Candidates of a block that are built and measured before the search is asked again."""

    finalists: int = 3
    """Candidates of a block that are measured in turns with the default at the end."""

    rounds: int = 11
    """Turns of those measurements."""

    transfer: bool = True
    """Whether older trials on this device choose a block's first candidates."""

    def __post_init__(self) -> None:
        if self.tuner not in TUNERS:
            raise ValueError(f"tuner: expected one of {TUNERS}; found {self.tuner!r}.")
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"search: expected one of {ALGORITHMS}; found {self.algorithm!r}.")
        if self.space not in SPACES:
            raise ValueError(f"space: expected one of {SPACES}; found {self.space!r}.")
        for name in ("trials", "budget_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name}: expected more than 0; found {value}.")

    @property
    def most_trials(self) -> float:
        """Return how many candidates may be measured; infinity where only time counts."""
        if self.trials is not None:
            return self.trials
        return DEFAULT_TRIALS if self.budget_seconds is None else float("inf")
