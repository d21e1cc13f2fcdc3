from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.runtime.installed_pool import MOST_THREADS, InstalledPool, found_pool, load_pool
from tvm_fusionx.runtime.pool_library import why_no_pool
from tvm_fusionx.threads import on_pool, threads, tvm_library, usable_cores, use_pool_in

pytestmark = pytest.mark.skipif(why_no_pool() is not None, reason=f"{why_no_pool()}")

ROWS = 64
NO_BARRIER = -105
INSIDE_TASK = -102


class Group(ctypes.Structure):
    _fields_ = (("sync_handle", ctypes.c_void_p), ("num_task", ctypes.c_int32))


TASK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(Group), ctypes.c_void_p)


@pytest.fixture(name="pool")
def fixture_pool() -> Iterator[InstalledPool]:
    pool = load_pool(tvm_library())
    threads(pool="fusionx")
    yield pool
    threads()


def launch(pool: InstalledPool, task: Callable[[int, Any], int], count: int = 0) -> int:
    """Run a Python function as the tasks of a launch."""
    called = TASK(lambda number, group, closure: task(number, group))
    return int(ctypes.CDLL(str(pool.path)).fusionx_parallel_launch(called, None, count))


def kernel(rows: int = ROWS) -> tuple[Any, Any, Any]:
    """Return a module that adds 1 to each row, parallel, with its input and output."""
    a = te.placeholder((rows, 128), name="a")
    b = te.compute((rows, 128), lambda i, j: a[i, j] + 1.0, name="b")
    schedule = te.create_schedule(b.op)
    schedule[b].parallel(b.op.axis[0])
    data = np.arange(rows * 128, dtype="float32").reshape(rows, 128)
    return tvm.build(schedule, [a, b], "llvm"), tvm.nd.array(data), tvm.nd.array(data * 0)


def is_right(run: Any, a: Any, b: Any) -> bool:
    b.copyfrom(np.zeros(b.shape, "float32"))
    run(a, b)
    return bool((b.numpy() == a.numpy() + 1).all())


@pytest.mark.parametrize("count", [1, 2, 3, 17, MOST_THREADS])
def test_every_task_runs_once_with_any_number_of_threads(pool: InstalledPool, count: int) -> None:
    assert pool.configure(count, usable_cores()) == count
    assert pool.workers == count - 1
    run, a, b = kernel()
    assert all(is_right(run, a, b) for _ in range(20))
    for tasks in (1, 2, 63, 64, 65, 200):
        seen: list[tuple[int, int]] = []
        assert launch(pool, lambda n, g, s=seen: s.append((n, g[0].num_task)) or 0, tasks) == 0
        assert sorted(seen) == [(number, tasks) for number in range(tasks)]


@pytest.mark.skipif(len(usable_cores()) < 2, reason="one core")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whether a thread runs")
def test_a_worker_without_a_core_ends_its_task_on_the_callers(pool: InstalledPool) -> None:
    pool.configure(2, usable_cores())
    caller = threading.get_native_id()
    seen: dict[int, list[set[int]]] = {}
    has_begun = threading.Event()

    def task(number: int, group: Any) -> int:
        thread = threading.get_native_id()
        cores = [os.sched_getaffinity(thread)]
        if thread == caller:
            has_begun.wait(0.1)
        else:
            has_begun.set()
            time.sleep(0.05)  # its clock stands still, as if another program had its core
            cores.append(os.sched_getaffinity(thread))
            seen[thread] = cores
        return 0

    while not seen:  # a caller may come first at both
        assert launch(pool, task, 2) == 0
    ((worker, (before, during)),) = seen.items()
    assert len(during) == 1
    assert during <= os.sched_getaffinity(caller)
    assert os.sched_getaffinity(worker) == before
    assert launch(pool, lambda number, group: 0, 64) == 0


@pytest.mark.parametrize("count", [0, -1, MOST_THREADS + 1])
def test_a_number_of_threads_out_of_range_changes_nothing(pool: InstalledPool, count: int) -> None:
    before = pool.threads
    if count:
        with pytest.raises(MissingDependencyError, match="out of range"):
            pool.configure(count, usable_cores())
        assert pool.threads == before
    with pytest.raises(MissingDependencyError, match="out of range"):
        pool.configure(1, [-1])


def test_what_a_task_returns_its_launch_returns_and_the_others_run(pool: InstalledPool) -> None:
    seen: list[int] = []
    assert launch(pool, lambda n, g: seen.append(n) or (5 if n == 3 else 0), 8) == 5
    assert sorted(seen) == list(range(8))
    assert launch(pool, lambda n, g: 0, 8) == 0


def test_an_error_of_any_thread_reaches_the_caller_with_its_text(pool: InstalledPool) -> None:
    pool.configure(2, usable_cores())

    a = te.placeholder((ROWS,), name="a", dtype="int32")
    called = te.extern(
        (ROWS,), [a], lambda ins, outs: rows_of(ins[0], outs[0]), name="called", dtype="int32"
    )
    schedule = te.create_schedule(called.op)
    run = tvm.build(schedule, [a, called], "llvm")
    numbers = np.arange(ROWS, dtype="int32")
    out = tvm.nd.array(0 * numbers)
    for wrong in (ROWS - 1, 0):
        numbers[wrong] = -1
        with pytest.raises(Exception, match="row of no use"):
            run(tvm.nd.array(numbers), out)
        numbers[wrong] = wrong
    run(tvm.nd.array(numbers), out)
    assert out.numpy().tolist() == numbers.tolist()


def rows_of(read: Any, written: Any) -> Any:
    builder = tvm.tir.ir_builder.create()
    out, given = builder.buffer_ptr(written), builder.buffer_ptr(read)
    with builder.for_range(0, ROWS, kind="parallel", name="row") as row:
        builder.emit(tvm.tir.AssertStmt(given[row] >= 0, "row of no use", tvm.tir.Evaluate(0)))
        out[row] = given[row]
    return builder.get()


def test_a_launch_within_a_launch_runs_where_it_is(pool: InstalledPool) -> None:
    pool.configure(3, usable_cores())
    seen: list[tuple[int, int, bool]] = []

    def outer(number: int, group: Any) -> int:
        here = threading.get_ident()

        def inner(other: int, inner_group: Any) -> int:
            seen.append((number, other, threading.get_ident() == here))
            return 0

        return launch(pool, inner, 3) or launch(pool, lambda n, g: g[0].num_task - 1)

    assert launch(pool, outer, 6) == 0
    assert sorted(seen) == [(number, other, True) for number in range(6) for other in range(3)]


def test_the_pool_cannot_be_changed_by_a_task_that_it_runs(pool: InstalledPool) -> None:
    pool.configure(2, usable_cores())
    change = ctypes.CDLL(str(pool.path)).fusionx_pool_configure
    assert launch(pool, lambda n, g: change(2, None, 0, 0), 2) == INSIDE_TASK


def test_tasks_meet_where_they_run_side_by_side_and_else_say_so(pool: InstalledPool) -> None:
    pool.configure(3, usable_cores())
    meet = ctypes.CDLL(str(pool.path)).fusionx_parallel_barrier
    before: list[int] = []

    def task(number: int, group: Any) -> int:
        before.append(number)
        code = int(meet(number, group))
        return code or int(len(before) != 3)

    assert launch(pool, task) == 0
    assert launch(pool, lambda n, g: int(meet(n, g)), 4) == NO_BARRIER


def test_callers_at_once_do_not_disturb_each_other(pool: InstalledPool) -> None:
    pool.configure(4, usable_cores())
    wrong: list[int] = []

    def call() -> None:
        run, a, b = kernel()
        wrong.append(sum(not is_right(run, a, b) for _ in range(200)))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == [0] * 4
    assert pool.workers == 3


def test_kernels_that_were_loaded_before_and_come_after_run_on_it(
    pool: InstalledPool, tmp_path: Path
) -> None:
    threads(2, pool="tvm")
    built, a, b = kernel()
    libraries = [str(tmp_path / name) for name in ("before.so", "after.so")]
    for path in libraries:
        built.export_library(path)
    before = tvm.runtime.load_module(libraries[0])
    assert is_right(before, a, b)
    launches = pool.launches
    threads(2, pool="fusionx")
    after = tvm.runtime.load_module(libraries[1])
    in_memory, _, _ = kernel()
    for run in (before, after, in_memory):
        assert is_right(run, a, b)
        launches += 1
        assert pool.launches == launches
    with on_pool("tvm"):
        assert is_right(after, a, b)
    assert pool.launches == launches
    threads(2, pool="tvm")
    assert pool.workers == 0
    assert all(is_right(run, a, b) for run in (before, after, in_memory, kernel()[0]))
    assert pool.launches == launches


def test_one_library_alone_can_be_given_it(pool: InstalledPool, tmp_path: Path) -> None:
    threads(2, pool="tvm")
    built, a, b = kernel()
    path = str(tmp_path / "own.so")
    built.export_library(path)
    run = tvm.runtime.load_module(path)
    launches = pool.launches
    use_pool_in(path)
    assert is_right(run, a, b)
    assert is_right(built, a, b)
    assert pool.launches == launches + 1
    use_pool_in(path, "tvm")
    assert is_right(run, a, b)
    assert pool.launches == launches + 1
    with pytest.raises(MissingDependencyError, match="no loaded library"):
        use_pool_in(tmp_path / "none.so")


def test_the_child_of_a_fork_makes_workers_of_its_own(pool: InstalledPool) -> None:
    pool.configure(3, usable_cores())
    run, a, b = kernel()
    assert is_right(run, a, b)
    child = os.fork()
    if child == 0:
        fine = pool.workers == 0 and is_right(run, a, b) and pool.workers == 2
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert is_right(run, a, b)
    assert pool.workers == 2


def test_a_task_that_forks_ends_its_launch_in_the_child(pool: InstalledPool) -> None:
    # In a process of its own: a fork in the middle of pytest's threads is not for a long life.
    script = (
        "import ctypes, os, sys\n"
        "pool = ctypes.CDLL(sys.argv[1])\n"
        "TASK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)\n"
        "pool.fusionx_pool_configure(3, None, 0, 0)\n"
        "main, child = os.getpid(), [0]\n"
        "def task(number, group, closure):\n"
        "    if number == 0: child[0] = os.fork()\n"
        "    return 0\n"
        "code = pool.fusionx_parallel_launch(TASK(task), None, 3)\n"
        "again = pool.fusionx_parallel_launch(TASK(lambda *_: 0), None, 3)\n"
        "if os.getpid() != main: os._exit(0 if (code, again) == (-104, 0) else 1)\n"
        "sys.exit(os.waitpid(child[0], 0)[1] or code or again)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(pool.path)], check=False, timeout=60)
    assert ended.returncode == 0


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc")
def test_workers_run_on_the_cores_that_were_named(pool: InstalledPool) -> None:
    core = usable_cores()[-1]
    before = set(os.listdir("/proc/self/task"))
    pool.configure(1, usable_cores())
    kept = set(os.listdir("/proc/self/task"))
    pool.configure(3, [core], is_pinned=True)
    launch(pool, lambda n, g: 0, 3)
    workers = set(os.listdir("/proc/self/task")) - kept
    assert len(workers) == 2
    # A worker sets its own mask when it begins.
    for _ in range(1000):
        masks = [os.sched_getaffinity(int(worker)) for worker in workers]
        if masks == [{core}] * 2:
            break
        launch(pool, lambda n, g: 0, 3)
    assert masks == [{core}] * 2
    assert before >= kept - workers


@pytest.mark.skipif(len(usable_cores()) < 2, reason="one core")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the cores of a thread")
@pytest.mark.parametrize("is_changed", [False, True])
def test_workers_leave_the_core_to_a_caller_who_moves_unless_they_were_moved(
    pool: InstalledPool, is_changed: bool
) -> None:
    cores = usable_cores()
    kept = set(os.listdir("/proc/self/task"))
    pool.configure(1, cores)
    pool.configure(2, cores)
    worker = next(iter(set(os.listdir("/proc/self/task")) - kept))
    one, two = cores[:2]
    try:
        if is_changed:
            _on_core(one, pool, worker, wanted=set(cores) - {one})
            os.sched_setaffinity(int(worker), {one})
        for core in (one, two, one):
            _on_core(core, pool, worker, wanted={one} if is_changed else set(cores) - {core})
    finally:
        os.sched_setaffinity(0, cores)


def _on_core(core: int, pool: InstalledPool, worker: str, wanted: set[int]) -> None:
    """Launch from a core until the worker, which begins in its own time, has the wanted ones."""
    os.sched_setaffinity(0, {core})
    until = time.monotonic() + 20
    while True:
        assert launch(pool, lambda n, g: 0, 2) == 0
        if os.sched_getaffinity(int(worker)) == wanted or time.monotonic() > until:
            break
    assert os.sched_getaffinity(int(worker)) == wanted


def test_there_is_one_pool_in_a_process(pool: InstalledPool) -> None:
    assert load_pool(tvm_library()) is pool is found_pool()
