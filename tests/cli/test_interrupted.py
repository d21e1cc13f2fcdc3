"""Ctrl-C, as a signal to a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tiny_models import convolution, save
from tvm_fusionx.build.fused_build import build_fused
from tvm_fusionx.build.library import describe_library, save_library
from tvm_fusionx.cli.insist import WAITING
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.inputs import inputs_of

ROOT = Path(__file__).resolve().parents[2]

# Seconds after the command line is up: TVM loads, and builds or measures on a quiet machine.
MOMENTS = (0.3, 1.8)

# Longer than any of these commands takes to end, on a machine that does something else, too.
PATIENCE_SECONDS = 60

# Says when the command line has begun, and does all the same what it does.
BEGIN = (
    "import sys; sys.argv[0] = 'fusionx'; from tvm_fusionx.cli import entry;"
    " run = entry._run; entry._run = lambda *given: (print('begun', flush=True), run(*given))[1];"
    " entry.main()"
)

pytestmark = pytest.mark.slow


@pytest.fixture(name="files", scope="module")
def fixture_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model and its library."""
    folder = tmp_path_factory.mktemp("files")
    model = save(convolution(), folder)
    mod, params = from_onnx(model)
    library = build_fused(mod, "llvm -mcpu=native", params).library
    described = describe_library(library, model="m", target="", inputs=inputs_of(mod, params))
    save_library(described, folder / "lib.tar")
    return folder


def _interrupted(arguments: list[str], folder: Path, after: float) -> None:
    """Run a command without end, interrupt it, and check that nothing is left."""
    scratch, here = folder / "tmp", folder / "here"
    for each in (scratch, here):
        each.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)},
        cwd=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(after)
    assert process.poll() is None, "it ended by itself"
    # As a terminal does: to the command and to all that it started.
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert _spoken(said) == ["fusionx: interrupted"]
    assert list(scratch.iterdir()) == []
    assert list(here.iterdir()) == []


def _spoken(said: str) -> list[str]:
    """Return the lines that a command wrote, but for those that a slow machine or `run` adds."""
    return [
        line for line in said.splitlines() if line and not line.startswith(("No --inputs", WAITING))
    ]


@pytest.mark.parametrize("after", MOMENTS)
@pytest.mark.parametrize("command", ["bench", "run"])
def test_measuring_is_interrupted(command: str, after: float, files: Path, tmp_path: Path) -> None:
    endless = ["--repeat", "1000000000"]
    arguments = {
        "bench": ["bench", str(files / "model.onnx"), "--vs", "tvm,unfused,ort", *endless],
        "run": ["run", str(files / "lib.tar"), "--print-time", *endless],
    }
    _interrupted(arguments[command], tmp_path, after)


@pytest.mark.parametrize("after", MOMENTS[:1])
@pytest.mark.parametrize("command", ["compile", "verify"])
def test_building_is_interrupted(command: str, after: float, files: Path, tmp_path: Path) -> None:
    output = {"compile": "lib.tar", "verify": "reproduction"}[command]
    _interrupted([command, str(files / "model.onnx"), "-o", output], tmp_path, after)


def test_loading_numpy_from_c_is_interrupted(tmp_path: Path) -> None:
    # A module in C that imports NumPy prints what that raises, and raises something else.
    begin = (
        "import signal, sys; sys.argv[0] = 'fusionx'\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'numpy._core.multiarray':\n"
        "            sys.meta_path.remove(self)\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from tvm_fusionx.cli import entry; entry.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin, "run", str(tmp_path / "lib.tar")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, _spoken(done.stderr)) == (130, ["fusionx: interrupted"])


def test_linking_is_interrupted(files: Path, tmp_path: Path) -> None:
    compiler, linking = tmp_path / "c++", tmp_path / "linking"
    compiler.write_text(f'#!/bin/sh\nmkdir "{linking}"\nexec sleep 60\n')
    compiler.chmod(0o755)
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    arguments = ["compile", str(files / "model.onnx"), "-o", str(tmp_path / "lib.tar")]
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN, *arguments, "--cross-compiler", str(compiler)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while not linking.exists():
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, said
    assert _spoken(said) == ["fusionx: interrupted"]
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "lib.tar").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_cell_of_a_notebook_is_interrupted(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pytest.importorskip("jupyter_client", reason="jupyter_client is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    manager, talk = client.manager.start_new_kernel(kernel_name="python3")
    try:
        load = (
            f"import tvm_fusionx as fx; mod, params = fx.from_onnx({str(files / 'model.onnx')!r})"
        )
        assert talk.execute_interactive(load, timeout=PATIENCE_SECONDS)["content"]["status"] == "ok"
        talk.execute("print('begun')\nwhile True: fx.build(mod, 'llvm -mcpu=native', params)")
        while talk.get_iopub_msg(timeout=PATIENCE_SECONDS)["msg_type"] != "stream":
            pass
        time.sleep(MOMENTS[1])
        manager.interrupt_kernel()
        content = talk.get_shell_msg(timeout=PATIENCE_SECONDS)["content"]
        assert (content["status"], content["ename"]) == ("error", "KeyboardInterrupt")
        # A kernel turns away what comes too soon after an error.
        until = time.monotonic() + PATIENCE_SECONDS
        status = "aborted"
        while status == "aborted" and time.monotonic() < until:
            again = talk.execute_interactive("print(1 + 1)", timeout=PATIENCE_SECONDS)
            status = again["content"]["status"]
        assert status == "ok"
    finally:
        talk.stop_channels()
        manager.shutdown_kernel(now=True)
