from __future__ import annotations

import pytest

from tests.tuning.small_tasks import RESOLVED, dense_task, made_up_task, relu_task, small_model
from tvm_fusionx.build.fused_build import build_fused
from tvm_fusionx.errors import TargetError
from tvm_fusionx.tuning.task import choice_key, collect_tasks, knobs_of, select_tasks


def test_a_space_numbers_every_choice_once() -> None:
    space = made_up_task(sizes=(3, 2, 4)).space
    assert len(space) == 24
    choices = [space.choice(index) for index in range(24)]
    assert len({choice_key(choice) for choice in choices}) == 24
    assert [space.index(choice) for choice in choices] == list(range(24))


def test_a_value_that_is_no_choice_has_no_number() -> None:
    space = made_up_task(sizes=(3,)).space
    assert space.index({"knob_0": 9}) is None
    assert space.index({}) is None


def test_a_task_tells_what_the_block_does() -> None:
    task = dense_task()
    assert task.is_tunable
    assert task.flops >= 2 * 8 * 16 * 32
    assert task.work.bytes == 4 * (8 * 16 + 16 * 32 + 8 * 32)
    assert task.shapes == ("float32[8, 16]", "float32[16, 32]", "float32[8, 32]")
    assert task.outputs == (2,)
    assert task.space.index(task.space.default) is not None


def test_a_block_without_knobs_is_not_tunable() -> None:
    assert not relu_task().is_tunable
    assert knobs_of(relu_task().func, "topi", RESOLVED) == {}


def test_the_distinct_blocks_of_a_model_are_its_tasks() -> None:
    tasks = collect_tasks(build_fused(small_model(), RESOLVED), RESOLVED)
    assert len({task.key for task in tasks}) == len(tasks) == 2
    assert all(task.count == 1 and task.template == "dot" for task in tasks)


def test_blocks_are_selected_by_name_part_or_hash() -> None:
    tasks = [made_up_task("first"), made_up_task("second")]
    assert select_tasks(tasks, []) == tasks
    assert select_tasks(tasks, ["second_0"]) == select_tasks(tasks, ["second"]) == tasks[1:]
    with pytest.raises(TargetError, match="third"):
        select_tasks(tasks, ["first", "third"])
