"""TVM's own space, asked and told as the knobs of our templates are."""

from __future__ import annotations

import math
import sys

import pytest

from tests.tuning.small_tasks import RESOLVED, dense_task, relu_task, unchanged_random_state
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.schedules.traced import schedule_by_trace, why_not_readable
from tvm_fusionx.tuning.task import TRACE
from tvm_fusionx.tuning.trace_search import TraceSearch


@pytest.mark.slow
def test_candidates_are_schedules_of_the_block_and_none_comes_twice() -> None:
    task = dense_task()
    search = TraceSearch(task, RESOLVED, batch=4)
    asked = []
    for _ in range(2):
        with unchanged_random_state():
            choices = search.ask(4)
        assert len(choices) == 4
        assert all(set(choice) == {TRACE} for choice in choices)
        search.tell(choices, [1e-3, 2e-3, math.inf, 1e-4])
        asked += [str(choice[TRACE]) for choice in choices]
    assert len(set(asked)) == len(asked)
    assert [why_not_readable(text) for text in asked] == [None] * len(asked)
    assert schedule_by_trace(task.func, asked[0]).func != task.func


@pytest.mark.slow
def test_what_an_earlier_part_of_the_session_measured_is_taken() -> None:
    task = relu_task()
    asked = TraceSearch(task, RESOLVED, batch=4).ask(4)
    search = TraceSearch(task, RESOLVED, batch=4)
    # Knobs of our template, and a trace that fits no block, are not its own.
    search.tell([*asked, {"tile_rows": 4}, {TRACE: "[]"}], [1e-3] * (len(asked) + 2))
    assert all(set(choice) == {TRACE} for choice in search.ask(4))


def test_xgboost_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingDependencyError, match="xgboost"):
        TraceSearch(relu_task(), RESOLVED)
