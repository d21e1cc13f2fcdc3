from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tvm_fusionx.devices import Device, find_device
from tvm_fusionx.devices.description import FOLDER_VARIABLE, devices_folder, own_devices, presets
from tvm_fusionx.errors import DeviceError, OutputFileError, TargetError, UnknownDeviceError


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "config"))
    devices_folder().mkdir(parents=True)
    return devices_folder()


@pytest.mark.parametrize("name", sorted(presets()))
def test_a_preset_has_a_target_that_tvm_knows(name: str) -> None:
    device = find_device(name)
    target = device.tvm_target()
    assert device.is_local == (device.key is None)
    if device.host is not None:
        assert target.host is not None
        assert target.kind.name == "opencl"


def test_android_is_linked_by_the_ndk_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TVM_NDK_CC", raising=False)
    assert find_device("android-arm64").linker == "lld"
    monkeypatch.setenv("TVM_NDK_CC", "aarch64-linux-android24-clang++")
    assert find_device("android-arm64").linker == "ndk"
    assert find_device("emulated-arm64").linker == "gnu"


def test_a_file_brings_back_what_was_saved(tmp_path: Path) -> None:
    device = find_device(
        "android-adreno", name="pixel", tracker="10.0.0.2:9000", libraries=("a.so", "b.so")
    )
    device.save(tmp_path / "pixel.json")
    assert find_device(tmp_path / "pixel.json") == device
    assert find_device(str(tmp_path / "pixel.json")) == device
    assert device.tracker_address == ("10.0.0.2", 9000)


def test_a_device_of_the_users_own_hides_a_preset(own_folder: Path) -> None:
    find_device("local", target="llvm").save(own_folder / "local.json")
    assert list(own_devices()) == ["local"]
    assert find_device("local").target == "llvm"


def test_overrides_replace_fields_and_none_leaves_them() -> None:
    device = find_device("android-arm64", tracker="host:1", key=None)
    assert (device.tracker, device.key) == ("host:1", "android")
    with pytest.raises(TypeError, match="colour"):
        find_device("local", colour="red")


def test_a_name_that_nobody_knows_lists_those_that_are() -> None:
    with pytest.raises(UnknownDeviceError, match=r"one of local, android-arm64.*devices add phone"):
        find_device("phone")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"name": "../evil"}, "name: expected letters"),
        ({"target": ""}, "target: expected a TVM target string"),
        ({"linker": "gold"}, "'gold'"),
        ({"linker": "gnu"}, "the cross compiler's command"),
        ({"tracker": "host"}, "expected host:port"),
        ({"tracker": "host:99999", "key": "k"}, "expected host:port"),
        ({"tracker": "host:9190"}, "key: expected the key"),
        ({"session_timeout_seconds": 0.0}, "above 0"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], found: str) -> None:
    with pytest.raises(UnknownDeviceError, match=found):
        Device(**{"name": "d", "target": "llvm", **change})


NESTED = pytest.param("[" * 100_000, id="nested")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"target": "llvm", "colour": 1}', "{}", NESTED])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(UnknownDeviceError, match=r"broken\.json"):
        find_device(path)


def test_a_file_may_leave_out_what_has_a_default(tmp_path: Path) -> None:
    (tmp_path / "board.json").write_text(json.dumps({"target": "llvm"}))
    assert find_device(tmp_path / "board.json") == Device("board", "llvm")


def test_a_missing_file_and_an_unwritable_one_are_typed_errors(tmp_path: Path) -> None:
    with pytest.raises(UnknownDeviceError, match="FileNotFoundError"):
        find_device(tmp_path / "none.json")
    with pytest.raises(OutputFileError):
        find_device("local").save(tmp_path / "none" / "d.json")


def test_a_target_that_tvm_does_not_know_is_a_target_error() -> None:
    with pytest.raises(TargetError):
        find_device("local", target="nonsense").tvm_target()


def test_only_this_machines_cpu_takes_a_number_of_threads() -> None:
    local = find_device("local", target="llvm -mcpu=haswell -num-cores=4").with_cores(1)
    assert local.target == "llvm -mcpu=haswell -num-cores=1"
    assert local.tvm_target().attrs["num-cores"] == 1
    for name in ("android-arm64", "pocl"):
        with pytest.raises(DeviceError, match="num-cores"):
            find_device(name).with_cores(1)
