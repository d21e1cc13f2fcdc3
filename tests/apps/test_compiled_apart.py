"""A model is compiled in a process of its own: its errors arrive here, and nothing of it stays."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tiny_llama import Tiny, write_tiny
from tvm_fusionx.apps import compiled_apart
from tvm_fusionx.apps.compiled_apart import Wanted, compile_apart, load_compiled
from tvm_fusionx.apps.decoder_programs import WantedDecoder
from tvm_fusionx.apps.model_files import digest_of
from tvm_fusionx.errors import DiskFullError, InputError, LibraryFileError, ModelError

TINY = Tiny(layers=1)

TELLS_A_STAGE = 'import os, sys, time; print(\'{"stage": "one"}\', flush=True); '


def _wanted(folder: Path, places: int = 16) -> WantedDecoder:
    write_tiny(folder / "tiny.gguf", tiny=TINY)
    return WantedDecoder(
        model=str(folder / "tiny.gguf"),
        digest=digest_of(folder / "tiny.gguf"),
        target="llvm",
        chunks=(1,),
        places=places,
        least_places=places,
        activations="float32",
        folder=str(folder / "made"),
    )


@dataclass(frozen=True)
class _Advised(Wanted):
    """Compiles nothing, and hears TVM's advice meanwhile."""

    numbers: tuple[int, ...]

    def compile_here(self, on_stage: Callable[[str], None]) -> None:
        logging.getLogger("autotvm").warning("a fallback configuration is used")
        on_stage(f"{type(self).__name__} {self.numbers}")


def _left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
def test_what_a_process_met_is_raised_here(tmp_path: Path) -> None:
    wanted = _wanted(tmp_path, places=128)
    stages: list[str] = []
    with pytest.raises(InputError) as told:
        compile_apart(wanted, stages.append)
    with pytest.raises(InputError) as expected:
        wanted.compile_here(lambda stage: None)
    assert str(told.value) == str(expected.value)
    assert (
        "at most 64 tokens, prompt and answer together: the model knows no more; found 128"
        in str(told.value)
    )
    assert stages == ["reading the model"]
    assert _left(tmp_path) == ["tiny.gguf"]


@pytest.mark.slow
def test_a_process_compiles_what_it_was_told_and_passes_no_advice_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stages: list[str] = []
    compile_apart(_Advised("a model", "", "llvm", str(tmp_path / "made"), (1, 2)), stages.append)
    assert stages == ["_Advised (1, 2)"]
    assert "fallback" not in capfd.readouterr().err


def test_a_process_that_is_ended_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_apart, "SCRIPT", TELLS_A_STAGE + "os.kill(os.getpid(), 9)")
    stages: list[str] = []
    with pytest.raises(ModelError, match="the process that compiled it ended with -9"):
        compile_apart(_wanted(tmp_path), stages.append)
    assert stages == ["one"]
    assert _left(tmp_path) == ["tiny.gguf"]


def test_who_is_stopped_stops_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = tmp_path / "begun"
    script = f"open({os.fspath(begun)!r}, 'w').write(str(os.getpid())); "
    monkeypatch.setattr(
        compiled_apart, "SCRIPT", f"import os; {script}{TELLS_A_STAGE}time.sleep(600)"
    )

    def stop(stage: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_apart(_wanted(tmp_path), stop)
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)
    assert _left(tmp_path) == ["begun", "tiny.gguf"]


def test_it_imports_what_its_parent_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A module in the folder that a process stands in is nobody's.
    (tmp_path / "json.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    told = tmp_path / "told"
    head = compiled_apart.SCRIPT.partition("from tvm_fusionx")[0]
    script = f"{head}import json; open({os.fspath(told)!r}, 'w').write(str(sys.path))"
    monkeypatch.setattr(compiled_apart, "SCRIPT", script)
    monkeypatch.setattr("sys.path", ["/nowhere", *sys.path])
    compile_apart(_wanted(tmp_path), lambda stage: None)
    assert told.read_text().startswith("['/nowhere', ")


def test_what_else_is_printed_is_no_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = "print('noise', flush=True); "
    monkeypatch.setattr(compiled_apart, "SCRIPT", f"{noise}{TELLS_A_STAGE}print('{{\"st', end='')")
    stages: list[str] = []
    compile_apart(_wanted(tmp_path), stages.append)
    assert stages == ["one"]


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(wanted: Wanted, on_stage: object) -> None:
        raise OSError(errno.ENOSPC, "full", "/somewhere")

    monkeypatch.setattr(WantedDecoder, "compile_here", fill)
    with pytest.raises(DiskFullError, match="/somewhere: expected space to write"):
        compiled_apart._compile_reported(_wanted(tmp_path), lambda stage: None)


@pytest.mark.slow
def test_it_ends_with_its_parent() -> None:
    child = (
        "import os, sys, time; from tvm_fusionx.apps.compiled_apart import end_with; "
        "end_with(int(sys.argv[1])); print(os.getpid(), flush=True); time.sleep(600)"
    )
    parent = (
        "import os, subprocess, sys; "
        f"words = [sys.executable, '-c', {child!r}, str(os.getpid())]; "
        "child = subprocess.Popen(words, stdout=subprocess.PIPE); "
        "print(int(child.stdout.readline()), flush=True); os.kill(os.getpid(), 9)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", parent], stdout=subprocess.PIPE, env={**os.environ}, check=False
    )
    status = Path(f"/proc/{int(ran.stdout)}/status")
    deadline = time.monotonic() + 60
    # Who inherits orphans may leave them unburied.
    while status.is_file() and "(zombie)" not in status.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_nothing_is_no_program(tmp_path: Path) -> None:
    with pytest.raises(LibraryFileError):
        load_compiled(tmp_path)
