"""What this machine does at best, at every level of its caches, and the least time of a block.

A block whose tensors fit a cache is not measured by memory's bandwidth: the yardstick is what a
plain kernel does that reads, writes or copies as many bytes, warm, on one core or on all, whichever
is faster. Its time holds what calling a kernel and waking the other cores takes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import tvm

from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.measuring.peak_kernels import (
    FLOAT_BYTES,
    FLOPS_OF_A_MULTIPLY_ADD,
    SUMS,
    SUMS_READ,
    copying,
    divisions,
    filling,
    multiply_adds,
    reading,
)
from tvm_fusionx.schedules import describe_cpu
from tvm_fusionx.schedules.block_work import Work

# Bytes that a kernel touches: from an eighth of a first level cache to far beyond a last one.
WORKING_SETS = tuple(1 << bits for bits in range(12, 29))
STEPS = 1 << 15
REPEATS = 9
REPEAT_MILLISECONDS = 2
COPY, READ, FILL = "copy", "read", "fill"
ARITHMETIC, DIVISION, BANDWIDTH = "arithmetic", "division", "bandwidth"


@dataclass(frozen=True)
class MachineRates:
    """The best of one machine.

    Attributes
    ----------
    threads
        Cores that compute.
    call_seconds
        Calling a kernel that does nothing.
    launch_seconds
        What a parallel kernel that does nothing takes longer.
    multiply_adds_per_second, divisions_per_second
        From registers, on all cores.
    bytes_per_second
        For copying, reading and filling: a bandwidth for each of `WORKING_SETS`.
    """

    threads: int
    call_seconds: float
    launch_seconds: float
    multiply_adds_per_second: float
    divisions_per_second: float
    bytes_per_second: Mapping[str, tuple[float, ...]]

    @property
    def peak_flops(self) -> float:
        """Return the floating-point operations a second of multiply-adds."""
        return FLOPS_OF_A_MULTIPLY_ADD * self.multiply_adds_per_second

    @property
    def memory_bandwidth(self) -> float:
        """Return the bytes a second of copying what no cache holds."""
        return self.bytes_per_second[COPY][-1]

    def bandwidth(self, movement: str, working_set: int) -> float:
        """Return bytes a second of a movement over so many bytes, between those measured."""
        return float(
            np.interp(
                math.log2(max(1, working_set)),
                np.log2(WORKING_SETS),
                self.bytes_per_second[movement],
            )
        )

    def movement_seconds(self, work: Work) -> float:
        """Return the least time to move a block's bytes.

        As many bytes as are both read and written go at copying's rate, the rest at that of
        reading or filling.
        """
        both = min(work.read_bytes, work.written_bytes)
        rest = FILL if work.written_bytes > both else READ
        return 2 * both / self.bandwidth(COPY, work.bytes) + (
            work.bytes - 2 * both
        ) / self.bandwidth(rest, work.bytes)

    def limits(self, work: Work) -> dict[str, float]:
        """Return the seconds that each part of a block's work takes at least."""
        return {
            ARITHMETIC: self._computing(work.instructions / self.multiply_adds_per_second),
            DIVISION: self._computing(work.divisions / self.divisions_per_second),
            BANDWIDTH: self.movement_seconds(work),
        }

    def _computing(self, seconds: float) -> float:
        """Return the time of arithmetic that takes `seconds` on all cores, on one or on all."""
        return self.call_seconds + min(seconds * self.threads, seconds + self.launch_seconds)

    def best_of(self, other: MachineRates) -> MachineRates:
        """Return the better of two measurements: what disturbs one makes it slower."""
        return MachineRates(
            self.threads,
            min(self.call_seconds, other.call_seconds),
            min(self.launch_seconds, other.launch_seconds),
            max(self.multiply_adds_per_second, other.multiply_adds_per_second),
            max(self.divisions_per_second, other.divisions_per_second),
            {
                movement: tuple(map(max, rates, other.bytes_per_second[movement]))
                for movement, rates in self.bytes_per_second.items()
            },
        )

    def to_json(self) -> dict[str, Any]:
        """Return the rates by name."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> MachineRates:
        """Return what :meth:`to_json` wrote."""
        rates = {name: tuple(values) for name, values in row["bytes_per_second"].items()}
        return cls(**{**row, "bytes_per_second": rates})


def measure_rates(target: tvm.target.Target, threads: int) -> MachineRates:
    """Measure this machine in some seconds."""
    lanes = describe_cpu(target).lanes
    idle = {cores: _arithmetic(multiply_adds, target, cores, lanes, 0) for cores in (1, threads)}
    values = SUMS * lanes * threads * STEPS
    return MachineRates(
        threads,
        idle[1],
        max(0.0, idle[threads] - idle[1]),
        values / _arithmetic(multiply_adds, target, threads, lanes, STEPS),
        values / _arithmetic(divisions, target, threads, lanes, STEPS),
        {
            movement: tuple(
                max(_moved(movement, target, cores, lanes, size) for cores in (1, threads))
                for size in WORKING_SETS
            )
            for movement in (COPY, READ, FILL)
        },
    )


def _arithmetic(
    kernel: Callable[..., Any], target: Any, cores: int, lanes: int, steps: int
) -> float:
    built = compile_kernel(kernel(cores, lanes, steps), target, "arithmetic")
    return least_seconds(built, "arithmetic", [np.ones(cores * SUMS * lanes, "float32")])


def _moved(movement: str, target: Any, cores: int, lanes: int, size: int) -> float:
    floats = size // FLOAT_BYTES
    if movement == COPY:
        kernel, shapes = copying(cores, lanes, floats // 2), [floats // 2] * 2
    elif movement == FILL:
        kernel, shapes = filling(cores, lanes, floats), [floats]
    else:
        kernel, shapes = reading(cores, lanes, floats), [floats, cores * SUMS_READ * lanes]
    built = compile_kernel(kernel, target, movement)
    return size / least_seconds(built, movement, [np.ones(n, "float32") for n in shapes])


def least_seconds(module: Any, symbol: str, arrays: list[np.ndarray]) -> float:
    """Return the least of several repeats; what disturbs a measurement makes it longer."""
    return min(time_kernel(module, symbol, arrays))


def time_kernel(module: Any, symbol: str, arrays: list[np.ndarray]) -> list[float]:
    """Return the seconds of a run of a kernel, warm, of each of several repeats."""
    device = tvm.cpu()
    given = [tvm.nd.array(array, device) for array in arrays]
    function = module[symbol]
    started = time.perf_counter()
    function(*given)
    once = time.perf_counter() - started
    repeats = REPEATS if once < REPEAT_MILLISECONDS / 10 else REPEATS // 2 + 1
    timer = module.time_evaluator(
        symbol, device, number=1, repeat=repeats, min_repeat_ms=REPEAT_MILLISECONDS
    )
    return list(timer(*given).results)
