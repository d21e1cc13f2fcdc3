from __future__ import annotations

import socket

import pytest

from tvm_fusionx.devices import find_device
from tvm_fusionx.devices.local_process import _command, served_locally
from tvm_fusionx.errors import DeviceError
from tvm_fusionx.threads import usable_cores

pytestmark = pytest.mark.slow


def test_the_server_ends_with_its_scope() -> None:
    with served_locally(find_device("local")) as offer:
        assert offer.host == "127.0.0.1"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((offer.host, offer.port), 1)


@pytest.mark.parametrize(("target", "count"), [("llvm -num-cores=3", 3), ("llvm", 0)])
def test_the_server_has_the_threads_that_kernels_are_divided_for(target: str, count: int) -> None:
    cores = usable_cores()
    words = _command(find_device("local", target=target), "key")
    assert f"--threads={count or len(cores)}" in words
    (listed,) = [word for word in words if word.startswith("--cores=")]
    assert len(listed.split(",")) == max(count, len(cores))
    assert usable_cores() == cores


def test_a_plug_in_that_cannot_be_loaded_is_named() -> None:
    device = find_device("local", libraries=("no-such-plug-in.so",))
    with pytest.raises(DeviceError, match=r"no-such-plug-in\.so"), served_locally(device):
        pass
