from __future__ import annotations

import random

from tests.search.small_spaces import CNNS, PRUNING, transformers
from tests.search.test_surrogate import judged
from tvm_fusionx.search.caps import TURNS_EACH, CapsStrategy
from tvm_fusionx.search.journal import Result
from tvm_fusionx.search.pruned_spaces import is_pruned, settled
from tvm_fusionx.search.space import Candidate, candidate_key
from tvm_fusionx.search.space_file import PRUNING_METHOD, parse_space
from tvm_fusionx.search.strategies import Informed, Observer
from tvm_fusionx.search.surrogate import INITIAL

METHODS = ["one_shot", "gradual", "admm"]
SPACE = parse_space({**CNNS, "pruning": {**PRUNING, "methods": METHODS}})


def _judged(candidate: Candidate) -> Result:
    """Return a result for which ADMM is best, and cutting at once worst."""
    choices = candidate["choices"]
    cut = sum(value != "none" for name, value in choices.items() if name.endswith(".pruning"))
    better = 0.1 * METHODS.index(choices[PRUNING_METHOD]) * (cut > 0)
    return Result(candidate, 1.0, 0.6 + better - 0.01 * cut, 200.0 - 10 * cut)


def _run(strategy: CapsStrategy, batches: int) -> list[Candidate]:
    found = []
    for _ in range(batches):
        asked = strategy.ask(4)
        for each in asked:
            SPACE.check(each)
        results = [_judged(each) for each in asked]
        strategy.tell([strategy.reward(each) for each in results])
        strategy.observe(results)
        found += asked
    return found


def _cut(candidate: Candidate, method: str) -> Candidate:
    """Return a candidate whose first layer is pruned by an algorithm."""
    name = next(name for name in candidate["choices"] if name.endswith(".pruning"))
    choices = {**candidate["choices"], name: "filter:0.5", PRUNING_METHOD: method}
    return {**candidate, "choices": choices}


def _methods(candidates: list[Candidate]) -> list[str]:
    return [str(e["choices"][PRUNING_METHOD]) for e in candidates if is_pruned(e)]


def test_algorithms_take_turns_until_those_behind_leave() -> None:
    strategy = CapsStrategy(SPACE, 2)
    assert isinstance(strategy, Observer)
    assert isinstance(strategy, Informed)
    first = _run(strategy, INITIAL // 4)
    assert not any(map(is_pruned, first))
    assert strategy.left == METHODS
    turns: list[str] = []
    stages = [METHODS]
    for _ in range(9):
        batch = _methods(_run(strategy, 1))
        assert set(batch) <= set(stages[-1])
        turns += batch
        if strategy.left != stages[-1]:
            stages.append(list(strategy.left))
    assert stages == [METHODS, METHODS[1:], METHODS[2:]]
    assert turns.count("one_shot") <= TURNS_EACH + 2
    again = CapsStrategy(SPACE, 2)
    assert _methods(_run(again, INITIAL // 4 + 9)) == turns


def test_an_algorithm_that_promises_little_keeps_none_waiting() -> None:
    strategy = CapsStrategy(SPACE, 0)
    plain = settled(SPACE, _run(strategy, 1)[0])
    assert strategy.is_open(plain)
    offered = []
    for _ in range(2 * len(METHODS)):
        offered += [each for each in (_cut(plain, m) for m in METHODS) if strategy.is_open(each)]
        strategy.picked(plain)
    assert _methods(offered) == 2 * METHODS


def test_a_network_without_zeros_is_trained_for_one_algorithm() -> None:
    found = _run(CapsStrategy(SPACE, 0), 8)
    assert all(settled(SPACE, each) == each for each in found)
    assert len({candidate_key(each) for each in found}) == len(found)


def test_variants_are_of_the_same_architecture_or_of_another() -> None:
    strategy = CapsStrategy(SPACE, 1)
    parent = _run(strategy, 1)[0]
    generator = random.Random(0)
    children = [strategy.variant(parent, generator) for _ in range(60)]

    def architecture(candidate: Candidate) -> dict[str, object]:
        return {n: v for n, v in candidate["choices"].items() if "pruning" not in n}

    same = [architecture(each) == architecture(parent) for each in children]
    for is_same in (True, False):
        assert any(s == is_same and is_pruned(c) for s, c in zip(same, children, strict=True))
    assert any(not is_pruned(each) for each in children)


def test_a_space_without_algorithms_is_one_search() -> None:
    strategy = CapsStrategy(transformers(), 0)
    for _ in range(4):
        results = [judged(each) for each in strategy.ask(4)]
        strategy.tell([strategy.reward(each) for each in results])
        strategy.observe(results)
    assert strategy.left == []
