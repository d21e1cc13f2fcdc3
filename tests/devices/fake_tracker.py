"""A tracker of one answer, for what a real one does only when it is broken."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def fake_tracker(*answers: bytes) -> Iterator[str]:
    """Yield the address of a server that sends `answers` in turn to one client, then waits."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = threading.Event()

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    for answer in answers:
                        connection.recv(1 << 16)
                        connection.sendall(answer)
                    ended.wait(10)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            ended.set()
            listening.close()


MAGIC = struct.pack("<i", 0x2F271)


def message(text: str) -> bytes:
    """Return a JSON text as the protocol sends it."""
    return struct.pack("<i", len(text)) + text.encode()
