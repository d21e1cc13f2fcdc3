"""A session on a device: files go up, kernels run there, and whatever happens, this side goes on.

The device's server runs every session in a process of its own. A session ends when its scope does,
when its time is over, or when the device goes away; in all three cases the connection is closed
here, so that no handle that somebody kept holds the server back.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import math
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tvm

from tvm_fusionx._tvm.cures import connect_rpc, forgive_lost_arrays
from tvm_fusionx.devices.description import Device
from tvm_fusionx.devices.local_process import served_locally
from tvm_fusionx.devices.tracker import Offer, request
from tvm_fusionx.errors import DeviceError, DeviceLostError

logger = logging.getLogger(__name__)

# How long to wait for a free device unless told: a session of somebody else may have to end first.
DEFAULT_WAIT_SECONDS = 60.0
# A server that the tracker named answers at once or is gone.
CONNECT_SECONDS = 20.0
# The server ends a session in time by itself; after this much longer it is taken for dead.
GRACE_SECONDS = 5.0

# A silent peer is asked this often whether it is there, and given up after as many questions.
KEEPALIVE_SECONDS = 5
KEEPALIVE_PROBES = 4

FACTS = "fusionx.device.facts"
TEMPERATURE = "fusionx.device.temperature"
THREADS_APART = "fusionx.device.threads_apart"
OPENCL = "fusionx.device.opencl"
LAST_PROBLEM = "fusionx.device.last_problem"
RECONNECT_ADVICE = "Open a new session; `fusionx doctor --device {name}` says whether it is back."


class DeviceSession:
    """An open session; made by :func:`open_session`.

    Attributes
    ----------
    device
        What it runs on.
    remote
        TVM's own session, a ``tvm.rpc.RPCSession``.
    """

    def __init__(self, device: Device, remote: Any, handle: socket.socket, seconds: float) -> None:
        self.device = device
        self.remote: Any = remote
        self._handle = handle
        self._expired = False
        _notice_silence(handle)
        self._watchdog = threading.Timer(seconds + GRACE_SECONDS, self._expire)
        self._watchdog.daemon = True
        self._watchdog.start()

    @property
    def context(self) -> Any:
        """Return the remote ``tvm.runtime.Device`` that the target computes with."""
        kind = str(self.device.tvm_target().kind.name)
        return self.remote.cpu(0) if kind == "llvm" else self.remote.device(kind, 0)

    def load(self, path: str | Path) -> Any:
        """Send a linked library to the device and load it there.

        Returns
        -------
        tvm.runtime.Module
            The remote module.

        Raises
        ------
        DeviceError
            The device cannot take or load the file.
        DeviceLostError
            The device went away.
        """
        path = Path(path)
        try:
            self.remote.upload(str(path))
            return self.remote.load_module(path.name)
        except (tvm.TVMError, OSError) as error:
            lost = self.lost_because(error)
            if lost is not None:
                raise lost from error
            raise DeviceError(
                f"device {self.device.name}, {path.name}",
                expected="a library that the device takes and loads",
                found=_last_line(self._ask(LAST_PROBLEM)) or _sentence(error),
                next_step="Check that it was linked for this device (export_kernel), and "
                "that the device has room in its temporary folder.",
            ) from error

    def facts(self) -> dict[str, Any]:
        """Return what the device says of itself.

        Returns
        -------
        dict
            ``system``, ``arch``, ``cpu``, ``cores`` and ``runtime``, and ``emulator`` where one is
            known; empty where the server is not one of ours.
        """
        answer = self._ask(FACTS)
        return dict(json.loads(str(answer))) if answer is not None else {}

    def opencl(self) -> list[dict[str, str]]:
        """Return what the device's OpenCL drivers say of themselves.

        Returns
        -------
        list of dict
            ``platform``, ``device``, ``version`` and ``extensions`` of each OpenCL device; empty
            where there is none, or where the server is not one of ours.
        """
        answer = self._ask(OPENCL)
        return list(json.loads(str(answer))) if answer is not None else []

    def temperature(self) -> float | None:
        """Return degrees Celsius of the processor, or None where the device does not tell."""
        answer = self._ask(TEMPERATURE)
        return None if answer is None or math.isnan(answer) else float(answer)

    def keep_threads_apart(self) -> bool:
        """Give each thread of the device's pool a core of its own, and tell whether it has one.

        For measuring: Linux at times leaves two of them on one core. Servers that are not this
        machine's do nothing.
        """
        return bool(self._ask(THREADS_APART))

    def _ask(self, name: str) -> Any:
        """Call a function that only our servers have; None where there is none."""
        try:
            function = self.remote.get_function(name)
        except (tvm.TVMError, AttributeError) as error:
            lost = self.lost_because(error)
            if lost is not None:
                raise lost from error
            return None
        try:
            return function()
        except tvm.TVMError as error:
            raise self.lost_because(error) or error from None

    def lost_because(self, error: BaseException) -> DeviceLostError | None:
        """Return the error to raise when `error` came of a lost connection, else None."""
        if self._expired or "RPCSessionTimeoutError" in str(error):
            found = f"none within the session's {self.device.session_timeout_seconds:g} s"
        elif not self.is_alive():
            found = f"the connection broke ({_sentence(error)})"
        else:
            return None
        return DeviceLostError(
            f"device {self.device.name}",
            expected="an answer",
            found=found,
            next_step=RECONNECT_ADVICE.format(name=self.device.name),
        )

    def is_alive(self) -> bool:
        """Tell whether the connection still stands, without using it."""
        if self._handle.fileno() < 0:
            return False
        try:
            readable, _, _ = select.select([self._handle], [], [], 0)
            return not readable or bool(self._handle.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _expire(self) -> None:
        self._expired = True
        logger.warning("device %s does not end its session: dropped", self.device.name)
        self._hang_up()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Drop the connection, whoever still holds a handle of something remote."""
        self._watchdog.cancel()
        self.remote = None
        # Remote arrays and modules in cycles would be freed later, through a dead connection.
        gc.collect()
        self._hang_up()
        self._handle.close()


def _notice_silence(handle: socket.socket) -> None:
    """Let the system end a connection whose other side vanished without a word."""
    options = {
        "TCP_KEEPIDLE": KEEPALIVE_SECONDS,
        "TCP_KEEPINTVL": KEEPALIVE_SECONDS,
        "TCP_KEEPCNT": KEEPALIVE_PROBES,
    }
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in options.items():
        if hasattr(socket, name):
            handle.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


@contextlib.contextmanager
def open_session(device: Device, timeout_seconds: float | None = None) -> Iterator[DeviceSession]:
    """Open a session on `device`, for the scope.

    Parameters
    ----------
    device
        Where to run; this machine too is reached through a child process.
    timeout_seconds
        How long to wait for a free device; :data:`DEFAULT_WAIT_SECONDS` by default.

    Yields
    ------
    DeviceSession
        Lives for the device's ``session_timeout_seconds`` at most.

    Raises
    ------
    DeviceError
        The tracker or the server cannot be reached, the key is not registered, or no device gets
        free.
    DeviceLostError
        An error inside the scope came of the device's going away.
    """
    forgive_lost_arrays()
    wait = DEFAULT_WAIT_SECONDS if timeout_seconds is None else timeout_seconds
    with contextlib.ExitStack() as stack:
        if device.is_local:
            offer = stack.enter_context(served_locally(device))
        else:
            offer = request(device, wait)
        session = _connect(device, offer)
        stack.callback(session.close)
        try:
            yield session
        except (tvm.TVMError, OSError) as error:
            lost = None if isinstance(error, DeviceError) else session.lost_because(error)
            if lost is None:
                raise
            raise lost from error


def _connect(device: Device, offer: Offer) -> DeviceSession:
    """Connect to the server that was offered; TVM itself would wait as long as the system does."""
    seconds = device.session_timeout_seconds
    outcome: list[Any] = []

    def attempt() -> None:
        try:
            outcome.append(connect_rpc(offer.host, offer.port, offer.matchkey, seconds))
        except BaseException as error:  # handed to the waiting thread
            outcome.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(CONNECT_SECONDS)
    answer = outcome[0] if outcome else TimeoutError(f"no answer within {CONNECT_SECONDS:g} s")
    if isinstance(answer, BaseException):
        raise DeviceError(
            f"device {device.name}, its server at {offer.host}:{offer.port}",
            expected="a server that takes the session",
            found=_sentence(answer),
            next_step="Start the device's server again, or wait until the tracker drops it.",
        ) from answer
    remote, handle = answer
    return DeviceSession(device, remote, handle, seconds)


def _sentence(error: BaseException) -> str:
    """Return the line of an error that tells most: TVM's traces end with it."""
    return _last_line(error) or type(error).__name__


def _last_line(text: Any) -> str:
    lines = [line.strip() for line in str(text or "").splitlines() if line.strip()]
    return lines[-1] if lines else ""
