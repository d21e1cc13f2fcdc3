"""The launcher under many small jobs, compiled in every way that it is used in.

``benchmarks/pool_stress.py`` does the same with ten million launches.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.benchmarks.scripts import script

stress = script("pool_stress")

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="Debian's g++ is absent")

# Threads, callers, launches, changes of the number of threads meanwhile.
JOBS = ((1, 1, 500, 0), (2, 1, 2000, 0), (4, 3, 1500, 10), (64, 2, 200, 0))


@pytest.mark.slow
@pytest.mark.parametrize("way", [way for way in stress.WAYS if way != stress.CONDITION])
def test_every_task_runs_once_and_its_caller_sees_what_it_wrote(way: str, tmp_path: Path) -> None:
    reason = stress.why_not(way)
    if reason is not None:
        pytest.skip(reason)
    program = stress.compile_stress(way, tmp_path)
    for job in JOBS:
        said, code = stress.run_stress(program, job)
        assert code == 0, said
        assert said.strip().endswith(": 0 wrong")


def test_a_pool_that_loses_tasks_is_found(tmp_path: Path) -> None:
    # A caller that takes a share and forgets it.
    changes = {
        "    RunShare(share);\n    ++own;": "    if (share != 1) RunShare(share);\n    ++own;"
    }
    program = stress.compile_stress("plain", tmp_path, changes)
    said, code = stress.run_stress(program, (2, 1, 2000, 0))
    assert code == 1, said


@pytest.mark.slow
def test_a_race_is_found(tmp_path: Path) -> None:
    reason = stress.why_not("thread sanitizer")
    if reason is not None:
        pytest.skip(reason)
    # A count of what is done that lets nobody see what was done.
    changes = {
        "pool.finished.fetch_add(1, std::memory_order_acq_rel)": "pool.finished.fetch_add(1, "
        "std::memory_order_relaxed)"
    }
    program = stress.compile_stress("thread sanitizer", tmp_path, changes)
    said, code = stress.run_stress(program, (4, 1, 3000, 0))
    assert code != 0
    assert "data race" in said
