"""What this machine can do at most: multiply-adds a second, and bytes a second from memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import tvm
from tvm import te

from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.cpu import describe_cpu
from tvm_fusionx.threads import threads_in_use

# Independent sums, enough to hide a multiply-add's latency of 4 cycles in two units, and few enough
# for 16 registers.
SUMS = 12
STEPS = 1 << 22
FLOPS_OF_A_MULTIPLY_ADD = 2
# Two arrays far beyond any last level cache: 128 MiB each, of float32.
ELEMENTS = 1 << 25
FLOAT_BYTES = 4
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
    lanes = describe_cpu(resolved).lanes
    multiply = tvm.build(_multiply_adds(threads, lanes, steps), target=resolved)
    sums = tvm.nd.array(np.ones(threads * SUMS * lanes, "float32"))
    flops = FLOPS_OF_A_MULTIPLY_ADD * threads * SUMS * lanes * steps
    copy = tvm.build(_copy(threads, lanes, size), target=resolved)
    source, copied = (tvm.nd.array(np.ones(size, "float32")) for _ in range(2))
    return MachinePeak(
        flops / _least_seconds(lambda: multiply(sums)) / GIGA,
        2 * FLOAT_BYTES * size / _least_seconds(lambda: copy(source, copied)) / GIGA,
        threads,
    )


def _multiply_adds(threads: int, lanes: int, steps: int) -> Any:
    """Return a function in which each thread multiplies and adds in registers alone."""
    builder = tvm.tir.ir_builder.create()
    width = SUMS * lanes
    buffer = tvm.tir.decl_buffer((threads * width,), "float32", "sums")
    result = builder.buffer_ptr(buffer)
    factor = tvm.tir.const(0.5, "float32")
    with builder.for_range(0, threads, kind="parallel") as thread:
        held = builder.allocate("float32", (width,), scope="local")
        with (
            builder.for_range(0, SUMS, kind="unroll") as place,
            builder.for_range(0, lanes, kind="vectorize") as lane,
        ):
            held[place * lanes + lane] = result[thread * width + place * lanes + lane]
        with (
            builder.for_range(0, steps),
            builder.for_range(0, SUMS, kind="unroll") as place,
            builder.for_range(0, lanes, kind="vectorize") as lane,
        ):
            at = place * lanes + lane
            held[at] = held[at] * factor + factor
        with (
            builder.for_range(0, SUMS, kind="unroll") as place,
            builder.for_range(0, lanes, kind="vectorize") as lane,
        ):
            result[thread * width + place * lanes + lane] = held[place * lanes + lane]
    return tvm.tir.PrimFunc([buffer], builder.get()).with_attr(
        {"global_symbol": "multiply_adds", "tir.noalias": True}
    )


def _copy(threads: int, lanes: int, size: int) -> Any:
    source = te.placeholder((size,), "float32", "source")
    copied = te.compute((size,), lambda i: source[i], "copied")
    schedule = tvm.tir.Schedule(te.create_prim_func([source, copied]))
    (loop,) = schedule.get_loops(schedule.get_block("copied"))
    outer, _, inner = schedule.split(loop, [threads, None, lanes])
    schedule.parallel(outer)
    schedule.vectorize(inner)
    return schedule.mod


def _least_seconds(run: Callable[[], Any]) -> float:
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    # The least: what disturbs a measurement makes it longer.
    return min(taken)
