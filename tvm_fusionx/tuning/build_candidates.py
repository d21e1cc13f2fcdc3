"""Candidates become libraries in processes of their own, several at a time.

A template or LLVM that crashes, or takes for ever over a candidate, ends its process and not the
session.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm
from tvm.contrib.popen_pool import PopenPoolExecutor, StatusKind

from tvm_fusionx.devices import Device, export_kernel
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import Scheduled, UnschedulableError, schedule
from tvm_fusionx.schedules.gpu.textures import texture_parameters
from tvm_fusionx.schedules.traced import schedule_by_trace
from tvm_fusionx.threads import usable_cores
from tvm_fusionx.tuning.task import TRACE, Choice, Task

logger = logging.getLogger(__name__)

# The slowest kernels compile in a few seconds; unrolled too far they take minutes.
BUILD_TIMEOUT_SECONDS = 20.0

INVALID = "invalid"
"""The template refuses the values: no trial was spent."""
DUPLICATE = "duplicate"
"""Other values gave the same kernel before: no trial is spent."""
BUILD_FAILED = "build"
BUILD_TIMEOUT = "build timeout"


@dataclass(frozen=True)
class Candidate:
    """One choice for a block, built or not."""

    task: Task
    choice: Choice
    path: Path
    failure: str | None = None
    detail: str = ""
    kernel: str = ""
    """Structural hash of the scheduled kernel."""
    images: Mapping[int, str] = field(default_factory=dict)
    """The scope of each parameter that the kernel takes as an OpenCL image, by position."""


Answer = tuple[str | None, str, str, Mapping[int, str]]
"""Failure and detail, the kernel's hash, and its parameters that are images."""


class CandidateBuilder:
    """Builds candidates for one device in parallel.

    Parameters
    ----------
    device
        What they will run on.
    folder
        Where the libraries go.
    workers
        Processes; one for each core by default, and 0 for none: in this process, unprotected.
    timeout_seconds
        How long one may take.
    """

    def __init__(
        self,
        device: Device,
        folder: str | Path,
        workers: int | None = None,
        timeout_seconds: float = BUILD_TIMEOUT_SECONDS,
    ) -> None:
        self.device = device
        self.folder = Path(folder)
        self._count = 0
        processes = len(usable_cores()) if workers is None else workers
        self._pool = (
            PopenPoolExecutor(max_workers=processes, timeout=timeout_seconds) if processes else None
        )

    def close(self) -> None:
        """End the processes."""
        self._pool = None

    def build(
        self, task: Task, choices: Sequence[Choice], seen: Iterable[str] = ()
    ) -> list[Candidate]:
        """Return one candidate for each choice, failed ones with the reason.

        Parameters
        ----------
        seen
            Kernels by their structural hash that need not be built again.
        """
        known = frozenset(seen)
        jobs = [self._job(task, choice, known) for choice in choices]
        if self._pool is None:
            answers = [_build_one(job) for job in jobs]
        else:
            answers = [
                _answer_of(result)
                for result in self._pool.map_with_error_catching(_build_one, jobs)
            ]
        return [
            Candidate(task, dict(choice), Path(job[-1]), *answer)
            for choice, job, answer in zip(choices, jobs, answers, strict=True)
        ]

    def _job(self, task: Task, choice: Choice, seen: frozenset[str]) -> tuple[Any, ...]:
        self._count += 1
        path = self.folder / f"{task.symbol}_{self._count}.so"
        return task.func, task.template, dict(choice), task.symbol, self.device, seen, str(path)


def _answer_of(result: Any) -> Answer:
    if result.status == StatusKind.COMPLETE:
        answer: Answer = result.value
        return answer
    if result.status == StatusKind.TIMEOUT:
        return BUILD_TIMEOUT, "it took too long to compile", "", {}
    return BUILD_FAILED, last_line(result.value), "", {}


def _build_one(job: tuple[Any, ...]) -> Answer:
    """Schedule, compile and link one candidate."""
    func, template, choice, symbol, device, seen, path = job
    target: tvm.target.Target = device.tvm_target()
    try:
        scheduled = _scheduled(func, target, choice, template)
    except UnschedulableError as error:
        return INVALID, str(error), "", {}
    if TRACE in choice:
        template, choice = scheduled.template, {}
    if scheduled.template != template or scheduled.fallback_reason is not None:
        return INVALID, scheduled.fallback_reason or f"served by {scheduled.template}", "", {}
    if any(scheduled.knobs.get(name) != value for name, value in choice.items()):
        return INVALID, "the template has no such knob", "", {}
    kernel = str(tvm.ir.structural_hash(scheduled.func))
    if kernel in seen:
        return DUPLICATE, "", kernel, {}
    try:
        export_kernel(compile_kernel(scheduled.func, target, symbol), path, device)
    except Exception as error:  # whatever the compiler raises is the outcome
        return BUILD_FAILED, last_line(error), "", {}
    return None, "", kernel, texture_parameters(scheduled.func)


def _scheduled(func: Any, target: tvm.target.Target, choice: Choice, template: str) -> Scheduled:
    if TRACE in choice:
        return schedule_by_trace(func, str(choice[TRACE]))
    return schedule(func, target, choice, template)


def last_line(error: object) -> str:
    """Return the last line of a message: TVM's traces end with what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
