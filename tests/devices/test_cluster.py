"""Calls on a Ray cluster: where the device hangs, one at a time, and what goes wrong there."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.devices.two_raylets import fixture_address  # noqa: F401
from tvm_fusionx.devices.cluster import has_device, measure_on
from tvm_fusionx.errors import DeviceError, DeviceLostError, TuningError

pytestmark = pytest.mark.slow
ray: Any = pytest.importorskip("ray", reason="ray is not installed")


def _refuse(thing: str) -> float:
    raise TuningError(thing, expected="a", found="b", next_step="Do c.")


def _slowly(seconds: float) -> tuple[float, float]:
    begun = time.time()
    time.sleep(seconds)
    return begun, time.time()


def test_a_device_is_measured_where_it_hangs(address: str) -> None:
    assert has_device(address, "phone")
    assert not has_device(address, "tablet")
    assert measure_on(address, "phone", abs, -3.5) == 3.5
    with pytest.raises(DeviceError, match=r"device phone.*bad operand"):
        measure_on(address, "phone", abs, "fast")
    with pytest.raises(DeviceError, match="device:tablet"):
        measure_on(address, "tablet", abs, -3.5)


def test_errors_of_this_package_come_as_they_were_raised(address: str) -> None:
    with pytest.raises(TuningError, match=r"block k: expected a; found b\. Do c\."):
        measure_on(address, "phone", _refuse, "block k")


def test_a_phone_is_asked_one_thing_at_a_time(address: str) -> None:
    found = []

    def ask() -> None:
        found.append(measure_on(address, "phone", _slowly, 0.2))

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    (_, first_ended), (second_begun, _) = sorted(found)
    assert first_ended <= second_begun


def test_a_device_that_went_away_is_waited_for_and_given_up(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = iter([True])
    monkeypatch.setattr("tvm_fusionx.devices.cluster.has_device", lambda *_: next(there, False))
    monkeypatch.setattr("tvm_fusionx.devices.cluster.LOOK_SECONDS", 0.05)
    with pytest.raises(DeviceLostError, match=r"none for 0\.1 s.*--resume"):
        measure_on(address, "phone", time.sleep, 60, patience_seconds=0.1)
