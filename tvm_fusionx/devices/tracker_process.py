"""TVM's RPC tracker in a process that ends when its input does, however its owner ended.

Started by path, as :mod:`tvm_fusionx.devices.local_server` is. The process that TVM itself starts
for a tracker outlives an owner that was killed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


def main() -> None:
    """Serve at the host and port that are given, saying the port once it is open."""
    host, port = sys.argv[1], int(sys.argv[2])
    # This folder comes first for a program started by path: its modules must hide no others.
    folder = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != folder]
    with contextlib.redirect_stdout(sys.stderr):
        from tvm.rpc.tracker import PopenTrackerServerState

        state = PopenTrackerServerState(host, port, port + 1, silent=True)
    sys.stdout.write(f"{state.port}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    # The tracker's thread has no end.
    os._exit(0)


if __name__ == "__main__":
    main()
