"""What a compiled network or block takes: on this machine, on a device, or counted for an Arm core.

A clock has a target, a setting under which the profile database keeps its answers, and returns the
microseconds of one run of a library.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tvm
from tvm.contrib import graph_executor

from tvm_fusionx.build.library import describe_library, save_library
from tvm_fusionx.counting.count import Count, count_library
from tvm_fusionx.counting.cycles import CYCLE_CORES
from tvm_fusionx.counting.model_build import target_text
from tvm_fusionx.devices import Device, export_kernel, find_device
from tvm_fusionx.devices.build_server import ARCHITECTURES
from tvm_fusionx.devices.cluster import has_device
from tvm_fusionx.devices.emulation import ARCH
from tvm_fusionx.fusion.profile_database import Setting
from tvm_fusionx.inputs import inputs_of
from tvm_fusionx.measuring.block_timer import MICROSECONDS, REPEATS, example_inputs, time_library
from tvm_fusionx.measuring.places import setting_of, versions
from tvm_fusionx.schedules import resolve_target, target_key
from tvm_fusionx.tuning.bench import Bench
from tvm_fusionx.tuning.farm_bench import FarmBench

COUNTED = "count:"
"""Before the name of a core: what it executes is counted under emulation."""

LOCAL = "local"
NATIVE = "llvm -mcpu=native"
# Cycles are told as microseconds of a core at this clock, which is no phone's.
CYCLES_PER_MICROSECOND = 1000.0
# One timed repeat on a device fills this at least.
REPEAT_MILLISECONDS = 5


class Clock(Protocol):
    """Times libraries for one target."""

    target: tvm.target.Target
    setting: Setting

    def __call__(self, library: Any, mod: tvm.IRModule) -> float:
        """Return the microseconds of a run of `library`, which was built of `mod`."""


@dataclass(frozen=True)
class HostClock:
    """The machine that this process runs on, with the threads that are set."""

    target: tvm.target.Target = field(default_factory=lambda: resolve_target(NATIVE))

    @property
    def setting(self) -> Setting:
        """Return what a time depends on."""
        return setting_of(self.target)

    def __call__(self, library: Any, mod: tvm.IRModule) -> float:
        """Return the median microseconds of a run."""
        return time_library(library, mod)


class CountingClock:
    """A core of an Arm processor, emulated: cycles of LLVM's model of it, at 1 GHz.

    Counts are exact, so two calls agree to the last digit.

    Parameters
    ----------
    core
        LLVM's name of it.
    model
        Whose cycles are estimated, of :data:`tvm_fusionx.counting.cycles.CYCLE_CORES`.
    """

    def __init__(self, core: str = "cortex-a76", model: str = CYCLE_CORES[0]) -> None:
        self.core, self.model = core, model
        self.target = resolve_target(target_text(core))
        device = f"{core}, counted under emulation, cycles of {model} at 1 GHz"
        self.setting = Setting(target_key(self.target), 1, device, versions())

    def __call__(self, library: Any, mod: tvm.IRModule) -> float:
        """Return the microseconds of a run, those of TVM's executor among them."""
        return self.count(library, mod).total.cycles[self.model] / CYCLES_PER_MICROSECOND

    def count(self, library: Any, mod: tvm.IRModule) -> Count:
        """Return all that a run executes."""
        described = describe_library(
            library, model="block", target=str(self.target), inputs=inputs_of(mod, {})
        )
        with tempfile.TemporaryDirectory(prefix="fusionx-count-") as folder:
            path = Path(folder) / "block.tar"
            save_library(described, path, compiler=ARCHITECTURES[ARCH].compiler)
            given = {
                spec.name: array
                for spec, array in zip(described.inputs, example_inputs(mod), strict=True)
            }
            return count_library(
                path, self.core, inputs=given, with_caches=False, cores=(self.model,)
            )


class DeviceClock:
    """A phone or a board behind RPC; a scope, in which its session is kept.

    Parameters
    ----------
    device
        What runs the libraries; a session that breaks is opened again.
    cluster
        Address of a Ray cluster whose workers have it; by default this process asks it.
    """

    def __init__(self, device: Device, cluster: str | None = None) -> None:
        self.device = device
        self.target = device.tvm_target()
        self.setting = Setting(
            target_key(self.target), 1, f"{device.name} ({device.key or LOCAL})", versions()
        )
        self._bench = Bench(device) if cluster is None else FarmBench(device, address=cluster)

    def __enter__(self) -> DeviceClock:
        return self

    def __exit__(self, *exception: object) -> None:
        self._bench.drop()

    def __call__(self, library: Any, mod: tvm.IRModule) -> float:
        """Return the median microseconds of a run, timed on the device itself."""
        with tempfile.TemporaryDirectory(prefix="fusionx-device-") as folder:
            path = export_kernel(library.get_lib(), Path(folder) / "block.so", self.device)
            parameters = bytes(tvm.runtime.save_param_dict(dict(library.get_params())))
            graph, inputs = library.get_graph_json(), example_inputs(mod)
            return self._bench.call(_time, graph, path, parameters, inputs)


def _time(
    bench: Bench, graph: str, path: Path, parameters: bytes, inputs: Sequence[np.ndarray]
) -> float:
    """Return the median microseconds of a run of a model on a bench."""
    session = bench.session()
    executor = graph_executor.create(graph, session.load(path), session.context)
    executor.load_params(parameters)
    for place, array in enumerate(inputs):
        executor.set_input(place, tvm.nd.array(array, session.context))
    timer = executor.module.time_evaluator(
        "run", session.context, number=1, repeat=REPEATS, min_repeat_ms=REPEAT_MILLISECONDS
    )
    return float(np.median(timer().results)) * MICROSECONDS


@contextlib.contextmanager
def clock_of(name: str, cluster: str | None = None) -> Any:
    """Yield the clock that a word names: ``local``, ``count:CORE``, or a device's name or file.

    Parameters
    ----------
    cluster
        Address of a Ray cluster: a device that one of its workers has is timed there, others by
        this process, as counts and this machine are.

    Raises
    ------
    TargetError
        There is no such core.
    DeviceError
        There is no such device.
    """
    if name == LOCAL:
        yield HostClock()
    elif name.startswith(COUNTED):
        yield CountingClock(name.removeprefix(COUNTED))
    else:
        device = find_device(name)
        is_there = cluster is not None and has_device(cluster, device.name)
        with DeviceClock(device, cluster if is_there else None) as clock:
            yield clock
