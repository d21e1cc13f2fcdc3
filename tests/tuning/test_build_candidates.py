from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuning.small_tasks import LOCAL, dense_task, made_up_task
from tvm_fusionx.tuning import build_candidates
from tvm_fusionx.tuning.build_candidates import (
    BUILD_FAILED,
    BUILD_TIMEOUT,
    DUPLICATE,
    INVALID,
    CandidateBuilder,
    last_line,
)


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
