from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.run_cli import Ran, runner
from tvm_fusionx.cli import devices_command
from tvm_fusionx.devices import build_server as building
from tvm_fusionx.devices import emulation
from tvm_fusionx.devices.build_server import ARCHITECTURES
from tvm_fusionx.devices.description import DEFAULT_TRACKER, FOLDER_VARIABLE, LINKERS, presets
from tvm_fusionx.devices.emulation import PRESET


@pytest.fixture(name="run")
def fixture_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "config"))
    return runner(capsys)


def test_the_command_knows_what_the_room_knows() -> None:
    assert tuple(ARCHITECTURES) == devices_command.ARCHITECTURES
    assert LINKERS == devices_command.LINKERS
    assert DEFAULT_TRACKER.endswith(f":{devices_command.DEFAULT_TRACKER_PORT}")


def test_what_is_added_is_listed_and_shown(run: Callable[..., Ran]) -> None:
    added = run(
        *("devices", "add", "pixel", "--like", "android-arm64", "--rpc-tracker", "10.0.0.2:9190"),
        *("--rpc-key", "pixel", "--target", "llvm -mtriple=aarch64-linux-android"),
    )
    assert added.code == 0, added.err
    listed = run("devices", "list").out
    assert "pixel: pixel at 10.0.0.2:9190, linked by " in listed
    assert all(f"{name}: " in listed for name in presets())
    shown = json.loads(run("devices", "show", "pixel").out)
    assert shown["key"] == "pixel"
    assert shown["target"] == "llvm -mtriple=aarch64-linux-android"


def test_a_cross_compiler_is_a_gnu_linker(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    ran = run(
        *("devices", "add", "board", "--cross-compiler", "arm-g++", "-o", path),
        *("--session-timeout", "5", "--load-library", "a.so"),
    )
    assert ran.code == 0, ran.err
    row = json.loads(path.read_text())
    assert (row["linker"], row["compiler"]) == ("gnu", "arm-g++")
    assert (row["session_timeout_seconds"], row["libraries"]) == (5.0, ["a.so"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "nothing"), 2, "no such device"),
        (("add", "x", "--target", "nonsense"), 2, "nonsense"),
        (("add", "x", "--rpc-tracker", "here"), 2, "host:port"),
        (("add", "x", "--like", "nothing"), 2, "no such device"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    run: Callable[..., Ran], words: tuple[str, ...], code: int, said: str
) -> None:
    ran = run("devices", *words)
    assert ran.code == code
    assert said in ran.problem


def test_a_built_server_says_how_to_start_it(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "server"

    def build(arch: str, output: Path, *, from_sources: bool, opencl: bool | None) -> Path:
        assert (arch, output, from_sources, opencl) == ("aarch64-linux", folder, False, None)
        folder.mkdir()
        (folder / "fusionx_rpc_server").write_text("program")
        return folder / "fusionx_rpc_server"

    monkeypatch.setattr(building, "build_server", build)
    ran = run("devices", "build-server", "-o", folder)
    assert ran.code == 0, ran.err
    assert "./fusionx_rpc_server --tracker=HOST:9190 --key=KEY" in ran.out


def test_an_emulation_ends_when_its_boards_do(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []

    @contextlib.contextmanager
    def emulate(count: int, port: int) -> Iterator[SimpleNamespace]:
        device = presets()[PRESET]
        server = SimpleNamespace(poll=lambda: 1)
        yield SimpleNamespace(device=device, servers=[server] * count, log=lambda: "no memory")
        ended.append(port)

    monkeypatch.setattr(emulation, "emulate", emulate)
    monkeypatch.setattr(devices_command.signal, "signal", lambda *_: None)
    ran = run("devices", "emulate", "--count", "2", "--port", "9999")
    assert ran.code == 0, ran.err
    assert f"2 x {PRESET}" in ran.out
    assert "no memory" in ran.err
    assert ended == [9999]
