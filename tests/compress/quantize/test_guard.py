from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from tests.compress.quantize.small_networks import ignore
from tvm_fusionx.compress.quantize.guard import Guarded, guard
from tvm_fusionx.compress.quantize.journal import TrialJournal
from tvm_fusionx.compress.quantize.score import Score
from tvm_fusionx.errors import InputError


class _Judge:
    """Adds up what each layer costs; every model scored is counted."""

    def __init__(self, costs: dict[str, float]) -> None:
        self.costs, self.scored = costs, 0
        self.float_score = Score(1.0, 0.0)

    def score(self, active: Collection[str]) -> Score:
        self.scored += 1
        cost = sum(self.costs[name] for name in active)
        return Score(1 - cost, cost)

    def drop(self, score: Score) -> float:
        return self.float_score.value - score.value


COSTS = {"a": 0.001, "b": 0.3, "c": 0.002, "d": 0.05, "e": 0.0}


def _guarded(costs: dict[str, float], max_drop: float, **options: Any) -> tuple[Guarded, _Judge]:
    judge: Any = _Judge(costs)
    journal = options.pop("journal", TrialJournal(None, ""))
    names = list(costs)
    done = guard(names, list, judge, journal, max_drop=max_drop, on_stage=ignore, **options)
    return done, judge


@pytest.mark.parametrize(
    ("max_drop", "kept"),
    [
        (1.0, ""),
        (0.1, "b"),
        (0.01, "bd"),
        (0.0035, "bd"),
        (0.0025, "bcd"),
        (0.0015, "bcd"),
        (0.0, "abcd"),
    ],
)
def test_the_costly_stay_in_float_and_no_other(max_drop: float, kept: str) -> None:
    done, judge = _guarded(COSTS, max_drop + 1e-9)
    assert sorted(set(COSTS) - done.active) == sorted(kept)
    assert judge.drop(done.score) <= max_drop + 1e-9
    assert done.full_score is not None
    assert done.trials == judge.scored


def test_one_trial_is_enough_where_all_is_well() -> None:
    done, judge = _guarded(COSTS, 1.0)
    assert judge.scored == 1
    assert not done.alone


def test_costs_that_no_rank_foretells_are_kept_to_all_the_same() -> None:
    class Together(_Judge):
        def score(self, active: Collection[str]) -> Score:
            # Each alone costs nothing, any three cost everything.
            self.scored += 1
            cost = 0.0 if len(active) < 3 else 0.9
            return Score(1 - cost, cost)

    judge: Any = Together(COSTS)
    done = guard(list(COSTS), list, judge, TrialJournal(None, ""), max_drop=0.1, on_stage=ignore)
    assert len(done.active) == 2
    assert judge.drop(done.score) == 0


def test_a_spent_budget_gives_the_best_so_far() -> None:
    clock = iter(float(second) for second in range(100))
    done, judge = _guarded(COSTS, 0.01, budget_seconds=3, clock=lambda: next(clock))
    assert done.is_out_of_time
    assert judge.drop(done.score) <= 0.01
    assert judge.scored == 2
    # Of those tried, one layer alone.
    assert done.active == {"a"}


def test_no_time_at_all_gives_the_model_in_float() -> None:
    done, judge = _guarded(COSTS, 0.01, budget_seconds=0, clock=lambda: 5.0)
    assert (done.active, done.full_score, judge.scored) == (frozenset(), None, 0)


def test_what_is_known_is_not_scored_again(tmp_path: Path) -> None:
    first, _ = _guarded(COSTS, 0.01, journal=TrialJournal(tmp_path / "j", ""))
    journal = TrialJournal(tmp_path / "j", "", resume=True)
    second, judge = _guarded(COSTS, 0.01, journal=journal)
    assert second.active == first.active
    assert judge.scored == 0


@pytest.mark.parametrize("max_drop", [-0.1, float("nan")])
def test_a_bound_below_nothing_is_refused(max_drop: float) -> None:
    with pytest.raises(InputError, match="max_drop"):
        _guarded(COSTS, max_drop)
