from __future__ import annotations

from pathlib import Path

import pytest
import tvm

from tests.tuning.small_tasks import LOCAL, dense_task, made_up_task, relu_task
from tvm_fusionx.schedules.traced import trace_text
from tvm_fusionx.tuning import build_candidates
from tvm_fusionx.tuning.build_candidates import (
    BUILD_FAILED,
    BUILD_TIMEOUT,
    DUPLICATE,
    INVALID,
    CandidateBuilder,
    last_line,
)
from tvm_fusionx.tuning.task import TRACE


def test_candidates_become_libraries(tmp_path: Path) -> None:
    task = dense_task()
    (made,) = CandidateBuilder(LOCAL, tmp_path, workers=0).build(task, [task.space.default])
    assert made.failure is None
    assert made.path.is_file()
    assert made.kernel


def test_a_kernel_that_was_built_before_is_not_built_again(tmp_path: Path) -> None:
    builder = CandidateBuilder(LOCAL, tmp_path, workers=0)
    task = dense_task()
    (first,) = builder.build(task, [task.space.default])
    (second,) = builder.build(task, [task.space.default], [first.kernel])
    assert (second.failure, second.kernel) == (DUPLICATE, first.kernel)
    assert not second.path.exists()


def test_values_that_the_template_does_not_take_are_invalid(tmp_path: Path) -> None:
    task = made_up_task()
    (made,) = CandidateBuilder(LOCAL, tmp_path, workers=0).build(task, [task.space.choice(3)])
    assert made.failure == INVALID


def test_a_compiler_that_fails_is_an_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("first line\nLLVM is out of registers")

    monkeypatch.setattr(build_candidates, "compile_kernel", fail)
    task = dense_task()
    (made,) = CandidateBuilder(LOCAL, tmp_path, workers=0).build(task, [task.space.default])
    assert (made.failure, made.detail) == (BUILD_FAILED, "LLVM is out of registers")


def test_a_schedule_of_tvms_own_is_a_candidate_too(tmp_path: Path) -> None:
    task = relu_task()
    builder = CandidateBuilder(LOCAL, tmp_path, workers=0)
    sch = tvm.tir.Schedule(tvm.IRModule({"main": task.func}))
    rows, _ = sch.get_loops(sch.get_child_blocks(sch.get_block("root"))[0])
    sch.parallel(rows)
    text = trace_text(sch.trace)
    wrong = text.replace(tvm.__version__, "0.11.0", 1)
    made, refused = builder.build(task, [{TRACE: text}, {TRACE: wrong}])
    assert (made.failure, made.path.is_file()) == (None, True)
    assert made.kernel == str(tvm.ir.structural_hash(sch.mod["main"]))
    assert refused.failure == INVALID
    assert "0.11.0" in refused.detail


@pytest.mark.slow
def test_a_build_without_end_is_ended(tmp_path: Path) -> None:
    task = dense_task()
    builder = CandidateBuilder(LOCAL, tmp_path, workers=1, timeout_seconds=0.05)
    (made,) = builder.build(task, [task.space.default])
    assert made.failure == BUILD_TIMEOUT
    builder.close()


@pytest.mark.slow
def test_processes_build_what_this_one_does(tmp_path: Path) -> None:
    task = dense_task()
    builder = CandidateBuilder(LOCAL, tmp_path, workers=1)
    choices = [task.space.default, task.space.default | {"tile_rows": 2}]
    made = builder.build(task, choices)
    builder.close()
    assert [each.failure for each in made] == [None, None]
    alone = CandidateBuilder(LOCAL, tmp_path / "alone", workers=0)
    (tmp_path / "alone").mkdir()
    assert [each.kernel for each in alone.build(task, choices)] == [each.kernel for each in made]


def test_the_last_line_tells_most() -> None:
    assert last_line("a\n b \n\n") == "b"
    assert last_line(KeyError()) == "KeyError"
