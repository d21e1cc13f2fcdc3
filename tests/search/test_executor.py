from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.search import quick_training
from tests.search.small_spaces import transformers
from tvm_fusionx.errors import ModelError
from tvm_fusionx.search.executor import Ended, Job, ProcessExecutor
from tvm_fusionx.threads import usable_cores

TRAIN = Path(quick_training.__file__)


def _jobs(folder: Path, count: int = 4) -> list[Job]:
    generator = random.Random(0)
    jobs = []
    for number in range(count):
        candidate = transformers().sample(generator)
        candidate["choices"]["layers"] = 1 + number % 2
        trial = {"share": 1.0, "seed": 0, "folder": str(folder / str(number))}
        jobs.append(Job(number, candidate, trial))
    return jobs


def _run(jobs: list[Job], executor: ProcessExecutor) -> dict[int, Ended]:
    started: list[int] = []
    ended = {
        each.number: each for each in executor.run(jobs, lambda job: started.append(job.number))
    }
    assert sorted(started) == sorted(ended) == [job.number for job in jobs]
    return ended


def test_trials_run_and_return(tmp_path: Path) -> None:
    jobs = _jobs(tmp_path)
    executor = ProcessExecutor(TRAIN)
    assert executor.workers == len(usable_cores())
    for number, ended in _run(jobs, executor).items():
        expected = quick_training.accuracy_of(dict(jobs[number].candidate["choices"]))
        assert ended.returned["accuracy"] == pytest.approx(expected)
        assert ended.returned["epochs"] == 1
        assert ended.returned["seconds"] >= 0
        assert (tmp_path / str(number) / "log.txt").read_text() == "epoch 1\n"


@pytest.mark.parametrize(("way", "about"), [("fails", "one too many"), ("dies", "signal 6")])
def test_a_trial_that_fails_has_a_reason(
    way: str, about: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUICK_TRAINING", way)
    ended = _run(_jobs(tmp_path, 2), ProcessExecutor(TRAIN))
    assert not ended[0].reason
    assert about in ended[1].reason


def test_a_trial_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUICK_SECONDS", "60")
    (ended,) = _run(_jobs(tmp_path, 1), ProcessExecutor(TRAIN, timeout_seconds=0.5)).values()
    assert ended.reason == "it took more than 0.5 s"


def test_what_is_left_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = ProcessExecutor(TRAIN, cores=usable_cores()[:1])
    running = executor.run(_jobs(tmp_path, 3), lambda job: None)
    next(running)
    monkeypatch.setenv("QUICK_SECONDS", "60")
    began = time.monotonic()
    running.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 60
    assert not (tmp_path / "2" / "weights").exists()


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"train\(candidate, trial\)"):
        ProcessExecutor(tmp_path / "missing.py")
