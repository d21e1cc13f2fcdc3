from __future__ import annotations

import socket

import pytest

from tvm_fusionx.devices import find_device
from tvm_fusionx.devices.local_process import served_locally
from tvm_fusionx.errors import DeviceError


def test_the_server_ends_with_its_scope() -> None:
    with served_locally(find_device("local")) as offer:
        assert offer.host == "127.0.0.1"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((offer.host, offer.port), 1)


def test_a_plug_in_that_cannot_be_loaded_is_named() -> None:
    device = find_device("local", libraries=("no-such-plug-in.so",))
    with pytest.raises(DeviceError, match=r"no-such-plug-in\.so"), served_locally(device):
        pass
