from __future__ import annotations

import dataclasses
import shutil
from typing import Any

import numpy as np
import pytest

from tests.devices.fake_tracker import fake_tracker
from tvm_fusionx.devices import check_up as module
from tvm_fusionx.devices import find_device, open_session
from tvm_fusionx.devices.check_up import Step, check_up
from tvm_fusionx.devices.emulation import Emulation
from tvm_fusionx.devices.opencl_plugin import why_no_opencl
from tvm_fusionx.devices.session import DeviceSession

pytestmark = pytest.mark.slow

LOCAL = find_device("local")


def subjects(steps: list[Step]) -> list[str]:
    return [step.subject for step in steps]


def test_this_machine_passes_every_step() -> None:
    steps = check_up(LOCAL)
    assert not any(step.problem for step in steps), steps
    assert subjects(steps) == [
        *("target", "linker", "session", "device", "runtime", "ABI", "upload", "kernel")
    ]


def test_a_board_passes_those_of_a_tracker_too(board: Emulation) -> None:
    steps = check_up(board.device)
    assert not any(step.problem for step in steps), steps
    assert subjects(steps)[2:6] == ["tracker", "key", "free", "session"]
    assert "aarch64" in {step.found for step in steps}


def test_a_key_that_is_not_registered_is_the_last_step(board: Emulation) -> None:
    steps = check_up(dataclasses.replace(board.device, key="pixel"))
    assert [step.problem for step in steps] == [False, False, False, True]
    assert steps[-1].subject == "key"
    assert "--key=pixel" in steps[-1].advice


def test_a_target_for_another_processor_is_found_out(board: Emulation) -> None:
    if shutil.which("g++") is None:
        pytest.skip("Debian's g++ is absent")
    device = dataclasses.replace(board.device, target=LOCAL.target, linker="host", compiler=None)
    last = check_up(device)[-1]
    assert (last.subject, last.problem) == ("ABI", True)
    assert "the device is aarch64" in last.found


@pytest.mark.parametrize(
    ("change", "subject", "advice"),
    [
        ({"target": "nonsense"}, "target", "list_kinds"),
        ({"linker": "gnu", "compiler": "no-such-g++"}, "linker", "apt-get install"),
        ({"libraries": ("no-such-plug-in.so",)}, "session", "plug-ins"),
    ],
)
def test_the_step_that_fails_says_what_to_do(
    change: dict[str, Any], subject: str, advice: str
) -> None:
    last = check_up(dataclasses.replace(LOCAL, **change))[-1]
    assert (last.subject, last.problem) == (subject, True)
    assert advice in last.advice


def test_a_tracker_that_is_none_fails_its_step() -> None:
    with fake_tracker(b"HTTP") as address:
        last = check_up(dataclasses.replace(LOCAL, tracker=address, key="phone"))[-1]
    assert (last.subject, last.problem) == ("tracker", True)


def test_wrong_numbers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_run", lambda *_: np.zeros(module.EXTENT, "float32"))
    last = check_up(LOCAL)[-1]
    assert (last.subject, last.found) == ("kernel", "64 of 64 numbers are wrong")


def test_a_server_of_somebody_else_is_only_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceSession, "facts", lambda self: {})
    steps = check_up(LOCAL)
    (device,) = [step for step in steps if step.subject == "device"]
    assert "build-server" in device.advice
    assert not steps[-1].problem


def test_another_runtime_is_only_said(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"system": "Linux", "arch": "x86_64", "cpu": "", "cores": 1, "runtime": "0.11.0"}
    monkeypatch.setattr(DeviceSession, "facts", lambda self: facts)
    (runtime,) = [step for step in check_up(LOCAL) if step.subject == "runtime"]
    assert "0.11.0" in runtime.found
    assert runtime.advice


@pytest.mark.parametrize(
    ("drivers", "found"),
    [
        ([], "no driver is found"),
        ([{"device": "Adreno 740"}], "a driver for Adreno 740, but the server has no OpenCL"),
    ],
)
def test_what_is_missing_for_opencl_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, drivers: list[dict[str, str]], found: str
) -> None:
    monkeypatch.setattr(DeviceSession, "opencl", lambda self: drivers)
    steps = module._Steps()
    # A server with the runtime alone, asked for OpenCL.
    device = dataclasses.replace(LOCAL, target="opencl", host=LOCAL.target)
    with open_session(LOCAL) as session:
        session.device = device
        with pytest.raises(module._FailedError):
            module._check_opencl(steps, session)
    assert found in steps.taken[-1].found


def test_pocl_tells_its_platform_and_extensions() -> None:
    problem = why_no_opencl()
    if problem is not None:
        pytest.skip(problem)
    steps = check_up(find_device("pocl"))
    assert not any(step.problem for step in steps), steps
    told = {step.subject: step.found for step in steps}
    assert "Portable Computing Language" in told["platform"]
    assert "cl_khr_" in told["extensions"]
    assert " x " in told["images"]
