from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from tests.search.small_spaces import pruned, transformers
from tvm_fusionx.search.journal import Result
from tvm_fusionx.search.pruned_spaces import is_pruned, unpruned
from tvm_fusionx.search.reward import Reward
from tvm_fusionx.search.space import Candidate, candidate_key
from tvm_fusionx.search.surrogate import ASKED_EACH, INITIAL, SurrogateStrategy


def judged(candidate: Candidate, limit_us: float = math.inf) -> Result:
    """Return what a candidate is worth here: large ones are accurate, and slow."""
    choices = candidate["choices"]
    layers = [name for name in choices if name.endswith("feed_forward")]
    us = 50.0 + sum(choices[name] * choices["hidden"] / 16 for name in layers)
    wide = sum(choices[name] == 32 for name in layers) / 3
    accuracy = 0.5 + 0.2 * wide + 0.1 * (choices["hidden"] == 24)
    if us > limit_us:
        return Result(candidate, latency_us=us, failure="slow")
    return Result(candidate, 1.0, accuracy, us)


def _search(strategy: Any, batches: int, limit_us: float = math.inf) -> list[Result]:
    found = []
    for _ in range(batches):
        results = [judged(each, limit_us) for each in strategy.ask(4)]
        strategy.tell([strategy.reward(each) for each in results])
        strategy.observe(results)
        found += results
    return found


@pytest.mark.parametrize("limit", [math.inf, 180.0])
def test_it_finds_the_best_sooner_than_chance(limit: float) -> None:
    space = transformers()
    best = max(Reward(limit)(judged(each)) for each in space.every())
    strategy = SurrogateStrategy(space, 1, Reward(limit))
    found = _search(strategy, 8, limit)
    assert max(each.accuracy for each in found if not math.isnan(each.accuracy)) == best
    # Of what it asks for after the beginning, nothing was known.
    keys = [candidate_key(each.candidate) for each in found[INITIAL:]]
    assert len(set(keys)) == len(keys)
    again = _search(SurrogateStrategy(space, 1, Reward(limit)), 8, limit)
    assert [each.key for each in again] == [each.key for each in found]


def test_a_space_that_is_told_gives_what_is_known() -> None:
    space = transformers().without("layers", [2, 3]).without("hidden", [24])
    strategy = SurrogateStrategy(space, 0)
    found = _search(strategy, 8)
    assert len({each.key for each in found}) <= space.size() == 4
    assert len(found) == 32


def test_it_begins_without_zeros_as_a_search_for_the_architecture_does() -> None:
    part = unpruned(pruned())
    assert part is not None
    whole, alone = SurrogateStrategy(pruned(), 4), SurrogateStrategy(part, 4)
    for _ in range(INITIAL // 4):
        asked = whole.ask(4)
        assert asked == alone.ask(4)
        assert not any(map(is_pruned, asked))
        results = [Result(each, 1.0, 0.5, 10.0 + place) for place, each in enumerate(asked)]
        whole.observe(results)
        alone.observe(results)
    assert any(map(is_pruned, whole.ask(8)))


def test_where_all_without_zeros_is_known_chance_prunes() -> None:
    space = pruned()
    part = unpruned(space)
    assert part is not None
    network = next(iter(part.every()))
    only = space.pinned(network, lambda name: name.endswith(".pruning"))
    asked = SurrogateStrategy(only, 0, None, space).ask(4)
    assert len({candidate_key(each) for each in asked}) == 4
    assert sum(map(is_pruned, asked)) == 3


def test_what_the_compiler_says_is_believed() -> None:
    asked: list[str] = []

    def latency_of(candidate: Mapping[str, Any]) -> float:
        asked.append(candidate_key(candidate))
        # Only what is one layer deep can be built.
        return 50.0 if candidate["choices"]["layers"] == 1 else math.inf

    strategy = SurrogateStrategy(transformers(), 2, Reward(is_front=True))
    _search(strategy, INITIAL // 4)
    strategy.latency_of = latency_of
    chosen = strategy.ask(4)
    assert 4 <= len(asked) == len(set(asked)) <= 4 * ASKED_EACH
    refused = [key for key in asked if math.isinf(strategy._told[key][1])]
    assert not {candidate_key(each) for each in chosen} & set(refused)
    again = SurrogateStrategy(transformers(), 2, Reward(is_front=True))
    _search(again, INITIAL // 4)
    again.latency_of = latency_of
    assert again.ask(4) == chosen


def test_below_the_floor_nothing_is_a_parent() -> None:
    strategy = SurrogateStrategy(transformers(), 3, Reward(is_front=True, floor=0.65))
    found = _search(strategy, 2)
    above = [each.candidate for each in found if each.accuracy > 0.65]
    assert above
    parents = strategy.parents()
    assert parents
    assert all(each in above for each in parents)
