"""What the device reaches at best: arithmetic from registers, and copying from the caches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvm_fusionx.devices import export_kernel
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.measuring.peak_kernels import (
    FLOAT_BYTES,
    FLOPS_OF_A_MULTIPLY_ADD,
    SUMS,
    copying,
    multiply_adds,
)
from tvm_fusionx.schedules import describe_cpu
from tvm_fusionx.schedules.cpu import is_cpu
from tvm_fusionx.tuning.bench import Bench

STEPS = 20000
# Tensors of a model's size: out of the first caches, in the last one.
COPIED_FLOATS = 1 << 19
REPEATS = 15


@dataclass(frozen=True)
class Peak:
    """The best rates that were measured on a device."""

    flops_per_second: float
    """Multiply-adds in registers on all cores, counted as two operations each."""

    bytes_per_second: float
    """Read and written by a copy out of the last cache on all cores."""

    def least_seconds(self, flops: float, moved_bytes: float) -> float:
        """Return the time that no kernel of so many operations and bytes can go below."""
        return max(flops / self.flops_per_second, moved_bytes / self.bytes_per_second)


def measure_peak(bench: Bench, folder: Path) -> Peak | None:
    """Measure the peak of a CPU device; None for other kinds.

    Raises
    ------
    DeviceError, DeviceLostError
        The device does not run the two kernels.
    """
    target = bench.device.tvm_target()
    if not is_cpu(target):
        return None
    cpu = describe_cpu(target)
    cores, lanes = cpu.cores, cpu.lanes
    width = SUMS * lanes * cores
    flops = width * STEPS * FLOPS_OF_A_MULTIPLY_ADD
    moved = 2 * COPIED_FLOATS * FLOAT_BYTES
    arithmetic = _seconds(
        bench, folder, "fusionx_arithmetic", multiply_adds(cores, lanes, STEPS), (width,)
    )
    copied = (COPIED_FLOATS, COPIED_FLOATS)
    kernel = copying(cores, lanes, COPIED_FLOATS)
    copy_seconds = _seconds(bench, folder, "fusionx_copying", kernel, copied)
    return Peak(flops / arithmetic, moved / copy_seconds)


def _seconds(bench: Bench, folder: Path, name: str, func: Any, extents: tuple[int, ...]) -> float:
    path = folder / f"{name}.so"
    export_kernel(compile_kernel(func, bench.device.tvm_target(), name), path, bench.device)
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
    # The least: what disturbs a measurement makes it longer.
    return float(min(timer(*arrays).results))
