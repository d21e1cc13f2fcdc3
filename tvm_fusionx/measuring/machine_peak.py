"""What this machine can do at most: multiply-adds a second, and bytes a second from memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import tvm

from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.measuring.peak_kernels import (
    FLOAT_BYTES,
    FLOPS_OF_A_MULTIPLY_ADD,
    SUMS,
    copying,
    multiply_adds,
)
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.threads import threads_in_use

STEPS = 1 << 22
# Two arrays far beyond any last level cache: 128 MiB each, of float32.
ELEMENTS = 1 << 25
ROUNDS = 20
GIGA = 1e9


@dataclass(frozen=True)
class MachinePeak:
    """Measured on all threads at once.

    Attributes
    ----------
    gflops_per_second
        Multiply-adds in registers, two operations each, float32.
    gbytes_per_second
        Copying one large array into another: bytes read and bytes written.
    threads
        Threads that computed.
    """

    gflops_per_second: float
    gbytes_per_second: float
    threads: int

    def to_json(self) -> dict[str, float | int]:
        """Return the numbers by name."""
        return asdict(self)


def measure_machine_peak(
    target: str | tvm.target.Target = "llvm -mcpu=native", steps: int = STEPS, size: int = ELEMENTS
) -> MachinePeak:
    """Run two small programs for about a second and return the best of several rounds.

    Parameters
    ----------
    steps
        Multiply-adds of each register.
    size
        Elements that are copied.
    """
    resolved = resolve_target(target)
    threads = threads_in_use()
    copy = compile_kernel(copying(threads, describe_cpu(resolved).lanes, size), resolved, "copying")
    source, copied = (tvm.nd.array(np.ones(size, "float32")) for _ in range(2))
    return MachinePeak(
        multiply_add_meter(resolved, steps)(),
        2 * FLOAT_BYTES * size / _least_seconds(lambda: copy["copying"](source, copied)) / GIGA,
        threads,
    )


def multiply_add_meter(
    target: str | tvm.target.Target = "llvm -mcpu=native", steps: int = STEPS, rounds: int = ROUNDS
) -> Callable[[], float]:
    """Compile multiply-adds in registers for all threads in use; what it returns measures them.

    Parameters
    ----------
    steps
        Multiply-adds of each register.
    rounds
        The best of so many counts.

    Returns
    -------
    function
        Runs them, and returns GFLOP/s.
    """
    resolved = resolve_target(target)
    threads = threads_in_use()
    lanes = describe_cpu(resolved).lanes
    multiply = compile_kernel(multiply_adds(threads, lanes, steps), resolved, "multiply_adds")
    sums = tvm.nd.array(np.ones(threads * SUMS * lanes, "float32"))
    flops = FLOPS_OF_A_MULTIPLY_ADD * threads * SUMS * lanes * steps
    return lambda: flops / _least_seconds(lambda: multiply["multiply_adds"](sums), rounds) / GIGA


def _least_seconds(run: Callable[[], Any], rounds: int = ROUNDS) -> float:
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    # The least: what disturbs a measurement makes it longer.
    return min(taken)
