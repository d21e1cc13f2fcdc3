"""Talk to an RPC tracker, never waiting for longer than told.

TVM's own client waits for ever: for a key that nobody serves, for a device that somebody else
holds, for a tracker that accepts and does not answer. The protocol is TVM's: a magic number both
ways, then JSON messages, each after its length in bytes.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm.rpc import base

from tvm_fusionx.devices.description import Device
from tvm_fusionx.errors import DeviceError

LENGTH = struct.Struct("<i")
DEFAULT_PRIORITY = 1

# A tracker is a small process on a desk's network: one that is there answers at once.
ANSWER_SECONDS = 5.0

START_ADVICE = "Start one with `python -m tvm.exec.rpc_tracker --host 0.0.0.0 --port {port}`."
SERVER_ADVICE = (
    "Start the device's server with --tracker={tracker} --key={key} (docs/phone.md shows how)."
)


@dataclass(frozen=True)
class Summary:
    """What a tracker knows of one key.

    Attributes
    ----------
    servers
        Servers registered under the key, busy or not.
    free, pending
        Of them, those that nobody uses; and requests that wait for one.
    keys
        Every key that the tracker has servers of.
    """

    servers: int
    free: int
    pending: int
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Offer:
    """A server that the tracker holds for this client alone."""

    host: str
    port: int
    matchkey: str


def summarise(device: Device) -> Summary:
    """Ask the tracker of `device` about its key; `DeviceError` when it is not there."""
    with _connection(device, ANSWER_SECONDS) as connection:
        return _summary(device, connection)


def request(device: Device, timeout_seconds: float) -> Offer:
    """Ask the tracker for a free server of the device's key, waiting for one that is busy.

    Raises
    ------
    DeviceError
        The tracker is not there, nothing is registered under the key, or nothing got free within
        `timeout_seconds`.
    """
    deadline = time.monotonic() + timeout_seconds
    with _connection(device, min(timeout_seconds, ANSWER_SECONDS)) as connection:
        summary = _summary(device, connection)
        if summary.servers == 0:
            raise not_registered(device, summary)
        connection.settimeout(max(deadline - time.monotonic(), 0.0) or ANSWER_SECONDS)
        try:
            message = [base.TrackerCode.REQUEST, device.key, "", DEFAULT_PRIORITY]
            answer = _ask(connection, message)
        except TimeoutError as error:
            raise DeviceError(
                f"device {device.name}, key {device.key!r}",
                expected=f"a free device within {timeout_seconds:g} s",
                found=f"{summary.servers} registered, none free",
                next_step="Wait until another session ends, or register another device.",
            ) from error
        _, (host, port, matchkey) = answer
    return Offer(str(host), int(port), str(matchkey))


def not_registered(device: Device, summary: Summary) -> DeviceError:
    """Return the error for a key that no server has."""
    return DeviceError(
        f"tracker {device.tracker}, key {device.key!r}",
        expected="a server registered under the key",
        found=f"servers of {', '.join(map(repr, summary.keys)) or 'no key at all'}",
        next_step=SERVER_ADVICE.format(tracker=device.tracker, key=device.key),
    )


def _summary(device: Device, connection: socket.socket) -> Summary:
    _, answer = _ask(connection, [base.TrackerCode.SUMMARY])
    registered = [str(server["key"]).partition(":")[2] for server in answer["server_info"]]
    queue = answer["queue_info"].get(device.key, {})
    return Summary(
        servers=registered.count(device.key or ""),
        free=int(queue.get("free", 0)),
        pending=int(queue.get("pending", 0)),
        keys=tuple(sorted(set(registered))),
    )


@contextlib.contextmanager
def _connection(device: Device, timeout_seconds: float) -> Iterator[socket.socket]:
    """Yield a connection whose handshake is done; every failure in it is a `DeviceError`."""
    host, port = device.tracker_address
    try:
        with socket.create_connection((host, port), timeout_seconds) as connection:
            connection.sendall(LENGTH.pack(base.RPC_TRACKER_MAGIC))
            (magic,) = LENGTH.unpack(_receive(connection, LENGTH.size))
            if magic != base.RPC_TRACKER_MAGIC:
                raise ValueError("something that is no RPC tracker answers there")
            yield connection
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DeviceError(
            f"tracker {device.tracker} of device {device.name}",
            expected="an RPC tracker that answers",
            found=f"{type(error).__name__}: {error}",
            next_step=START_ADVICE.format(port=port),
        ) from error


def _ask(connection: socket.socket, message: list[Any]) -> Any:
    text = json.dumps(message).encode()
    connection.sendall(LENGTH.pack(len(text)) + text)
    (length,) = LENGTH.unpack(_receive(connection, LENGTH.size))
    answer = json.loads(_receive(connection, length))
    if not isinstance(answer, list) or answer[0] != base.TrackerCode.SUCCESS:
        raise ValueError(f"it answers {answer!r}")
    return answer


def _receive(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        piece = connection.recv(count - len(received))
        if not piece:
            raise ConnectionResetError("the connection was closed")
        received += piece
    return bytes(received)
