from __future__ import annotations

from tests.search.small_spaces import CNNS, PRUNING, transformers
from tests.search.test_surrogate import judged
from tvm_fusionx.search.caps import ROUNDS, CapsStrategy
from tvm_fusionx.search.journal import Result
from tvm_fusionx.search.space import Candidate
from tvm_fusionx.search.space_file import PRUNING_METHOD, parse_space
from tvm_fusionx.search.strategies import Observer

METHODS = ["one_shot", "gradual", "admm"]
SPACE = parse_space({**CNNS, "pruning": {**PRUNING, "methods": METHODS}})


def _judged(candidate: Candidate) -> Result:
    """Return a result for which ADMM is best, and cutting at once worst."""
    choices = candidate["choices"]
    better = 0.1 * METHODS.index(choices[PRUNING_METHOD])
    cut = sum(value != "none" for name, value in choices.items() if name.endswith(".pruning"))
    return Result(candidate, 1.0, 0.6 + better - 0.01 * cut, 200.0 - 10 * cut)


def _run(strategy: CapsStrategy, batches: int) -> list[str]:
    turns = []
    for _ in range(batches):
        asked = strategy.ask(3)
        (method,) = {str(each["choices"][PRUNING_METHOD]) for each in asked}
        for each in asked:
            SPACE.check(each)
        results = [_judged(each) for each in asked]
        strategy.tell([strategy.reward(each) for each in results])
        strategy.observe(results)
        turns.append(method)
    return turns


def test_algorithms_take_turns_until_those_behind_leave() -> None:
    strategy = CapsStrategy(SPACE, 2)
    assert isinstance(strategy, Observer)
    turns = _run(strategy, 3 * ROUNDS + 2 * ROUNDS + 2)
    assert turns[: 3 * ROUNDS] == METHODS * ROUNDS
    assert turns[3 * ROUNDS : 5 * ROUNDS] == METHODS[1:] * ROUNDS
    assert turns[5 * ROUNDS :] == ["admm"] * 2
    assert strategy.left == ["admm"]
    assert _run(CapsStrategy(SPACE, 2), 3 * ROUNDS) == turns[: 3 * ROUNDS]


def test_what_one_algorithm_learned_all_know() -> None:
    strategy = CapsStrategy(SPACE, 0)
    _run(strategy, 3)
    assert {len(inner.results) for inner in strategy._inner.values()} == {9}


def test_a_space_without_algorithms_is_one_search() -> None:
    strategy = CapsStrategy(transformers(), 0)
    for _ in range(4):
        results = [judged(each) for each in strategy.ask(4)]
        strategy.tell([strategy.reward(each) for each in results])
        strategy.observe(results)
    assert strategy.left == [""]
