from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.devices.small_kernels import add_one, library
from tvm_fusionx.devices import Device, export_kernel, find_device
from tvm_fusionx.devices.elf import read_elf
from tvm_fusionx.errors import LinkError, MissingDependencyError, OutputFileError

CROSS = find_device("emulated-arm64")
needs_cross_compiler = pytest.mark.skipif(
    shutil.which("aarch64-linux-gnu-g++") is None, reason="Debian's g++-aarch64-linux-gnu is absent"
)


def test_the_hosts_linker_links_for_the_host(tmp_path: Path) -> None:
    path = library(find_device("local"), tmp_path)
    assert "add_one" in read_elf(path).defined
    assert tvm.runtime.load_module(str(path)).entry_name == "__tvm_main__"


@needs_cross_compiler
def test_a_whole_model_is_one_cross_linked_library(tmp_path: Path) -> None:
    x = relay.var("x", shape=(2, 8))
    mod = tvm.IRModule.from_expr(relay.erf(relay.nn.dense(x, relay.const([[1.0] * 8] * 4))))
    factory = fx.build(mod, CROSS.tvm_target())
    found = read_elf(export_kernel(factory, tmp_path / "model.so", CROSS))
    assert found.machine == "aarch64"
    assert "__tvm_dev_mblob" in found.defined


@needs_cross_compiler
def test_objects_of_another_processor_are_refused_by_the_devices_linker(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="aarch64-linux-gnu-g"):
        export_kernel(add_one(find_device("local")), tmp_path / "x.so", CROSS)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (dataclasses.replace(CROSS, compiler="riscv64-nowhere-g++"), "riscv64-nowhere-g\\+\\+"),
        (Device("d", CROSS.target, linker="ndk"), "TVM_NDK_CC"),
    ],
)
def test_a_missing_linker_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Device, expected: str
) -> None:
    monkeypatch.delenv("TVM_NDK_CC", raising=False)
    with pytest.raises(MissingDependencyError, match=expected):
        library(device, tmp_path)


@needs_cross_compiler
def test_what_an_ndk_links_is_checked_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_NDK_CC", "aarch64-linux-gnu-g++")
    device = find_device("android-arm64")
    assert device.linker == "ndk"
    # A compiler for Linux stands in for Android's; what it links needs nothing else.
    assert read_elf(library(device, tmp_path)).page_bytes == 16384
    with pytest.raises(LinkError, match=r"bionic offers; found it needs no_such_symbol"):
        library(device, tmp_path, calls="no_such_symbol")


def test_a_folder_that_is_missing_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(OutputFileError):
        library(find_device("local"), tmp_path / "missing")
