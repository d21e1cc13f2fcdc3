"""What the device reaches at best: arithmetic in registers, and copying from the caches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tvm

from tvm_fusionx.devices import export_kernel
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.measuring.peak_kernels import (
    FLOAT_BYTES,
    FLOPS_OF_A_MULTIPLY_ADD,
    SUMS,
    copying,
    divisions,
    multiply_adds,
)
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.schedules import describe_cpu
from tvm_fusionx.schedules.block_work import Work
from tvm_fusionx.tuning.bench import Bench

STEPS = 20000
# Tensors of a model's size: out of the first caches, in the last one.
COPIED_FLOATS = 1 << 19
REPEATS = 15
# Whatever else runs for a moment makes a device slower and never faster.
ROUNDS = 4
PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class Peak:
    """The best rates that were measured on a device."""

    flops_per_second: float
    """Multiply-adds in registers on all cores, counted as two operations each."""

    bytes_per_second: float
    """Read and written by a copy out of the last cache on all cores."""

    divisions_per_second: float = math.inf
    """Float32 divisions in registers on all cores."""

    def least_seconds(self, work: Work) -> float:
        """Return the time that no kernel of a block of so much work can go below.

        Another unit divides, and another moves bytes, while the vector units compute.
        """
        return max(
            FLOPS_OF_A_MULTIPLY_ADD * work.instructions / self.flops_per_second,
            work.divisions / self.divisions_per_second,
            work.bytes / self.bytes_per_second,
        )

    def raised_by(self, work: Work, seconds: float) -> Peak:
        """Return the peak, higher where a kernel went beyond it: it was disturbed when measured.

        Of arithmetic alone: bytes may come from a faster cache than the one that was measured.
        """
        reached = FLOPS_OF_A_MULTIPLY_ADD * work.instructions / seconds
        return replace(self, flops_per_second=max(self.flops_per_second, reached))


def measure_peak(bench: Bench, folder: Path) -> Peak | None:
    """Measure the peak of a CPU device with three kernels, several times; None for other kinds.

    Raises
    ------
    DeviceError, DeviceLostError
        The device does not run them.
    """
    target = bench.device.tvm_target()
    if not is_cpu(target):
        return None
    cpu = describe_cpu(target)
    cores, lanes = cpu.cores, cpu.lanes
    width = SUMS * lanes * cores
    moved = 2 * COPIED_FLOATS * FLOAT_BYTES
    kernels = {
        "fusionx_multiply_adds": (multiply_adds(cores, lanes, STEPS), (width,)),
        "fusionx_divisions": (divisions(cores, lanes, STEPS), (width,)),
        "fusionx_copying": (copying(cores, lanes, COPIED_FLOATS), (COPIED_FLOATS, COPIED_FLOATS)),
    }
    built = []
    for name, (func, extents) in kernels.items():
        path = folder / f"{name}.so"
        library = compile_kernel(func, target, name)
        built.append((name, export_kernel(library, path, bench.device), extents))
    arithmetic, division, copied = bench.call(_least_seconds, built)
    return Peak(
        width * STEPS * FLOPS_OF_A_MULTIPLY_ADD / arithmetic,
        moved / copied,
        width * STEPS / division,
    )


def _least_seconds(
    bench: Bench, built: Sequence[tuple[str, Path, tuple[int, ...]]]
) -> tuple[float, ...]:
    """Return the least seconds of each kernel: its name, its library, its parameters' extents."""
    timers = [_timer(bench, *each) for each in built]
    rounds = []
    for number in range(ROUNDS):
        if number:
            time.sleep(PAUSE_SECONDS)
        rounds.append([timer() for timer in timers])
    return tuple(map(min, zip(*rounds, strict=True)))


def _timer(bench: Bench, name: str, path: Path, extents: tuple[int, ...]) -> Callable[[], float]:
    session = bench.session()
    module = session.load(path)
    arrays = [tvm.nd.array(np.ones(extent, "float32"), session.context) for extent in extents]
    timer = module.time_evaluator(
        name,
        session.context,
        number=1,
        repeat=REPEATS,
        min_repeat_ms=bench.timing.milliseconds,
    )
    return lambda: float(min(timer(*arrays).results))
