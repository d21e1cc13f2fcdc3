from __future__ import annotations

import pytest

from tests.sampled import few_fast_rows
from tests.tuning.small_tasks import RESOLVED, made_up_task, relu_task, slowness
from tvm_fusionx.tuning.search import AUTOTVM, BOTH, METASCHEDULE, InTurns, Search, make_search
from tvm_fusionx.tuning.task import choice_key
from tvm_fusionx.tuning.trace_search import TraceSearch

TASK = made_up_task()
SEARCHES = [(METASCHEDULE, "xgb"), *((AUTOTVM, each) for each in ("grid", "random", "ga", "xgb"))]


def _search(search: Search, trials: int) -> list[dict[str, int]]:
    seen: dict[object, dict[str, int]] = {}
    for _ in range(trials):
        asked = search.ask(8)
        search.tell(asked, [slowness(choice) for choice in asked])
        seen |= {choice_key(choice): choice for choice in asked}
        if len(seen) >= trials or not asked:
            break
    return list(seen.values())


@pytest.mark.parametrize(("tuner", "algorithm"), few_fast_rows(SEARCHES, 2))
def test_every_search_proposes_choices_of_the_space(tuner: str, algorithm: str) -> None:
    seen = _search(make_search(tuner, TASK, RESOLVED, algorithm=algorithm), 48)
    assert len(seen) >= 40
    assert all(TASK.space.index(choice) is not None for choice in seen)


@pytest.mark.parametrize(("tuner", "algorithm"), few_fast_rows(SEARCHES, 2))
def test_every_search_ends_where_its_space_does(tuner: str, algorithm: str) -> None:
    tiny = made_up_task(sizes=(2, 3))
    seen = _search(make_search(tuner, tiny, RESOLVED, algorithm=algorithm), 40)
    assert len(seen) == 6


def test_an_unknown_tuner() -> None:
    with pytest.raises(ValueError, match="oracle"):
        make_search("oracle", TASK, RESOLVED)


class _Listed:
    """Proposes what it was given, and keeps what it is told."""

    def __init__(self, *names: str) -> None:
        self.left = [{name: 1} for name in names]
        self.told: list[object] = []

    def ask(self, count: int) -> list[dict[str, int]]:
        asked, self.left = self.left[:count], self.left[count:]
        return asked

    def tell(self, choices: object, seconds: object) -> None:
        self.told.append((choices, seconds))


def test_two_searches_take_turns_until_both_are_at_their_end() -> None:
    ours, tvms = _Listed("a", "b", "c"), _Listed("t")
    search = InTurns(ours, tvms)
    assert [search.ask(1) for _ in range(5)] == [[{"a": 1}], [{"t": 1}], [{"b": 1}], [{"c": 1}], []]
    search.tell([{"a": 1}], [2.0])
    assert ours.told == tvms.told == [([{"a": 1}], [2.0])]


def test_without_knobs_both_spaces_are_tvms() -> None:
    assert isinstance(make_search(AUTOTVM, relu_task(), RESOLVED, space=BOTH), TraceSearch)
