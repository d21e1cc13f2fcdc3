"""Checks in processes of their own: a crash or a hang costs one model, not the run."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

import onnx

from tests.random_graphs.check import (
    CRASHED,
    HUNG,
    Compiler,
    Outcome,
    check,
    compile_with_fusionx,
    compile_with_relay,
)
from tests.random_graphs.evaluate import Array

# TVM keeps what it compiled; a process that has built this many models is replaced.
MODELS_PER_PROCESS = 100
OPT_LEVELS = range(4)
COMPILERS: dict[str, Compiler] = {
    "fusionx": compile_with_fusionx,
    **{f"relay-O{level}": partial(compile_with_relay, level) for level in OPT_LEVELS},
}

# A model, its inputs and outputs, and what outputs are held to.
Task = tuple[onnx.ModelProto, Mapping[str, Array], Mapping[str, Array], Mapping[str, float]]


def _serve(connection: Connection, compiler_name: str) -> None:
    # What compilers print about models they cannot compile is in the outcome already.
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    compiler = COMPILERS[compiler_name]
    while True:
        try:
            model, inputs, outputs, tolerances = connection.recv()
        except EOFError:
            return
        parsed = onnx.ModelProto.FromString(model)
        outcome = check(compiler, parsed, inputs, outputs, tolerances)
        connection.send(outcome)


class Worker:
    """One process that checks one model at a time."""

    def __init__(self, compiler_name: str) -> None:
        self.compiler_name = compiler_name
        self.key: Any = None
        self.deadline = float("inf")
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, remote = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(remote, self.compiler_name), daemon=True
        )
        self.process.start()
        remote.close()
        self.checked = 0

    def stop(self) -> None:
        """End the process, whatever it does."""
        self.connection.close()
        self.process.kill()
        self.process.join()

    def submit(self, key: Any, task: Task, timeout_seconds: float) -> None:
        """Send one model."""
        if self.checked >= MODELS_PER_PROCESS:
            self.stop()
            self._start()
        model, inputs, outputs, tolerances = task
        self.key, self.deadline = key, time.monotonic() + timeout_seconds
        sent = (model.SerializeToString(), dict(inputs), dict(outputs), dict(tolerances))
        self.connection.send(sent)

    def collect(self) -> tuple[Any, Outcome] | None:
        """Return the outcome if there is one; start a new process after a crash or a hang."""
        if self.connection.poll():
            try:
                outcome = self.connection.recv()
                self.checked += 1
            except (EOFError, ConnectionResetError):
                self.process.join()
                outcome = Outcome(CRASHED, f"exit code {self.process.exitcode}")
        elif time.monotonic() > self.deadline:
            outcome = Outcome(HUNG, "no answer in time")
        else:
            return None
        if outcome.status in (CRASHED, HUNG):
            self.stop()
            self._start()
        key, self.key = self.key, None
        return key, outcome


class Pool:
    """A few workers; use it in a ``with`` statement."""

    def __init__(self, compiler_name: str, jobs: int, timeout_seconds: float) -> None:
        self.timeout_seconds = timeout_seconds
        self.workers = [Worker(compiler_name) for _ in range(jobs)]

    def __enter__(self) -> Pool:
        """Return the pool."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.stop()

    def check_all(self, tasks: Iterable[tuple[Any, Task]]) -> Iterator[tuple[Any, Outcome]]:
        """Check every task, in any order; yield the key of each with its outcome."""
        queue = iter(tasks)
        idle, busy = list(self.workers), list[Worker]()
        is_drained = False
        while busy or not is_drained:
            while idle and not is_drained:
                item = next(queue, None)
                if item is None:
                    is_drained = True
                else:
                    worker = idle.pop()
                    worker.submit(*item, self.timeout_seconds)
                    busy.append(worker)
            wait([worker.connection for worker in busy], timeout=1)
            for worker in list(busy):
                result = worker.collect()
                if result is not None:
                    busy.remove(worker)
                    idle.append(worker)
                    yield result

    def check_one(self, task: Task) -> Outcome:
        """Check a single model."""
        return next(outcome for _, outcome in self.check_all([(None, task)]))
