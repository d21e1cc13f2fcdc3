from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tvm_fusionx.errors import InputError
from tvm_fusionx.report.bench import under_load
from tvm_fusionx.report.bench.under_load import (
    OURS_ON_TVMS_POOL,
    busy_processes,
    check_loads,
    runs_of,
    time_under_load,
    with_both_pools,
)
from tvm_fusionx.runtime.pool_library import why_no_pool
from tvm_fusionx.threads import threads

needs_pool = pytest.mark.skipif(why_no_pool() is not None, reason=f"{why_no_pool()}")


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def seconds_used(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_busy_processes_compute_and_end_with_their_scope() -> None:
    def stopped() -> None:
        with busy_processes(2) as started:
            numbers.extend(started)
            check_busy(started)
            raise KeyboardInterrupt

    numbers: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert len(numbers) == 2
    assert not any(map(is_there, numbers))


def check_busy(numbers: list[int]) -> None:
    for number in numbers:
        for _ in range(1000):
            if seconds_used(number) > 0.02:
                break
            time.sleep(0.01)
        assert seconds_used(number) > 0.02
        assert os.sched_getaffinity(number) == os.sched_getaffinity(0)
        # Ctrl-C at a terminal reaches all of them.
        os.kill(number, signal.SIGINT)
        assert is_there(number)


def test_busy_processes_end_with_a_parent_that_is_killed() -> None:
    script = (
        "import sys, time\n"
        "from tvm_fusionx.report.bench.under_load import busy_processes\n"
        "with busy_processes(1) as numbers:\n"
        "    print(*numbers, flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        number = int(parent.stdout.readline())
        assert is_there(number)
        parent.kill()
    for _ in range(1000):
        if not is_there(number):
            break
        time.sleep(0.01)
    assert not is_there(number)


def test_each_side_is_timed_beside_each_load_and_a_failing_one_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(under_load, "BUSY_SECONDS", 0.0)

    def fails() -> None:
        raise ValueError("no\nsuch kernel")

    told: list[str] = []
    sides = {"a": lambda: None, "b": fails}
    found, failures = time_under_load(sides, {0: 0.02, 1: 0.02}, told.append)
    assert set(found) == {"0", "1"}
    assert all(set(row) == {"a"} and row["a"].n >= 20 for row in found.values())
    assert failures == {"b": "ValueError: such kernel"}
    assert told[1] == "beside 1 busy processes, round 1 of 2"
    assert time_under_load(sides, ()) == ({}, {})


@pytest.mark.parametrize("loads", [(0, -1), (65,)])
def test_a_load_that_cannot_be_is_refused(loads: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="from 0 to 64"):
        check_loads(loads)


@needs_pool
def test_ours_runs_on_both_pools_and_plain_tvm_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    scopes: list[str] = []

    class Scope:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            scopes.append(self.name)

        def __exit__(self, *_: object) -> None:
            scopes.append("")

    class Executor:
        def run(self) -> None:
            scopes.append("run")

    monkeypatch.setattr(under_load, "on_pool", Scope)
    threads()
    sides = with_both_pools(runs_of({"fusionx": Executor(), "tvm": Executor()}))
    assert list(sides) == ["fusionx", "tvm", OURS_ON_TVMS_POOL]
    for run in sides.values():
        run()
    assert scopes == ["run", "tvm", "run", "", "tvm", "run", ""]
    threads(pool="tvm")
    assert list(with_both_pools(sides)) == list(sides)
    threads()
