from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relay

from tests.counting.test_emulator import require_counting
from tests.relay_modules import const, var
from tvm_fusionx.devices import find_device
from tvm_fusionx.errors import TargetError, UnknownDeviceError
from tvm_fusionx.lowering import lowering
from tvm_fusionx.search import clocks
from tvm_fusionx.search.clocks import Clock, CountingClock, DeviceClock, HostClock, clock_of
from tvm_fusionx.tuning import farm_bench


def _library(clock: Clock) -> tuple[Any, tvm.IRModule]:
    x = var("x", 4, 8)
    body = relay.nn.relu(relay.nn.dense(x, const(16, 8)))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))
    with lowering(clock.target):
        return relay.build(mod, clock.target), mod


def test_this_machine_tells_a_time() -> None:
    clock = HostClock()
    assert clock(*_library(clock)) > 0
    assert clock.setting.threads >= 1


@pytest.mark.slow
def test_counts_are_the_same_twice() -> None:
    require_counting()
    clock = CountingClock()
    library = _library(clock)
    assert clock(*library) == clock(*library) > 0
    assert "cortex-a76" in clock.setting.device


@pytest.mark.slow
def test_a_device_tells_a_time() -> None:
    with DeviceClock(find_device("local")) as clock:
        assert clock(*_library(clock)) > 0
    assert clock.setting.device.startswith("local")


def test_words_for_clocks() -> None:
    with clock_of("local") as clock:
        assert isinstance(clock, HostClock)
    with clock_of("count:cortex-a55") as clock:
        assert clock.core == "cortex-a55"
    with pytest.raises(TargetError), clock_of("count:cortex-b1") as clock:
        clock(*_library(clock))
    with pytest.raises(UnknownDeviceError), clock_of("no-such-phone"):
        pass


@pytest.mark.slow
def test_a_device_of_a_cluster_is_timed_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, str]] = []

    def measure_on(address: str, device: str, call: Any, *words: Any, retries: int) -> Any:
        asked.append((address, device))
        return call(*words)

    monkeypatch.setattr(farm_bench, "connect", lambda address: None)
    monkeypatch.setattr(farm_bench, "measure_on", measure_on)
    monkeypatch.setattr(clocks, "has_device", lambda address, device: device == "phone")
    for name in ("phone", "tablet"):
        described = tmp_path / f"{name}.json"
        described.write_text(json.dumps({"name": name, "target": "llvm"}))
        with clock_of(str(described), "host:1") as clock:
            assert clock(*_library(clock)) > 0
    assert asked == [("host:1", "phone")]
