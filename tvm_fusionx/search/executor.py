"""Where trials are trained: in processes of this machine, one a core.

An executor is given jobs and yields what came of each as it ends; what fails has a reason. Another
place to train, such as a cluster, is another executor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tvm_fusionx.search.training_file import FUNCTION, check_training
from tvm_fusionx.threads import usable_cores

PROGRAM = Path(__file__).resolve().parent / "trial_process.py"
# What a trial calls the folder of the network whose weights it may begin with.
PARENT = "parent"
# How often processes are asked whether they have ended.
POLL_SECONDS = 0.02
# Of what a training printed, the end tells most.
REASON_CHARACTERS = 300


@dataclass(frozen=True)
class Job:
    """One training.

    Attributes
    ----------
    number
        Tells it from the others that are given at once.
    candidate
        What is trained.
    trial
        What the training function is told: ``share`` of the training, ``seed``, ``folder``, and
        :data:`PARENT`, the folder of a trained network that has layers of it, where there is one.
    """

    number: int
    candidate: Mapping[str, Any]
    trial: Mapping[str, Any]


@dataclass(frozen=True)
class Ended:
    """What came of a job: what its training returned, or why it returned nothing."""

    number: int
    returned: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


class Executor(Protocol):
    """Trains candidates."""

    @property
    def workers(self) -> int:
        """Return how many trials it trains at once."""

    def run(self, jobs: Sequence[Job], on_start: Callable[[Job], None]) -> Iterator[Ended]:
        """Yield what came of jobs, each as it ends; `on_start` is told before each begins."""


class ProcessExecutor:
    """Processes of this machine, each on a core of its own.

    Parameters
    ----------
    train
        A Python file with a function ``train(candidate, trial)`` that returns a dictionary with
        ``accuracy``, between 0 and 1, and whatever plain values else.
    cores
        Where they run; all that this process may use by default.
    timeout_seconds
        How long one may take; as long as it likes by default.

    Raises
    ------
    ModelError
        There is no such file.
    """

    def __init__(
        self,
        train: str | Path,
        cores: Sequence[int] | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        self.train = check_training(train)
        self.cores = tuple(cores if cores is not None else usable_cores())
        self.timeout_seconds = timeout_seconds

    @property
    def workers(self) -> int:
        """Return how many trials run at once."""
        return len(self.cores)

    def run(self, jobs: Sequence[Job], on_start: Callable[[Job], None]) -> Iterator[Ended]:
        """Yield what came of jobs, each as it ends; what is not yielded is ended with the scope."""
        waiting = list(jobs)
        free = list(self.cores)
        running: list[_Running] = []
        with tempfile.TemporaryDirectory(prefix="fusionx-search-") as folder:
            try:
                while waiting or running:
                    while waiting and free:
                        job = waiting.pop(0)
                        on_start(job)
                        running.append(self._start(job, free.pop(0), Path(folder)))
                    ended = [each for each in running if each.has_ended()]
                    if not ended:
                        time.sleep(POLL_SECONDS)
                    for each in ended:
                        running.remove(each)
                        free.append(each.core)
                        yield each.answer()
            finally:
                for each in running:
                    each.stop()

    def _start(self, job: Job, core: int, folder: Path) -> _Running:
        result = folder / f"{job.number}.result.json"
        described = folder / f"{job.number}.job.json"
        content = {
            "parent": os.getpid(),
            "train": str(self.train),
            "function": FUNCTION,
            "candidate": dict(job.candidate),
            "trial": dict(job.trial),
            "core": core,
            "result": str(result),
        }
        described.write_text(json.dumps(content), encoding="utf-8")
        log = Path(job.trial["folder"]) / "log.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(described)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return _Running(job, core, process, result, log, self.timeout_seconds)


@dataclass
class _Running:
    job: Job
    core: int
    process: subprocess.Popen[bytes]
    result: Path
    log: Path
    timeout_seconds: float | None
    began: float = field(default_factory=time.monotonic)
    is_late: bool = False

    def has_ended(self) -> bool:
        """Tell whether the process is no more; end it where it took too long."""
        if self.process.poll() is not None:
            return True
        took = time.monotonic() - self.began
        if self.timeout_seconds is not None and took > self.timeout_seconds:
            self.is_late = True
            self.stop()
            return True
        return False

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()

    def answer(self) -> Ended:
        """Return what the process wrote, or why it wrote nothing."""
        if self.is_late:
            return Ended(self.job.number, reason=f"it took more than {self.timeout_seconds:g} s")
        if self.process.returncode == 0 and self.result.is_file():
            returned = json.loads(self.result.read_text(encoding="utf-8"))
            return Ended(self.job.number, returned)
        if self.process.returncode < 0:
            return Ended(self.job.number, reason=f"it ended by signal {-self.process.returncode}")
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = lines[-1][-REASON_CHARACTERS:] if lines else "it printed nothing"
        return Ended(self.job.number, reason=f"exit code {self.process.returncode}: {last}")
