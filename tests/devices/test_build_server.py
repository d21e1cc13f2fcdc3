from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tvm_fusionx.devices import build_server as module
from tvm_fusionx.devices.build_server import build_server
from tvm_fusionx.errors import DeviceError, MissingDependencyError, OutputFileError

pytestmark = pytest.mark.slow

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="Debian's g++ is absent")


@needs_compiler
def test_the_server_for_this_machine_starts_and_says_its_options(tmp_path: Path) -> None:
    program = build_server("host", tmp_path / "server")
    assert sorted(path.name for path in (tmp_path / "server").iterdir()) == [
        "fusionx_rpc_server",
        "libtvm_runtime.so",
    ]
    for words in (["--help"], ["--key=two words"], ["--key="]):
        ended = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        assert ended.returncode == 2
        assert "--tracker=HOST:PORT" in ended.stderr


def test_an_unknown_architecture_lists_the_known() -> None:
    with pytest.raises(DeviceError, match=r"aarch64-linux, aarch64-android"):
        build_server("vax", "out")


@pytest.mark.parametrize(
    ("arch", "advice"),
    [("aarch64-linux", r"g\+\+-aarch64-linux-gnu"), ("aarch64-android", "Android NDK")],
)
def test_a_missing_compiler_says_what_to_install(
    arch: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TVM_NDK_CC", raising=False)
    with pytest.raises(MissingDependencyError, match=advice):
        build_server(arch, tmp_path / "server")
    assert not (tmp_path / "server").exists()


@needs_compiler
def test_a_folder_with_other_files_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputFileError, match=r"notes\.txt"):
        build_server("host", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_android_gets_a_runtime_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, tuple[str, ...], bool]] = []

    def build_runtime(
        compiler: str, output: Path, folder: Path, libraries: tuple[str, ...], opencl: bool
    ) -> None:
        asked.append((compiler, libraries, opencl))
        shutil.copy(module.tvm_folder() / "libtvm_runtime.so", output)

    linked: list[list[str]] = []
    monkeypatch.setattr(module, "build_runtime", build_runtime)
    monkeypatch.setattr(module, "run_linker", lambda words, subject: linked.append(list(words)))
    monkeypatch.setenv("TVM_NDK_CC", "g++")
    build_server("aarch64-android", tmp_path / "server")
    assert asked[0][0].endswith("g++")
    assert asked[0][2]
    assert "-Wl,-z,max-page-size=16384" in linked[0]
    assert asked[0][1] == module.ARCHITECTURES["aarch64-android"].libraries
