from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.contrib import graph_executor

from tests.tiny_models import perceptron
from tvm_fusionx import build, from_onnx
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.runtime.installed_pool import found_pool
from tvm_fusionx.runtime.pool_library import why_no_pool
from tvm_fusionx.threads import (
    expected_threads,
    on_pool,
    pool_for_servers,
    pool_in_use,
    threads,
    usable_cores,
    use_pool_in,
)

# Enough for kernels that run in parallel.
ROWS = 1 << 15

needs_pool = pytest.mark.skipif(why_no_pool() is not None, reason=f"{why_no_pool()}")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    threads()


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


def test_more_than_tvms_pool_holds_is_said(caplog: pytest.LogCaptureFixture) -> None:
    available = threads(pool="tvm")
    with caplog.at_level(logging.WARNING):
        assert threads(available + 1, pool="tvm") == available
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


@needs_pool
def test_ours_is_the_default_and_is_undone() -> None:
    more = len(usable_cores()) + 1
    assert threads(more) == expected_threads() == more
    assert pool_in_use() == "fusionx"
    assert pool_for_servers() == found_pool().path
    threads(pool="tvm")
    assert pool_in_use() == "tvm"
    assert pool_for_servers() is None
    assert found_pool().workers == 0
    with on_pool("fusionx"):
        assert pool_in_use() == "tvm"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"pool": "openmp"}, "one of fusionx, tvm; found 'openmp'"),
        ({"n": 65, "pool": "fusionx"}, "at most 64; found 65"),
        ({"cores": []}, r"found \[\]"),
        ({"cores": [10**6]}, r"found \[1000000\]"),
    ],
)
def test_what_cannot_be_is_refused_by_name(words: dict[str, Any], said: str) -> None:
    before = pool_in_use(), expected_threads()
    with pytest.raises(ValueError, match=said):
        threads(**words)
    assert (pool_in_use(), expected_threads()) == before
    with pytest.raises(ValueError, match="one of fusionx, tvm"):
        use_pool_in("library.so", "openmp")


@needs_pool
def test_cores_are_pinned_and_the_caller_stays_where_it_is() -> None:
    before = usable_cores()
    assert threads(cores=before[:1]) == 1
    assert threads(2, cores=before[:1]) == 2
    assert usable_cores() == before


def test_without_a_library_kernels_run_on_tvms(monkeypatch: pytest.MonkeyPatch) -> None:
    threads(pool="tvm")

    def none(runtime: Path) -> Any:
        raise MissingDependencyError("pool", expected="one", found="none", next_step="Build it.")

    # The package's attribute of this name is the function.
    monkeypatch.setattr(sys.modules["tvm_fusionx.threads"], "load_pool", none)
    assert threads() >= 1
    assert pool_in_use() == "tvm"
    with pytest.raises(MissingDependencyError, match="Build it"):
        threads(pool="fusionx")


@needs_pool
@pytest.mark.parametrize("executor", ["graph", "vm"])
def test_a_model_computes_the_same_to_the_bit_on_both(executor: str) -> None:
    mod, params = from_onnx(perceptron(ROWS))
    assert threads(3) == 3
    data = np.random.default_rng(0).standard_normal((ROWS, 16)).astype("float32")
    run = runner(build(mod, "llvm", params=params, executor=executor), data, executor)
    launches = found_pool().launches
    ours = run()
    assert found_pool().launches > launches
    launches = found_pool().launches
    with on_pool("tvm"):
        theirs = run()
    assert found_pool().launches == launches
    assert ours.tobytes() == theirs.tobytes()


def runner(library: Any, data: np.ndarray, executor: str) -> Callable[[], np.ndarray]:
    if executor == "vm":
        return lambda: library.run(x=data)[0]
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.set_input("x", data)

    def run() -> np.ndarray:
        module.run()
        return module.get_output(0).numpy()

    return run
