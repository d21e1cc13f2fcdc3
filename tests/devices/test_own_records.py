from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.relay_modules import TARGET
from tvm_fusionx.devices import Device, own_records
from tvm_fusionx.devices.own_records import device_fingerprint, records_for
from tvm_fusionx.errors import DeviceError
from tvm_fusionx.records import Record, write_records
from tvm_fusionx.records.device import this_device
from tvm_fusionx.schedules import resolve_target, target_key

PHONE = Device("phone", "llvm -mtriple=aarch64-linux-gnu", tracker="127.0.0.1:1", key="k")
LOCAL = Device("local", TARGET)


def _record(device: Device, name: str, measured_at: float) -> Record:
    key = target_key(device.tvm_target())
    return Record(key, "1", "dot", {"tile_rows": 2}, device=name, measured_at=measured_at)


def test_devices_are_told_apart() -> None:
    assert device_fingerprint(PHONE, {}) == "phone, key k"
    facts = {"cpu": "", "arch": "aarch64", "cores": 8}
    assert device_fingerprint(PHONE, facts) == "aarch64, 8 threads"


def test_the_device_is_asked_only_where_its_answer_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Session:
        def facts(self) -> dict[str, Any]:
            asked.append(True)
            return {"cpu": "A76", "cores": 8}

    @contextlib.contextmanager
    def opened(device: Device) -> Iterator[Session]:
        yield Session()

    monkeypatch.setattr(own_records, "open_session", opened)
    own, other = _record(PHONE, "A76, 8 threads", 1.0), _record(PHONE, "A53, 4 threads", 2.0)
    write_records(tmp_path, [other])
    assert records_for(PHONE, tmp_path) == {"1": other}
    assert not asked
    write_records(tmp_path, [own, other])
    assert records_for(PHONE, tmp_path) == {"1": own}
    assert asked
    assert records_for(PHONE, None) is None


def test_a_device_that_does_not_answer_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(device: Device) -> Any:
        raise DeviceError("phone", expected="an answer", found="none", next_step="Start it.")

    monkeypatch.setattr(own_records, "open_session", refused)
    newest = _record(PHONE, "b", 2.0)
    write_records(tmp_path, [_record(PHONE, "a", 1.0), newest])
    assert records_for(PHONE, tmp_path) == {"1": newest}
    said = [each.levelname for each in caplog.records]
    assert said == ["WARNING", "WARNING"]
    assert "phone does not tell" in caplog.records[0].message


def test_this_machine_knows_itself(tmp_path: Path) -> None:
    own = _record(LOCAL, this_device(resolve_target(TARGET)) or "", 1.0)
    write_records(tmp_path, [own, _record(LOCAL, "some other machine", 2.0)])
    assert records_for(LOCAL, tmp_path) == {"1": own}
