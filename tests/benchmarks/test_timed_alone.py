from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.benchmarks.scripts import script

timed_alone = script("timed_alone")
BENCHMARKS = Path(timed_alone.__file__).parent

# Counts for as long as the file it counts into is wanted.
COUNT = """
import sys, time
from pathlib import Path
counter, stop = Path(sys.argv[1]), Path(sys.argv[2])
number = 0
while not stop.exists():
    number += 1
    counter.write_text(f"{number:9}")
    time.sleep(0.01)
"""

# Waits until the other counts, and looks at the counter while alone and afterwards.
TIME = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from timed_alone import timed_alone
counter, stop = Path(sys.argv[1]), Path(sys.argv[2])
def wait_until_it_moves():
    before = counter.read_text()
    while counter.read_text() == before:
        time.sleep(0.01)
while not (counter.exists() and counter.read_text()):
    time.sleep(0.01)
try:
    wait_until_it_moves()
    with timed_alone():
        # Signals arrive at once, what was under way ends soon.
        time.sleep(0.2)
        before = counter.read_text()
        time.sleep(0.3)
        assert counter.read_text() == before
    wait_until_it_moves()
finally:
    stop.touch()
"""


def _ended(
    commands: dict[str, list[str]], jobs: int, limit: float = 60.0
) -> list[tuple[str, int | None]]:
    return list(timed_alone.run_groups(commands, jobs, limit, os.environ))


def _python(text: str, *words: object) -> list[str]:
    return [sys.executable, "-c", text, *map(str, words)]


def test_the_others_stand_still_while_one_is_timed_and_go_on_afterwards(tmp_path: Path) -> None:
    files = tmp_path / "counter", tmp_path / "stop"
    commands = {
        "counts": _python(COUNT, *files),
        "times": _python(TIME, *files, BENCHMARKS),
    }
    assert dict(_ended(commands, 2)) == {"counts": 0, "times": 0}


# Tells the seconds of both clocks while another process times.
CLOCKS = """
import sys, time
from pathlib import Path
told, stop = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, sys.argv[3])
from timed_alone import running_clock
before = time.perf_counter(), running_clock()
told.write_text("0")
number = 0
while not stop.exists():
    number += 1
    told.write_text(f"{number:9}")
    time.sleep(0.01)
after = time.perf_counter(), running_clock()
told.write_text(f"{after[0] - before[0]} {after[1] - before[1]}")
"""


def test_the_running_clock_stands_still_with_its_process(tmp_path: Path) -> None:
    files = tmp_path / "clocks", tmp_path / "stop"
    commands = {
        "clocks": _python(CLOCKS, *files, BENCHMARKS),
        "times": _python(TIME, *files, BENCHMARKS),
    }
    assert dict(_ended(commands, 2)) == {"clocks": 0, "times": 0}
    wall, running = map(float, files[0].read_text().split())
    # What TIME sleeps while it is alone, and no more than all of the time.
    assert 0.5 <= wall - running < wall


def test_who_times_does_not_stand_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(timed_alone.FOLDER_VARIABLE, str(tmp_path))
    with timed_alone.timed_alone():
        time.sleep(0.05)
    assert time.perf_counter() - timed_alone.running_clock() < 0.05


def test_alone_anyway_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(timed_alone.FOLDER_VARIABLE, raising=False)
    with timed_alone.timed_alone():
        pass


def test_every_command_ends_with_its_status_and_a_second_worker_begins_at_the_end() -> None:
    commands = {str(code): _python(f"raise SystemExit({code})") for code in range(4)}
    assert _ended(commands, 1) == [(str(code), code) for code in range(4)]
    assert sorted(_ended(commands, 2)) == [(str(code), code) for code in range(4)]


def test_a_command_that_cannot_start_is_told_and_the_next_one_runs(tmp_path: Path) -> None:
    commands = {"missing": [str(tmp_path / "missing")], "next": _python("pass")}
    assert _ended(commands, 1) == [("missing", timed_alone.NOT_STARTED), ("next", 0)]


def test_terminated_it_leaves_nothing_running(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    command = f"import os, time; from pathlib import Path; p = Path({str(told)!r});"
    command += (
        "p.with_suffix('.new').write_text(str(os.getpid())); p.with_suffix('.new').rename(p);"
    )
    run = f"""
import os, sys
sys.path.insert(0, {str(BENCHMARKS)!r})
from timed_alone import run_groups
list(run_groups({{"one": {_python(command + "time.sleep(600)")!r}}}, 1, 600.0, os.environ))
"""
    benchmark = subprocess.Popen(_python(run), stderr=subprocess.DEVNULL)
    while not told.exists():
        time.sleep(0.01)
    benchmark.terminate()
    assert benchmark.wait(60) != 0
    with pytest.raises(ProcessLookupError):
        _wait_for_the_end(int(told.read_text()))


def test_at_the_limit_what_a_command_started_is_killed_too(tmp_path: Path) -> None:
    alive = tmp_path / "child"
    start = (
        "import subprocess, sys, time; from pathlib import Path;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"Path({str(alive)!r}).write_text(str(child.pid)); time.sleep(600)"
    )
    assert _ended({"slow": _python(start)}, 1, limit=3.0) == [("slow", None)]
    with pytest.raises(ProcessLookupError):
        _wait_for_the_end(int(alive.read_text()))


def _wait_for_the_end(pid: int) -> None:
    for _ in range(200):
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            raise ProcessLookupError
        os.kill(pid, 0)
        time.sleep(0.01)


def test_without_memory_for_a_second_one_they_run_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_alone, "_free_bytes", lambda: 0)
    monkeypatch.setattr(timed_alone, "POLL_SECONDS", 0.01)
    mark = tmp_path / "running"
    only = f"import os, time; os.mkdir({str(mark)!r}); time.sleep(0.2); os.rmdir({str(mark)!r})"
    assert {status for _, status in _ended(dict.fromkeys("abc", _python(only)), 2)} == {0}


def test_a_reader_that_stops_early_leaves_nothing_running(tmp_path: Path) -> None:
    told = tmp_path / "second"
    second = f"import time; from pathlib import Path; time.sleep(5); Path({str(told)!r}).touch()"
    commands = {"first": _python("pass"), "second": _python(second)}
    reader = timed_alone.run_groups(commands, 2, 60.0, os.environ)
    assert next(reader) == ("first", 0)
    reader.close()
    assert not told.exists()
