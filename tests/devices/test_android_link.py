from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.devices.small_kernels import library
from tvm_fusionx.devices import Device, export_kernel, find_device
from tvm_fusionx.devices.android_link import bionic_symbols, check_for_android, link_with_lld
from tvm_fusionx.devices.check_up import probe
from tvm_fusionx.devices.elf import read_elf
from tvm_fusionx.errors import LinkError, MissingDependencyError

needs_lld = pytest.mark.skipif(shutil.which("ld.lld") is None, reason="Debian's lld is absent")


@pytest.fixture(name="phone")
def fixture_phone(monkeypatch: pytest.MonkeyPatch) -> Device:
    monkeypatch.delenv("TVM_NDK_CC", raising=False)
    return find_device("android-arm64")


@needs_lld
def test_a_model_needs_only_what_bionic_offers(tmp_path: Path, phone: Device) -> None:
    x = relay.var("x", shape=(2, 8), dtype="float64")
    mod = tvm.IRModule.from_expr(relay.power(relay.sin(x), relay.exp(x)))
    path = export_kernel(fx.build(mod, phone.tvm_target()), tmp_path / "model.so", phone)
    found = read_elf(path)
    assert found.machine == "aarch64"
    assert found.page_bytes == 16384
    assert {"sin", "pow", "exp"} & found.undefined
    assert "libm.so" in found.needed
    assert found.undefined <= {name for names in bionic_symbols().values() for name in names}


@needs_lld
def test_kernels_of_a_gpu_are_linked_for_its_host(tmp_path: Path, phone: Device) -> None:
    gpu = find_device("android-adreno")
    found = read_elf(export_kernel(probe(gpu), tmp_path / "gpu.so", gpu))
    assert found.machine == "aarch64"
    assert "__tvm_dev_mblob" in found.defined


@needs_lld
def test_a_symbol_that_bionic_lacks_is_named_and_nothing_is_left(
    tmp_path: Path, phone: Device
) -> None:
    with pytest.raises(LinkError, match="found it needs __no_such_symbol"):
        library(phone, tmp_path, calls="__no_such_symbol")
    assert not list(tmp_path.iterdir())


@needs_lld
def test_objects_of_another_processor_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "host.o"
    host = find_device("local")
    library(host, tmp_path)
    path.write_bytes((tmp_path / "add_one.so").read_bytes())
    with pytest.raises(LinkError, match=r"by ld\.lld"):
        link_with_lld(str(tmp_path / "out.so"), [str(path)])


def test_a_library_of_another_machine_is_refused(tmp_path: Path) -> None:
    path = library(find_device("local"), tmp_path)
    if read_elf(path).machine != "aarch64":
        with pytest.raises(LinkError, match="expected code for aarch64"):
            check_for_android(path)


def test_a_missing_linker_says_what_to_install(
    tmp_path: Path, phone: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependencyError, match="apt-get install lld"):
        library(phone, tmp_path)
