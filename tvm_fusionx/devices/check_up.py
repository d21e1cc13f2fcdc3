"""Look a device over, from its description to the answer of a kernel, and stop where it fails.

Each step needs the ones before it, so the first that fails is the one to mend.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tvm
from tvm import te

from tvm_fusionx.devices import tracker
from tvm_fusionx.devices.description import Device
from tvm_fusionx.devices.elf import read_elf
from tvm_fusionx.devices.linking import export_kernel
from tvm_fusionx.devices.session import DeviceSession, open_session
from tvm_fusionx.errors import DeviceError, FusionXError

EXTENT = 64
KERNEL = "add_one"

# A busy device is a finding, not something to wait for.
WAIT_SECONDS = 10.0

# What `uname -m` says where it differs from an ELF file's machine.
SAME_MACHINE = {"arm64": "aarch64", "armv8l": "aarch64", "amd64": "x86_64"}

MILLISECONDS = 1e3


@dataclass(frozen=True)
class Step:
    """One thing that was tried.

    Attributes
    ----------
    subject
        What it was.
    found
        What came of it.
    problem
        Whether it stands in the way.
    advice
        What to do; empty when nothing is to be done.
    """

    subject: str
    found: str
    problem: bool = False
    advice: str = ""


class _FailedError(Exception):
    """A step failed; the last step tells how."""


class _Steps:
    """What was tried so far."""

    def __init__(self) -> None:
        self.taken: list[Step] = []

    def passed(self, subject: str, found: str, advice: str = "") -> None:
        self.taken.append(Step(subject, found, advice=advice))

    def failed(self, subject: str, found: str, advice: str) -> None:
        self.taken.append(Step(subject, found, True, advice))
        raise _FailedError

    def attempt(self, subject: str, act: Callable[[], Any]) -> Any:
        """Return what `act` returns; a typed error of it is the failed step."""
        try:
            return act()
        except FusionXError as error:
            self.failed(subject, f"{error.thing}: {error.found}", error.next_step)
        except (tvm.TVMError, OSError, RuntimeError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            self.failed(subject, lines[-1], "Look at what the device's server says.")


def probe(device: Device) -> Any:
    """Return `x + 1` built for `device`: the smallest kernel with an answer to check."""
    target = device.tvm_target()
    x = te.placeholder((EXTENT,), name="x")
    y = te.compute((EXTENT,), lambda i: x[i] + 1.0, name="y")
    schedule = te.create_schedule(y.op)
    if target.kind.name != "llvm":
        schedule[y].bind(y.op.axis[0], te.thread_axis("threadIdx.x"))
    return tvm.build(schedule, [x, y], target, name=KERNEL)


def check_up(device: Device) -> list[Step]:
    """Try everything that a run on `device` needs.

    Returns
    -------
    list of Step
        In order; at most the last is a problem.
    """
    steps = _Steps()
    try:
        with TemporaryDirectory(prefix="fusionx-doctor-") as folder:
            path = _check_build(steps, device, Path(folder))
            if not device.is_local:
                _check_tracker(steps, device)
            _check_session(steps, device, path)
    except _FailedError:
        pass
    return steps.taken


def _check_build(steps: _Steps, device: Device, folder: Path) -> Path:
    target = steps.attempt("target", device.tvm_target)
    steps.passed("target", str(target))
    module = steps.attempt("compile", lambda: probe(device))
    path = folder / "probe.so"
    steps.attempt("linker", lambda: export_kernel(module, path, device))
    linked = read_elf(path)
    steps.passed(
        "linker",
        f"{device.compiler or device.linker} links for {linked.machine}, pages up to "
        f"{linked.page_bytes} bytes",
    )
    return path


def _check_tracker(steps: _Steps, device: Device) -> None:
    summary = steps.attempt("tracker", lambda: tracker.summarise(device))
    keys = ", ".join(summary.keys) or "none"
    steps.passed("tracker", f"{device.tracker} answers; keys: {keys}")
    if summary.servers == 0:
        error = tracker.not_registered(device, summary)
        steps.failed("key", f"{device.key!r} is not registered", error.next_step)
    steps.passed("key", f"{device.key!r}: {summary.servers} registered")
    state = f"{summary.free} of {summary.servers} free, {summary.pending} waiting"
    if summary.free == 0:
        # Between two sessions a device is away for a moment: asking for one decides.
        steps.passed("free", state, f"Waiting up to {WAIT_SECONDS:g} s for one.")
    else:
        steps.passed("free", state)


def _check_session(steps: _Steps, device: Device, path: Path) -> None:
    scope = open_session(device, WAIT_SECONDS)
    started = time.perf_counter()
    session = steps.attempt("session", scope.__enter__)
    try:
        taken = (time.perf_counter() - started) * MILLISECONDS
        steps.passed("session", f"open after {taken:.0f} ms")
        _check_facts(steps, session, read_elf(path).machine)
        if session.context.device_type % RPC_DEVICE_TYPES == OPENCL_DEVICE_TYPE:
            _check_opencl(steps, session)
        _check_kernel(steps, session, path)
    finally:
        scope.__exit__(None, None, None)


# A remote device's type is its own plus a multiple of this (tvm.rpc.base.RPC_SESS_MASK).
RPC_DEVICE_TYPES = 128
OPENCL_DEVICE_TYPE = int(tvm.opencl(0).device_type)


def _check_facts(steps: _Steps, session: DeviceSession, linked_for: str) -> None:
    facts = steps.attempt("device", session.facts)
    if not facts:
        advice = "Its server is not one of ours: `fusionx devices build-server` makes one."
        steps.passed("device", "it tells nothing of itself", advice)
        return
    heat = session.temperature()
    steps.passed(
        "device",
        f"{facts['system']}, {facts['cpu'] or 'unnamed processor'}, {facts['cores']} cores"
        + (f", {heat:.0f} °C" if heat is not None else ""),
    )
    runtime = str(facts["runtime"])
    advice = "" if runtime == tvm.__version__ else "Build its server with the TVM that is here."
    steps.passed("runtime", f"TVM {runtime}, here {tvm.__version__}", advice)
    machine = SAME_MACHINE.get(str(facts["arch"]), str(facts["arch"]))
    if machine != linked_for:
        steps.failed(
            "ABI",
            f"the device is {machine}, its target makes code for {linked_for}",
            "Give the device's own -mtriple in its target.",
        )
    steps.passed("ABI", machine)


def _check_opencl(steps: _Steps, session: DeviceSession) -> None:
    drivers = steps.attempt("OpenCL", session.opencl)
    context = session.context
    try:
        exists = bool(context.exist)
    except tvm.TVMError:
        exists = False
    if not exists and drivers:
        names = ", ".join(driver["device"] for driver in drivers)
        advice = "Build the server with --opencl, or give it the plug-in of `fusionx opencl build`."
        steps.failed("OpenCL", f"a driver for {names}, but the server has no OpenCL", advice)
    if not exists:
        advice = "Install the driver of the device's GPU; libOpenCL.so must be found there."
        steps.failed("OpenCL", "no device: no driver is found", advice)
    name = str(context.device_name)
    words = [f"{context.multi_processor_count} compute units"]
    words.append(f"work groups up to {context.max_threads_per_block}")
    steps.passed("OpenCL", f"{name}, {', '.join(words)}")
    for driver in drivers:
        if driver["device"] == name:
            steps.passed("platform", f"{driver['platform']}, {driver['version']}")
            steps.passed("extensions", " ".join(driver["extensions"].split()) or "none")
            steps.passed("images", f"{driver.get('images', 'not told')}, in pixels of four")
            return


def _check_kernel(steps: _Steps, session: DeviceSession, path: Path) -> None:
    module = steps.attempt("upload", lambda: session.load(path))
    steps.passed("upload", f"{path.stat().st_size} bytes, loaded")
    answer = steps.attempt("kernel", lambda: _run(session, module))
    expected = np.arange(EXTENT, dtype="float32") + 1
    if not np.array_equal(answer, expected):
        wrong = int(np.count_nonzero(answer != expected))
        steps.failed(
            "kernel",
            f"{wrong} of {EXTENT} numbers are wrong",
            "Check that the target's -mcpu and -mattr are the device's; report it if they are.",
        )
    steps.passed("kernel", f"x + 1 over {EXTENT} numbers is right")


def _run(session: DeviceSession, module: Any) -> Any:
    """Return the probe's answer; a device that is lost meanwhile is a `DeviceError`."""
    try:
        x = tvm.nd.array(np.arange(EXTENT, dtype="float32"), session.context)
        y = tvm.nd.array(np.zeros(EXTENT, "float32"), session.context)
        module[KERNEL](x, y)
        return y.numpy()
    except (tvm.TVMError, OSError) as error:
        lost: DeviceError | None = session.lost_because(error)
        if lost is not None:
            raise lost from error
        raise
