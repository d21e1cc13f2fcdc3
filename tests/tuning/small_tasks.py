"""Small blocks to tune, and devices that only pretend."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tests.relay_modules import const, module, var
from tests.schedules.blocked_blocks import unscheduled
from tests.stand_in import NATIVE_TARGET
from tvm_fusionx.devices import Device
from tvm_fusionx.schedules import Knob, resolve_target
from tvm_fusionx.schedules.block_work import Work
from tvm_fusionx.tuning.build_candidates import Candidate
from tvm_fusionx.tuning.outcome import Outcome
from tvm_fusionx.tuning.task import Choice, Space, Task, make_task

RESOLVED = resolve_target(NATIVE_TARGET)
LOCAL = Device("local", NATIVE_TARGET)


def dense_task(rows: int = 8, name: str = "dense") -> Task:
    """Return the task of a matrix product with an activation."""
    body = relay.nn.relu(relay.nn.matmul(var("x", rows, 16), var("w", 16, 32)))
    return make_task(unscheduled(body), "dot", RESOLVED, [name])


def relu_task() -> Task:
    """Return the task of a block whose schedule leaves nothing open: TVM's own."""
    return make_task(unscheduled(relay.nn.relu(var("x", 4, 8))), "topi", RESOLVED, ["relu"])


def made_up_task(key: str = "k", sizes: Sequence[int] = (8, 8, 4), count: int = 1) -> Task:
    """Return a task of a real block with knobs that nothing reads."""
    func = dense_task().func
    knobs = {
        f"knob_{position}": Knob(1, tuple(range(1, size + 1)))
        for position, size in enumerate(sizes)
    }
    names = tuple(f"{key}_{number}" for number in range(count))
    work = Work(flops=10**6, instructions=10**6 // 2, read_bytes=4096)
    return Task(key, func, "dot", Space(knobs), names, work, ("float32[8, 16]",))


def small_model() -> tvm.IRModule:
    """Return a model of two blocks that differ."""
    hidden = relay.nn.softmax(relay.nn.dense(var("x", 8, 128), const(64, 128)))
    return module(relay.nn.dense(hidden, const(48, 64, seed=1)))


def slowness(choice: Choice) -> float:
    """Return seconds that have one least point, at the middle of every knob."""
    return 1e-3 * (1 + sum((value - 3) ** 2 for value in choice.values()))


class PretendedBuilder:
    """Builds nothing."""

    def __init__(self, failures: Callable[[Choice], str | None] = lambda choice: None) -> None:
        self.device = LOCAL
        self.failures = failures

    def build(
        self, task: Task, choices: Sequence[Choice], seen: Iterable[str] = ()
    ) -> list[Candidate]:
        """Return candidates without libraries."""
        return [
            Candidate(task, dict(choice), Path("none.so"), self.failures(choice))
            for choice in choices
        ]


class PretendedBench:
    """Answers from a formula; what it was asked is kept."""

    def __init__(
        self,
        seconds: Callable[[Choice], float] = slowness,
        failures: Callable[[Choice], str | None] = lambda choice: None,
        before: Callable[[Choice], None] = lambda choice: None,
    ) -> None:
        self.seconds = seconds
        self.failures = failures
        self.before = before
        self.ran: list[dict[str, int]] = []
        self.candidate: dict[str, int] = {}

    def expect(self) -> None:
        """Do nothing."""

    def drop(self) -> None:
        """Do nothing."""

    def run(
        self, task: Task, path: Path, reference: Any, images: Any = ()
    ) -> tuple[Outcome, list[np.ndarray] | None]:
        """Return the formula's answer for the candidate that the session took."""
        choice = path.choice if isinstance(path, ChoicePath) else dict(task.space.default)
        self.before(choice)
        self.ran.append(choice)
        failure = self.failures(choice)
        if failure is not None:
            return Outcome(failure=failure, detail="pretended"), None
        return Outcome(seconds=(self.seconds(choice),)), [np.zeros(1)]


class ChoicePath(type(Path())):  # type: ignore[misc]
    """A path that tells the pretended bench which candidate it stands for."""

    choice: dict[str, int]


class ChoiceBuilder(PretendedBuilder):
    """Builds paths that carry their choice."""

    def build(
        self, task: Task, choices: Sequence[Choice], seen: Iterable[str] = ()
    ) -> list[Candidate]:
        """Return candidates whose paths know the choice."""
        made = []
        for choice in choices:
            path = ChoicePath("none.so")
            path.choice = dict(choice)
            made.append(Candidate(task, dict(choice), path, self.failures(choice)))
        return made


@contextlib.contextmanager
def unchanged_random_state() -> Iterator[None]:
    """Fail where the scope leaves Python's or numpy's global generator changed."""
    import random

    before = random.getstate(), np.random.get_state()[1].tolist()
    yield
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
