"""Measure a model on a device: ours, our unfused control and TVM's default, in one session there.

Other runtimes would need programs of their own on the device; they are measured where this process
runs.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.contrib import graph_executor

from tvm_fusionx._tvm.arrays import numpy_of
from tvm_fusionx.build.library import build_versions
from tvm_fusionx.devices import Device, DeviceSession, export_kernel, open_session
from tvm_fusionx.devices.own_records import records_for
from tvm_fusionx.errors import DeviceError, InputError
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.inputs import check_inputs, inputs_of, random_inputs
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.report.bench.accuracy import relative_errors
from tvm_fusionx.report.bench.bench_result import OURS, BenchResult
from tvm_fusionx.report.bench.bench_sides import (
    TVM,
    UNFUSED,
    build_sides,
    count_operators,
    model_file,
    name_of,
)
from tvm_fusionx.report.bench.plain_tvm import set_inputs
from tvm_fusionx.report.bench.timing import describe_failure, time_interleaved
from tvm_fusionx.report.verify.difference import measure_difference, worst
from tvm_fusionx.report.verify.reference import run_onnxruntime

DEVICE_SIDES = (TVM, UNFUSED)
"""What can be compared with on a device."""

# Whole models are slow to send, and an emulated board may take a second for a run.
SESSION_SECONDS = 600.0

POCL = "Portable Computing Language"
EMULATED = "an emulator's times: they say nothing about a board ({emulator})"
POCL_REMARK = "OpenCL computed by this processor (PoCL): its times say nothing about a GPU"


@dataclass
class _Started:
    """A model on the device, run once."""

    executor: Any
    load_s: float
    first_run_s: float
    outputs: list[np.ndarray]


@dataclass
class _Measured:
    """What came of one session."""

    latency_ms: dict[str, Any] = field(default_factory=dict)
    started: dict[str, _Started] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    device: str = ""
    remarks: list[str] = field(default_factory=list)


def bench_on_device(
    model: str | Path | Any,
    device: Device,
    vs: Sequence[str] = DEVICE_SIDES,
    *,
    repeat: int,
    inputs: Mapping[str, Any] | None = None,
    shape: Mapping[str, Sequence[int]] | None = None,
    records: str | Path | None = None,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> BenchResult:
    """Time `model` on `device`, the sides taking turns in one session.

    Runs are timed by the device itself, so the way there and back is no part of them.

    Parameters
    ----------
    model
        An ONNX file or ``ModelProto``.
    vs
        The sides to compare with, of :data:`DEVICE_SIDES`.
    repeat
        Timed runs of each side.
    inputs, shape, records, on_stage
        As for :func:`tvm_fusionx.report.bench.bench.bench`.

    Returns
    -------
    BenchResult
        With `load_s` and `first_run_s` of each side. A side that failed has its message in `errors`
        and no latency; one that takes the session with it is left out of a new one.

    Raises
    ------
    InputError
        `vs` names a side that cannot run there, or an input does not fit the model.
    DeviceError, DeviceLostError
        The device cannot be reached, or ours does not run there.
    """
    check_device_sides(vs, device)
    target = device.tvm_target()
    on_stage("importing")
    began = time.perf_counter()
    mod, params = from_onnx(model, shape=shape)
    import_s = time.perf_counter() - began
    specs = inputs_of(mod, params)
    arrays = check_inputs(inputs, specs) if inputs is not None else random_inputs(specs)
    sides = build_sides(
        mod,
        target,
        params,
        arrays,
        vs,
        records_for(device, records),
        own_definitions=True,
        on_stage=on_stage,
    )
    with tempfile.TemporaryDirectory(prefix="fusionx-bench-") as folder:
        on_stage("linking")
        paths = _linked(sides.libraries, device, Path(folder), sides.errors)
        measured = _measure(sides.libraries, paths, device, arrays, repeat, on_stage)
    on_stage("computing the reference")
    ours = measured.started[OURS].outputs
    reference = _reference(model, arrays, measured.started)
    _, wrong = relative_errors({OURS: ours}, reference)
    difference = worst([measure_difference(a, b) for a, b in zip(ours, reference, strict=True)])
    host = target if is_cpu(target) else target.host or target
    return BenchResult(
        model=name_of(model),
        target=str(target),
        threads=describe_cpu(host).cores,
        device=measured.device,
        versions=build_versions(),
        ops=count_operators(mod),
        max_rel_err=difference.distance,
        cosine=difference.cosine if math.isfinite(difference.distance) else 0.0,
        import_s=import_s,
        latency_ms=measured.latency_ms,
        errors={**sides.errors, **measured.errors, **wrong},
        prepare_s=sides.prepare_s,
        load_s={side: each.load_s for side, each in measured.started.items()},
        first_run_s={side: each.first_run_s for side, each in measured.started.items()},
        remarks=measured.remarks,
        **sides.description(),
    )


def check_device_sides(vs: Sequence[str], device: Device) -> None:
    """Refuse sides that nothing can send to a device.

    Raises
    ------
    InputError
        One of them is another runtime.
    """
    others = [side for side in vs if side not in DEVICE_SIDES]
    if others:
        raise InputError(
            f"sides to compare with on device {device.name}",
            expected=f"some of {', '.join(DEVICE_SIDES)}: what TVM compiles, a device's server "
            "runs; other runtimes have no program there",
            found=", ".join(map(repr, others)),
            next_step="Leave them out, or compare on this machine without --device.",
        )


def _linked(
    libraries: dict[str, Any], device: Device, folder: Path, errors: dict[str, str]
) -> dict[str, Path]:
    paths = {}
    for side, library in libraries.items():
        try:
            path = folder / f"{side}.so"
            paths[side] = export_kernel(library.get_lib(), path, device)
        except DeviceError as error:
            if side == OURS:
                raise
            errors[side] = describe_failure(error)
    return paths


def _measure(
    libraries: Mapping[str, Any],
    paths: Mapping[str, Path],
    device: Device,
    arrays: Mapping[str, np.ndarray],
    repeat: int,
    on_stage: Callable[[str], None],
) -> _Measured:
    """Start and time every side in one session; anew without a side that broke it."""
    seconds = max(SESSION_SECONDS, device.session_timeout_seconds)
    patient = replace(device, session_timeout_seconds=seconds)
    errors: dict[str, str] = {}
    while True:
        measured = _Measured(errors=errors)
        with _session_of(patient, on_stage) as session:
            measured.device, measured.remarks = _describe(session)
            broken = None
            for side in [each for each in paths if each not in errors]:
                on_stage(f"starting {side}")
                try:
                    measured.started[side] = _start(session, libraries[side], paths[side], arrays)
                except (DeviceError, tvm.TVMError, OSError) as error:
                    if side == OURS:
                        raise
                    broken = session.lost_because(error)
                    errors[side] = describe_failure(broken or error)
                    if broken is not None:
                        break
            if broken is not None:
                continue
            on_stage("timing")
            measured.latency_ms, failures = time_interleaved(
                {side: each.executor for side, each in measured.started.items()},
                repeat,
                take_turn=_turns_of(session),
            )
            errors.update(failures)
        return measured


@contextmanager
def _session_of(device: Device, on_stage: Callable[[str], None]) -> Iterator[DeviceSession]:
    on_stage(f"reaching {device.name}")
    with open_session(device) as session:
        session.keep_threads_apart()
        yield session


def _start(
    session: DeviceSession, library: Any, path: Path, arrays: Mapping[str, np.ndarray]
) -> _Started:
    began = time.perf_counter()
    module = session.load(path)
    executor = graph_executor.create(library.get_graph_json(), module, session.context)
    executor.load_params(tvm.runtime.save_param_dict(dict(library.get_params())))
    loaded = time.perf_counter()
    set_inputs(executor, arrays)
    session.context.sync()
    ready = time.perf_counter()
    executor.run()
    session.context.sync()
    first = time.perf_counter() - ready
    outputs = [numpy_of(executor.get_output(place)) for place in range(executor.get_num_outputs())]
    return _Started(executor, loaded - began, first, outputs)


def _turns_of(session: DeviceSession) -> Callable[[Any, int], list[float]]:
    """Return what times runs of an executor in a row on the device, after an untimed one."""

    def take_turn(executor: Any, runs: int) -> list[float]:
        timer = executor.module.time_evaluator("run", session.context, number=1, repeat=runs)
        return [float(seconds) for seconds in timer().results]

    return take_turn


def _describe(session: DeviceSession) -> tuple[str, list[str]]:
    """Return what the device is, and what its times do not mean."""
    facts = session.facts()
    if not facts:
        return f"{session.device.name}, key {session.device.key}", []
    text = f"{session.device.name}: {facts['cpu'] or facts['arch']}, {facts['cores']} logical cores"
    remarks = []
    emulator = facts.get("emulator")
    if emulator:
        text += f", emulated by {emulator}"
        remarks.append(EMULATED.format(emulator=emulator))
    if not is_cpu(session.device.tvm_target()):
        drivers = session.opencl()
        text += "".join(f", {driver['device']}" for driver in drivers[:1])
        if any(POCL in driver["platform"] for driver in drivers[:1]):
            remarks.append(POCL_REMARK)
    return text, remarks


def _reference(
    model: Any, arrays: Mapping[str, np.ndarray], started: Mapping[str, _Started]
) -> list[np.ndarray]:
    """Return ONNX Runtime's outputs here; without it TVM's there, the control's, or our own."""
    with model_file(model) as path:
        try:
            return run_onnxruntime(str(path), arrays)
        except ImportError:
            side = next((name for name in DEVICE_SIDES if name in started), OURS)
            return started[side].outputs
