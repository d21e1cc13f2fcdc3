from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.search.small_spaces import cnns, transformers
from tvm_fusionx.search.space import Candidate, candidate_key
from tvm_fusionx.search.strategies import (
    EvolutionStrategy,
    OptunaStrategy,
    RandomStrategy,
    Strategy,
)

pytest.importorskip("torch", reason="torch is not installed")

from tvm_fusionx.search.controller import ControllerStrategy

MADE: dict[str, Callable[[], Strategy]] = {
    "random": lambda: RandomStrategy(transformers(), 1),
    "evolution": lambda: EvolutionStrategy(transformers(), 1, population=8),
    "controller": lambda: ControllerStrategy(transformers(), 1),
    "tpe": lambda: OptunaStrategy(transformers(), 1),
    "gp": lambda: OptunaStrategy(transformers(), 1, "gp"),
}
# Those that learn, and in how many batches of four.
LEARNERS = {"evolution": 20, "tpe": 20, "controller": 60}


def _worth(candidate: Candidate) -> float:
    """Return what candidates are worth here: few layers, all of them wide."""
    choices = candidate["choices"]
    wide = [value == 32 for name, value in choices.items() if name.endswith("feed_forward")]
    return 0.5 * (choices["layers"] == 1) + 0.5 * sum(wide) / len(wide)


def _proposed(strategy: Strategy, batches: int) -> list[Candidate]:
    proposed = []
    for _ in range(batches):
        asked = strategy.ask(4)
        strategy.tell([_worth(each) for each in asked])
        proposed += asked
    return proposed


@pytest.mark.parametrize("name", MADE)
def test_candidates_are_of_the_space_and_repeat_with_the_seed(name: str) -> None:
    if name in ("tpe", "gp"):
        pytest.importorskip("optuna", reason="optuna is not installed")
    batches = 3 if name == "gp" else 5
    first = _proposed(MADE[name](), batches)
    again = _proposed(MADE[name](), batches)
    assert [candidate_key(each) for each in first] == [candidate_key(each) for each in again]
    for each in first:
        transformers().check(each)


@pytest.mark.parametrize("name", LEARNERS)
def test_rewards_are_learned(name: str) -> None:
    if name == "tpe":
        pytest.importorskip("optuna", reason="optuna is not installed")
    proposed = list(map(_worth, _proposed(MADE[name](), LEARNERS[name])))
    early, late = proposed[:16], proposed[-16:]
    assert sum(late) / 16 > sum(early) / 16 + 0.15


def test_the_oldest_dies() -> None:
    strategy = EvolutionStrategy(cnns(), 0, population=4, tournament=2)
    first = strategy.ask(4)
    strategy.tell([1.0, 0.0, 0.0, 0.0])
    assert len(strategy.ask(4)) == 4
    strategy.tell([0.0] * 4)
    assert not any(each in first for _, each in strategy._alive)


def test_an_unknown_sampler_is_told() -> None:
    pytest.importorskip("optuna", reason="optuna is not installed")
    with pytest.raises(ValueError, match="tpe, gp"):
        OptunaStrategy(cnns(), sampler="grid")
