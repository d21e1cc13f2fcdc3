from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest
import tvm

from tvm_fusionx.threads import expected_threads, threads, usable_cores


def test_the_default_is_one_thread_for_each_core_that_may_be_used() -> None:
    assert threads() == len(usable_cores())
    assert tvm.runtime.num_threads() == len(usable_cores())


def test_the_number_shrinks_and_grows_again_and_the_affinity_stays() -> None:
    before = usable_cores()
    assert threads(1) == expected_threads() == 1
    assert threads() == len(before)
    assert usable_cores() == before


@pytest.mark.parametrize("n", [0, -1])
def test_less_than_one_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        threads(n)


def test_more_than_the_pool_holds_is_said(caplog: pytest.LogCaptureFixture) -> None:
    available = threads()
    with caplog.at_level(logging.WARNING):
        assert threads(available + 1) == available
    assert "before the first kernel runs" in caplog.text


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_cores_taken_from_the_process_are_not_used() -> None:
    script = (
        "import os; core = min(os.sched_getaffinity(0)); os.sched_setaffinity(0, {core})\n"
        "import tvm_fusionx as fx; print(fx.threads())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_asking_for_the_threads_in_use_leaves_the_cores_alone() -> None:
    script = (
        "import os; from tvm_fusionx.threads import threads, threads_in_use\n"
        "before = os.sched_getaffinity(0)\n"
        "print(threads_in_use() == len(before), os.sched_getaffinity(0) == before)\n"
        "print(threads(1) == threads_in_use() == 1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == {"True"}


@pytest.mark.slow
def test_more_threads_than_cores_are_possible_in_a_new_process() -> None:
    script = f"import tvm_fusionx as fx; print(fx.threads({len(usable_cores()) + 1}))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == len(usable_cores()) + 1
