"""What the device reaches at best: arithmetic from registers, and copying from the caches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import tir

from tvm_fusionx.devices import export_kernel
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import describe_cpu
from tvm_fusionx.schedules.cpu import Cpu, is_cpu
from tvm_fusionx.tuning.bench import Bench

# Independent sums: twice as many as hide the latency of a multiply-add, and fewer than registers.
SUMS = 12
STEPS = 20000
# Tensors of a model's size: out of the first caches, in the last one.
COPIED_FLOATS = 1 << 19
FLOAT_BYTES = 4
# A multiply and an add.
FLOPS_A_STEP = 2
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
    width = SUMS * cpu.lanes * cpu.cores
    flops = width * STEPS * FLOPS_A_STEP
    moved = 2 * COPIED_FLOATS * FLOAT_BYTES
    arithmetic = _seconds(bench, folder, "fusionx_arithmetic", _arithmetic(cpu), (width,))
    copying = _seconds(
        bench, folder, "fusionx_copying", _copying(cpu), (COPIED_FLOATS, COPIED_FLOATS)
    )
    return Peak(flops / arithmetic, moved / copying)


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


def _arithmetic(cpu: Cpu) -> Any:
    """Return a kernel of nothing but multiply-adds on registers."""
    builder = tir.ir_builder.create()
    result = tir.decl_buffer((SUMS * cpu.lanes * cpu.cores,), "float32", "result")
    store = builder.buffer_ptr(result)
    with builder.for_range(0, cpu.cores, "core", kind="parallel") as core:
        sums = builder.allocate("float32", SUMS * cpu.lanes, "sums", scope="local")
        for step in ("begin", "multiply", "end"):
            if step == "multiply":
                with builder.for_range(0, STEPS, "step"):
                    _each_sum(
                        builder, cpu, lambda at: _set(sums, at, sums[at] * 0.5 + tir.const(1.0))
                    )
            elif step == "begin":
                _each_sum(builder, cpu, lambda at: _set(sums, at, tir.const(1.0, "float32")))
            else:
                offset = core * (SUMS * cpu.lanes)
                _each_sum(
                    builder, cpu, lambda at, offset=offset: _set(store, offset + at, sums[at])
                )
    return tir.PrimFunc([result], builder.get())


def _each_sum(builder: Any, cpu: Cpu, body: Any) -> None:
    with (
        builder.for_range(0, SUMS, "sum", kind="unroll") as which,
        builder.for_range(0, cpu.lanes, "lane", kind="vectorize") as lane,
    ):
        body(which * cpu.lanes + lane)


def _set(buffer: Any, at: Any, value: Any) -> None:
    buffer[at] = value


def _copying(cpu: Cpu) -> Any:
    """Return a kernel that copies one tensor into another."""
    builder = tir.ir_builder.create()
    source = tir.decl_buffer((COPIED_FLOATS,), "float32", "source")
    result = tir.decl_buffer((COPIED_FLOATS,), "float32", "result")
    load, store = builder.buffer_ptr(source), builder.buffer_ptr(result)
    share = COPIED_FLOATS // cpu.cores // cpu.lanes
    with (
        builder.for_range(0, cpu.cores, "core", kind="parallel") as core,
        builder.for_range(0, share, "vector") as vector,
        builder.for_range(0, cpu.lanes, "lane", kind="vectorize") as lane,
    ):
        at = (core * share + vector) * cpu.lanes + lane
        store[at] = load[at]
    return tir.PrimFunc([source, result], builder.get())
