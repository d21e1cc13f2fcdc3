"""The machine at hand as a device: a child process that serves one session and ends with it."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tvm_fusionx.devices import local_server
from tvm_fusionx.devices.description import Device
from tvm_fusionx.devices.opencl_plugin import build_opencl
from tvm_fusionx.devices.tracker import Offer
from tvm_fusionx.errors import DeviceError
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.threads import SHARE_ALL_CORES, pool_for_servers, usable_cores

# Makes `import tvm` load the runtime without the compiler: a third of the time.
RUNTIME_ONLY = "TVM_USE_RUNTIME_LIB"
# A child whose client is gone ends by itself; one in a kernel is ended.
END_SECONDS = 0.5
KEY_BYTES = 8
SHOWN_CHARACTERS = 300


@contextlib.contextmanager
def served_locally(device: Device) -> Iterator[Offer]:
    """Start a server for one session of `device`, and end it with the scope.

    Raises
    ------
    DeviceError
        The server does not start, as when a plug-in cannot be loaded.
    MissingDependencyError
        The target is OpenCL, and its runtime cannot be built here.
    """
    key = f"local:{secrets.token_hex(KEY_BYTES)}"
    libraries = list(device.libraries)
    if device.tvm_target().kind.name == "opencl" and not libraries:
        libraries.append(str(build_opencl()))
    environment = dict(os.environ)
    if not libraries:
        environment[RUNTIME_ONLY] = "1"
    with (
        tempfile.TemporaryDirectory(prefix="fusionx-session-") as folder,
        tempfile.TemporaryFile() as said,
    ):
        process = subprocess.Popen(
            [*_command(device, key), *(f"--library={path}" for path in libraries)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            if not line.isdigit():
                process.wait()
                said.seek(0)
                raise _not_started(device, said.read().decode(errors="replace"))
            yield Offer("127.0.0.1", int(line), key)
        finally:
            _end(process)


def _command(device: Device, key: str) -> list[str]:
    cores = usable_cores()
    target = device.tvm_target()
    # As many as the kernels were divided for. Asking TVM would make this process's pool, which
    # takes all cores but one from the calling thread.
    count = describe_cpu(target if is_cpu(target) else target.host or target).cores
    # As many as `threads` lists: a pool is made as large as its list.
    listed = itertools.islice(itertools.cycle(cores), max(count, len(cores)))
    pool = pool_for_servers()
    return [
        sys.executable,
        str(Path(local_server.__file__).resolve()),
        *([f"--pool={pool}"] if pool is not None else []),
        f"--key={key}",
        f"--timeout={device.session_timeout_seconds}",
        f"--affinity={SHARE_ALL_CORES}",
        f"--threads={count}",
        f"--cores={','.join(map(str, listed))}",
    ]


def _not_started(device: Device, said: str) -> DeviceError:
    lines = [line for line in said.splitlines() if line.strip()]
    return DeviceError(
        f"device {device.name}, its server on this machine",
        expected="a child process that serves",
        found=(lines[-1] if lines else "one that ends at once")[:SHOWN_CHARACTERS],
        next_step="Run `fusionx doctor`; check the plug-ins that the device names.",
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    if process.poll() is None:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
