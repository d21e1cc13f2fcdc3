"""Trials on a Ray cluster, behind the interface of the local executor.

A trial is a task that runs the same trial process as on this machine, on a core of its worker. Ray
gives a task that lost its worker to another one; what a training fails by itself is told once. Few
tasks more than the cluster has room for are handed out, so a queue of thousands waits here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm_fusionx.devices.cluster import MOST_RETRIES, connect, first_line
from tvm_fusionx.errors import DeviceError, ModelError
from tvm_fusionx.search.executor import PARENT, PROGRAM, REASON_CHARACTERS, Ended, Job
from tvm_fusionx.search.training_file import FUNCTION

# Tasks beyond those that run, so that no worker waits for this process.
AHEAD = 1


@dataclass
class RayExecutor:
    """Trains on the workers of a Ray cluster.

    Parameters
    ----------
    address
        Of the cluster, as ``ray.init`` takes it: ``host:port``, ``auto``, ``ray://host:port``.
    train
        A Python file with ``train(candidate, trial)``. Its text is sent: what it imports must be
        installed on the workers. What a training leaves in its folder comes back.
    resources
        Custom resources that a trial takes; a worker that has none of them gets none. By default
        a processor core alone.
    retries
        How often a trial is given to another worker when one is lost.

    Raises
    ------
    MissingDependencyError
        Ray is not installed.
    ModelError
        There is no such file.
    DeviceError
        There is no such cluster, or no worker has the resources.
    """

    address: str
    train: Path
    resources: Mapping[str, float] = field(default_factory=dict)
    retries: int = MOST_RETRIES

    def __post_init__(self) -> None:
        self._ray = connect(self.address)
        if not Path(self.train).is_file():
            raise ModelError(
                f"training {self.train}",
                expected="a Python file with a function train(candidate, trial)",
                found="no such file",
                next_step="Give its path; docs/how-to/search-an-architecture.md has one.",
            )
        if self.workers < 1:
            raise DeviceError(
                f"Ray cluster {self.address}",
                expected=f"a worker with {dict(self.resources) or 'a core'}",
                found=f"{self._ray.cluster_resources()}",
                next_step="Start workers with `ray start --address=... --resources='{...}'`.",
            )

    @property
    def workers(self) -> int:
        """Return how many trials the cluster has room for now."""
        there = self._ray.cluster_resources()
        wanted = {"CPU": 1.0, **self.resources}
        return int(min(there.get(name, 0.0) // amount for name, amount in wanted.items()))

    def run(self, jobs: Sequence[Job], on_start: Callable[[Job], None]) -> Iterator[Ended]:
        """Yield what came of jobs, each as it ends; what is not yielded is cancelled."""
        ray = self._ray
        task = ray.remote(run_trial).options(
            num_cpus=1, resources=dict(self.resources), max_retries=self.retries
        )
        text = Path(self.train).read_text(encoding="utf-8")
        waiting = list(jobs)
        running: dict[Any, Job] = {}
        try:
            while waiting or running:
                # The cluster may have grown or shrunk since.
                while waiting and len(running) < max(1, self.workers) + AHEAD:
                    job = waiting.pop(0)
                    on_start(job)
                    # The weights of another network are not on the worker.
                    trial = {n: v for n, v in job.trial.items() if n != PARENT}
                    sent = (text, Path(self.train).name, dict(job.candidate), trial)
                    running[task.remote(*sent)] = job
                done, _ = ray.wait(list(running), num_returns=1)
                for reference in done:
                    job = running.pop(reference)
                    yield self._ended(job, reference)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)

    def _ended(self, job: Job, reference: Any) -> Ended:
        try:
            returned, files, reason = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return Ended(job.number, reason=f"the worker was lost: {first_line(error)}")
        folder = Path(job.trial["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return Ended(job.number, returned, reason)


def run_trial(
    text: str, name: str, candidate: Mapping[str, Any], trial: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, bytes], str]:
    """Run one trial on this worker, in a process of its own.

    Parameters
    ----------
    text, name
        The training file.
    candidate, trial
        As the training function takes them; ``folder`` is replaced by one of this machine.

    Returns
    -------
    tuple
        What the training returned, the files that it left by name, and why it returned nothing.
    """
    import os

    with tempfile.TemporaryDirectory(prefix="fusionx-ray-") as made:
        work, folder = Path(made), Path(made) / "trial"
        folder.mkdir()
        (work / name).write_text(text, encoding="utf-8")
        result, described = work / "result.json", work / "job.json"
        content = {
            "parent": os.getpid(),
            "train": str(work / name),
            "function": FUNCTION,
            "candidate": dict(candidate),
            "trial": {**trial, "folder": str(folder)},
            "core": None,
            "result": str(result),
        }
        described.write_text(json.dumps(content), encoding="utf-8")
        ended = subprocess.run(
            [sys.executable, str(PROGRAM), str(described)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        (folder / "log.txt").write_bytes(ended.stdout)
        files = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
        if ended.returncode == 0 and result.is_file():
            return json.loads(result.read_text(encoding="utf-8")), files, ""
        lines = ended.stdout.decode("utf-8", errors="replace").strip().splitlines()
        last = lines[-1][-REASON_CHARACTERS:] if lines else "it printed nothing"
        return {}, files, f"exit code {ended.returncode}: {last}"
