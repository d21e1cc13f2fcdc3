from __future__ import annotations

import pytest

from tests.sampled import few_fast_rows
from tests.tuning.small_tasks import RESOLVED, made_up_task, slowness
from tvm_fusionx.tuning.search import AUTOTVM, METASCHEDULE, Search, make_search
from tvm_fusionx.tuning.task import choice_key

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
