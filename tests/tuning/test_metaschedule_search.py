from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import tvm

from tests.tuning.small_tasks import RESOLVED, dense_task, made_up_task, slowness
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.tuning.cost_model import CostModel, TaskFeatures
from tvm_fusionx.tuning.metaschedule_search import (
    MetaScheduleSearch,
    choice_of,
    design_space,
    traced,
)
from tvm_fusionx.tuning.task import choice_key

TASK = made_up_task()


def test_the_design_space_samples_every_knob() -> None:
    task = dense_task()
    sch = tvm.tir.Schedule(tvm.IRModule({"main": task.func}), seed=1)
    design_space(task.space)(sch)
    assert task.space.index(choice_of(sch)) is not None


def test_a_choice_can_be_written_as_a_trace() -> None:
    choice = TASK.space.choice(77)
    assert choice_of(traced(TASK, choice)) == choice


def test_no_candidate_comes_twice() -> None:
    search = MetaScheduleSearch(TASK, RESOLVED, CostModel())
    asked = []
    for _ in range(4):
        choices = search.ask(5)
        search.tell(choices, [slowness(choice) for choice in choices])
        asked += [choice_key(choice) for choice in choices]
    assert len(asked) == len(set(asked)) == 16


@pytest.mark.slow
def test_evolution_follows_the_cost_model() -> None:
    task = made_up_task(sizes=(24, 24, 24))
    model = CostModel()
    features = TaskFeatures.of(task)
    search = MetaScheduleSearch(task, RESOLVED, model, seed=1)
    rounds = []
    for _ in range(8):
        choices = search.ask(8)
        taken = [slowness(choice) for choice in choices]
        search.tell(choices, taken)
        for choice, seconds in zip(choices, taken, strict=True):
            model.add(features, choice, seconds, slowness(task.space.default))
        rounds.append(float(np.median(taken)))
    assert np.mean(rounds[-3:]) < rounds[0] / 2


def test_failures_and_candidates_of_others_are_taken() -> None:
    search = MetaScheduleSearch(TASK, RESOLVED, CostModel())
    search.tell([TASK.space.default, {"knob_0": 99}], [1.0, 1.0])
    asked = search.ask(8)
    search.tell(asked, [math.inf] * len(asked))
    assert search.ask(8)


def test_xgboost_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingDependencyError, match="xgboost"):
        MetaScheduleSearch(TASK, RESOLVED, CostModel())
