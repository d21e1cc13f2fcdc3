from __future__ import annotations

import pytest

from tvm_fusionx.devices import find_device, open_session, opencl_facts
from tvm_fusionx.devices.emulation import Emulation

pytestmark = pytest.mark.slow


def test_without_a_driver_there_is_nothing_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_facts, "LIBRARIES", ("libNoSuchOpenCL.so",))
    assert opencl_facts.opencl_facts() == []


def test_a_driver_tells_its_platform_and_extensions() -> None:
    found = opencl_facts.opencl_facts()
    if not found:
        pytest.skip("Debian's pocl-opencl-icd is absent")
    for driver in found:
        assert driver["platform"]
        assert driver["device"]
        assert driver["version"].startswith("OpenCL ")
        assert "cl_khr_" in driver["extensions"]
        # What every full-profile device offers at least (OpenCL 1.2, table 4.3).
        width, height = map(int, driver["images"].split(" x "))
        assert min(width, height) >= 8192
        assert int(driver["items"]) >= 1
        assert int(driver["local_bytes"]) >= 32 * 1024
    with open_session(find_device("local")) as session:
        assert session.opencl() == found


def test_a_board_without_opencl_has_no_drivers(board: Emulation) -> None:
    with open_session(board.device) as session:
        assert session.opencl() == []
