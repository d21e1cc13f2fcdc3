from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tvm_fusionx.devices import Device, tracker_process
from tvm_fusionx.devices.tracker import Summary, summarise

pytestmark = pytest.mark.slow


def test_a_tracker_serves_until_its_input_ends() -> None:
    pytest.importorskip("tvm.rpc.tracker", reason="the RPC tracker needs tornado")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, tracker_process.__file__, "127.0.0.1", str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert int(process.stdout.readline()) == port
    device = Device("d", "llvm", tracker=f"127.0.0.1:{port}", key="phone")
    assert summarise(device) == Summary(0, 0, 0, ())
    process.communicate(timeout=30)
    assert process.returncode == 0
