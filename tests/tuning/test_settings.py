from __future__ import annotations

import math

import pytest

from tvm_fusionx.tuning.settings import DEFAULT_TRIALS, Settings


def test_the_budget_is_trials_or_time() -> None:
    assert Settings().most_trials == DEFAULT_TRIALS
    assert Settings(trials=7, budget_seconds=9).most_trials == 7
    assert math.isinf(Settings(budget_seconds=9).most_trials)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tuner": "oracle"},
        {"algorithm": "magic"},
        {"space": "outer"},
        {"trials": 0},
        {"budget_seconds": -1.0},
    ],
)
def test_wrong_settings(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong)).replace("algorithm", "search")):
        Settings(**wrong)  # type: ignore[arg-type]
