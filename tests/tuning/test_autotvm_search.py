from __future__ import annotations

import math

import numpy as np
import pytest
from tvm import autotvm

from tests.tuning.small_tasks import RESOLVED, made_up_task, slowness, unchanged_random_state
from tvm_fusionx.tuning.autotvm_search import (
    AutoTVMSearch,
    autotvm_task,
    choice_of,
    config_space,
)

TASK = made_up_task()


def test_autotvms_space_is_ours() -> None:
    config = config_space(TASK.space)
    assert len(config) == len(TASK.space)
    for index in (0, 5, 77, 255):
        assert choice_of(config.get(index)) == TASK.space.choice(index)


def test_the_task_is_named_after_template_and_block() -> None:
    made = autotvm_task(TASK, RESOLVED)
    assert (made.name, made.args) == ("fusionx.dot", ("k",))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["grid", "random", "ga", "xgb"])
def test_nothing_global_is_left_changed(algorithm: str) -> None:
    search = AutoTVMSearch(TASK, RESOLVED, algorithm)
    with unchanged_random_state():
        for _ in range(4):
            asked = search.ask(8)
            search.tell(asked, [slowness(choice) for choice in asked])
    assert not autotvm.GLOBAL_SCOPE.in_tuning


def test_a_seed_gives_the_same_candidates() -> None:
    first, second = (AutoTVMSearch(TASK, RESOLVED, "random", seed=3).ask(8) for _ in range(2))
    assert first == second != AutoTVMSearch(TASK, RESOLVED, "random", seed=4).ask(8)


@pytest.mark.slow
def test_trees_lead_to_better_candidates_than_chance() -> None:
    task = made_up_task(sizes=(24, 24, 24))
    search = AutoTVMSearch(task, RESOLVED, "xgb", seed=1)
    rounds = []
    for _ in range(7):
        asked = search.ask(8)
        taken = [slowness(choice) for choice in asked]
        search.tell(asked, taken)
        rounds.append(float(np.median(taken)))
    assert np.mean(rounds[-3:]) < np.mean(rounds[:2]) / 2


def test_failures_and_foreign_candidates_are_taken() -> None:
    search = AutoTVMSearch(TASK, RESOLVED, "xgb")
    asked = search.ask(8)
    search.tell([*asked, {"knob_0": 99}], [math.inf] * 9)
    assert search.ask(8)


def test_an_unknown_algorithm() -> None:
    with pytest.raises(ValueError, match="magic"):
        AutoTVMSearch(TASK, RESOLVED, "magic")
