from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.devices.two_raylets import fixture_address  # noqa: F401
from tests.search import quick_training
from tests.search.small_spaces import transformers
from tests.search.test_executor import TRAIN, _jobs
from tvm_fusionx.errors import DeviceError, ModelError
from tvm_fusionx.search.executor import Ended, Job
from tvm_fusionx.search.journal import SearchJournal
from tvm_fusionx.search.reward import Reward
from tvm_fusionx.search.search import Search, SearchSettings
from tvm_fusionx.search.strategies import RandomStrategy

pytestmark = pytest.mark.slow
ray: Any = pytest.importorskip("ray", reason="ray is not installed")

from tvm_fusionx.search.ray_executor import AHEAD, RayExecutor  # noqa: E402

# Tells its process, and waits for a file where it is told to.
WAITING = """
import os, pathlib, time

def train(candidate, trial):
    notes = pathlib.Path({folder!r})
    (notes / f"{{trial['seed']}}-{{os.getppid()}}").write_text("")
    while not (notes / "go").exists():
        time.sleep(0.05)
    return {{"accuracy": 0.5}}
"""


def _run(executor: RayExecutor, jobs: list[Job]) -> dict[int, Ended]:
    return {each.number: each for each in executor.run(jobs, lambda job: None)}


def test_trials_run_on_both_nodes_and_their_files_come_back(address: str, tmp_path: Path) -> None:
    executor = RayExecutor(address, TRAIN)
    assert executor.workers == 2
    jobs = _jobs(tmp_path)
    ended = _run(executor, jobs)
    for job in jobs:
        expected = quick_training.accuracy_of(dict(job.candidate["choices"]))
        assert ended[job.number].returned["accuracy"] == pytest.approx(expected)
        assert (tmp_path / str(job.number) / "weights").read_text() == "1.0"
        assert (tmp_path / str(job.number) / "log.txt").read_text() == "epoch 1\n"


def test_a_worker_killed_in_mid_trial_is_replaced(address: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (tmp_path / "waiting.py").write_text(WAITING.format(folder=str(notes)))
    executor = RayExecutor(address, tmp_path / "waiting.py")
    killed: list[int] = []

    def kill() -> None:
        while not (begun := sorted(notes.glob("7-*"))):
            time.sleep(0.05)
        # The parent of the trial is Ray's worker.
        killed.append(int(begun[0].name.partition("-")[2]))
        os.kill(killed[0], signal.SIGKILL)
        while len(list(notes.glob("7-*"))) < 2:
            time.sleep(0.05)
        (notes / "go").write_text("")

    watching = threading.Thread(target=kill)
    watching.start()
    trial = {"share": 1.0, "seed": 7, "folder": str(tmp_path / "0")}
    (ended,) = _run(executor, [Job(0, next(iter(transformers().every())), trial)]).values()
    watching.join()
    assert ended.returned["accuracy"] == 0.5
    assert not ended.reason
    assert len({path.name for path in notes.glob("7-*")}) == 2


def test_a_worker_lost_too_often_is_a_reason(address: str, tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text(
        "import os, signal\n\n"
        "def train(candidate, trial):\n    os.kill(os.getppid(), signal.SIGKILL)\n"
    )
    executor = RayExecutor(address, tmp_path / "deadly.py", retries=0)
    (ended,) = _run(executor, _jobs(tmp_path, 1)).values()
    assert "the worker was lost" in ended.reason


def test_no_more_is_handed_out_than_the_cluster_runs(address: str, tmp_path: Path) -> None:
    executor = RayExecutor(address, TRAIN, {"trainer": 1})
    assert executor.workers == 1
    begun: list[int] = []
    ended = 0
    for _ in executor.run(_jobs(tmp_path, 5), lambda job: begun.append(job.number)):
        ended += 1
        assert len(begun) <= ended + executor.workers + AHEAD
    assert ended == len(begun) == 5


def test_a_training_that_fails_has_its_reason(address: str, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(
        "def train(candidate, trial):\n    raise RuntimeError('no data here')\n"
    )
    (ended,) = _run(RayExecutor(address, tmp_path / "failing.py"), _jobs(tmp_path, 1)).values()
    assert "no data here" in ended.reason
    assert not ended.returned


def test_a_search_is_that_of_this_machine(address: str, tmp_path: Path) -> None:
    with SearchJournal(tmp_path, "space", "training") as journal:
        made = Search(
            RandomStrategy(transformers(), 3),
            journal,
            lambda candidate: 100.0,
            RayExecutor(address, TRAIN),
            SearchSettings(Reward(), trials=4),
        ).run()
    for each in made.results:
        assert each.accuracy == pytest.approx(quick_training.accuracy_of(each.candidate["choices"]))


def test_what_is_missing_is_told(address: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"train\(candidate, trial\)"):
        RayExecutor(address, tmp_path / "missing.py")
    with pytest.raises(DeviceError, match="a worker with"):
        RayExecutor(address, TRAIN, {"phone": 1})
