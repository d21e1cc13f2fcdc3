"""An Arm board on a machine that is none: a tracker, and the device's server under ``qemu-user``.

Everything that happens between this side and a phone happens here too, but for the speed: times
measured under emulation mean nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tvm_fusionx.cache_folder import cache_folder
from tvm_fusionx.devices import tracker, tracker_process
from tvm_fusionx.devices.build_server import PROGRAM, SOURCE, build_server
from tvm_fusionx.devices.description import Device, find_device
from tvm_fusionx.devices.local_process import RUNTIME_ONLY
from tvm_fusionx.devices.runtime_wheel import wheel_version
from tvm_fusionx.errors import DeviceError, MissingDependencyError
from tvm_fusionx.output_file import locked
from tvm_fusionx.runtime.pool_library import SOURCES

logger = logging.getLogger(__name__)

ARCH = "aarch64-linux"
PRESET = "emulated-arm64"
EMULATOR = "qemu-aarch64"
# Where the server reads what emulates it: nothing inside can tell for certain.
EMULATOR_NAME = "FUSIONX_EMULATOR"
# Where Debian's cross compiler keeps the libraries of its target.
SYSROOT = Path("/usr/aarch64-linux-gnu")
# (what must be there, the Debian package that brings it)
NEEDS = (
    (EMULATOR, "qemu-user"),
    ("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"),
)
LOCALHOST = "127.0.0.1"
# Away from the usual ones, from 9090 on, which may be somebody's.
SERVER_PORTS = (29090, 29990)
START_SECONDS = 60.0
POLL_SECONDS = 0.05
DIGITS = 12


def why_no_emulation() -> str | None:
    """Return what is missing here to emulate an Arm board, naming its package, or None."""
    missing = [package for program, package in NEEDS if shutil.which(program) is None]
    return f"missing Debian packages: {' '.join(missing)}" if missing else None


def emulated_server() -> Path:
    """Return the server's program for the emulated board, built once and kept.

    Raises
    ------
    MissingDependencyError
        The emulator, the cross compiler or the runtime's wheel are missing.
    """
    problem = why_no_emulation()
    if problem is not None:
        raise MissingDependencyError(
            "emulating an Arm board",
            expected=" and ".join(program for program, _ in NEEDS),
            found=problem,
            next_step=f"apt-get install {' '.join(package for _, package in NEEDS)}",
        )
    digest = hashlib.sha256(wheel_version().encode())
    for file in sorted((*SOURCE.parent.iterdir(), *SOURCES.iterdir())):
        digest.update(file.read_bytes())
    folder = cache_folder() / "server" / f"{ARCH}-{digest.hexdigest()[:DIGITS]}"
    made = folder / PROGRAM
    if made.is_file():
        return made
    # One process builds, and the others wait: replacing the folder would pull it from under a
    # server that starts.
    with locked(folder):
        if not made.is_file():
            build_server(ARCH, folder)
    return made


class Emulation:
    """A tracker and emulated boards, as :func:`emulate` starts them.

    Attributes
    ----------
    servers
        The boards' server processes; ending one is unplugging a board.
    """

    def __init__(self, program: Path, folder: Path, port: int | None) -> None:
        self._program = program
        self._folder = folder
        self._tracker: subprocess.Popen[bytes] | None = None
        self._log = folder / "server.log"
        self.servers: list[subprocess.Popen[bytes]] = []
        self.start_tracker(port)

    @property
    def device(self) -> Device:
        """Return the description of the boards."""
        return replace(find_device(PRESET), tracker=f"{LOCALHOST}:{self.port}")

    def start_tracker(self, port: int | None = None) -> None:
        """Start the tracker, at the port it had before if it had one."""
        self.port = port or getattr(self, "port", None) or _free_port()
        words = [sys.executable, tracker_process.__file__, LOCALHOST, str(self.port)]
        self._tracker = subprocess.Popen(
            words,
            env={**os.environ, RUNTIME_ONLY: "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._tracker.stdout is not None
        if not self._tracker.stdout.readline().strip():
            self.stop_tracker()
            raise DeviceError(
                f"tracker {LOCALHOST}:{self.port}",
                expected="a port that is free",
                found="one that cannot be listened at",
                next_step="Give another port, or end what listens there.",
            )

    def stop_tracker(self) -> None:
        """End the tracker; its port stays free for it."""
        if self._tracker is not None:
            self._tracker.kill()
            # Closes both pipes.
            self._tracker.communicate()
            self._tracker = None

    def start_server(self, *options: str) -> subprocess.Popen[bytes]:
        """Start one more board, with further options; it registers on its own."""
        device = self.device
        first, end = SERVER_PORTS
        words = [EMULATOR, "-L", str(SYSROOT), str(self._program), f"--host={LOCALHOST}"]
        words += [f"--port={first}", f"--port-end={end}", f"--work-folder={self._folder}"]
        words += [f"--tracker={device.tracker}", f"--key={device.key}"]
        # Its input ends with this process, however that ends.
        words += ["--end-with-input", *options]
        with self._log.open("ab") as said:
            process = subprocess.Popen(
                words,
                env={**os.environ, EMULATOR_NAME: EMULATOR},
                stdin=subprocess.PIPE,
                stderr=said,
            )
        self.servers.append(process)
        return process

    def wait_until_free(self, count: int = 1, seconds: float = START_SECONDS) -> None:
        """Wait until `count` boards are free; `DeviceError` when they never are."""
        deadline = time.monotonic() + seconds
        while tracker.summarise(self.device).free < count:
            dead = [server.returncode for server in self.servers if server.poll() is not None]
            if time.monotonic() > deadline or len(dead) == len(self.servers):
                raise DeviceError(
                    f"device {PRESET}",
                    expected=f"{count} free within {seconds:g} s",
                    found=(self.log().strip().splitlines() or ["silence"])[-1],
                    next_step="Run the server by hand to see what it says.",
                )
            time.sleep(POLL_SECONDS)

    def log(self) -> str:
        """Return what the servers said so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        """End everything; the tracker first, which complains of boards that vanish."""
        self.stop_tracker()
        for server in self.servers:
            if server.poll() is None:
                server.kill()
            server.wait()
            if server.stdin is not None:
                server.stdin.close()


def _free_port() -> int:
    """Return a port that nobody used lately: an old server may look for its tracker at one."""
    with socket.create_server((LOCALHOST, 0)) as listening:
        return int(listening.getsockname()[1])


@contextlib.contextmanager
def emulate(count: int = 1, port: int | None = None) -> Iterator[Emulation]:
    """Start a tracker and `count` emulated Arm boards, free to use; end them with the scope.

    Parameters
    ----------
    port
        Of the tracker; a free one by default.

    Raises
    ------
    MissingDependencyError
        A program is missing.
    DeviceError
        The boards do not register.
    """
    program = emulated_server()
    with tempfile.TemporaryDirectory(prefix="fusionx-emulation-") as folder:
        emulation = Emulation(program, Path(folder), port)
        try:
            for _ in range(count):
                emulation.start_server()
            emulation.wait_until_free(count)
            yield emulation
        finally:
            emulation.close()
