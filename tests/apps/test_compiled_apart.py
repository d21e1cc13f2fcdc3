"""A model is compiled in a process of its own: its errors arrive here, and nothing of it stays."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.tiny_llama import Tiny, write_tiny
from tvm_fusionx.apps import compiled_apart
from tvm_fusionx.apps.compiled_apart import Wanted, compile_apart, compile_here, load_compiled
from tvm_fusionx.errors import LibraryFileError, ModelError

TINY = Tiny(layers=1)

TELLS_A_STAGE = 'import os, sys, time; print(\'{"stage": "one"}\', flush=True); '


def _wanted(folder: Path, places: int = 16) -> Wanted:
    write_tiny(folder / "tiny.gguf", tiny=TINY)
    return Wanted(
        model=str(folder / "tiny.gguf"),
        target="llvm",
        chunks=(1,),
        places=places,
        activations="float32",
        folder=str(folder / "made"),
    )


def _left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
def test_what_a_process_met_is_raised_here(tmp_path: Path) -> None:
    wanted = _wanted(tmp_path, places=128)
    stages: list[str] = []
    with pytest.raises(ModelError) as told:
        compile_apart(wanted, stages.append)
    with pytest.raises(ModelError) as expected:
        compile_here(wanted, lambda stage: None)
    assert str(told.value) == str(expected.value)
    assert "one of texts of 128 tokens; found 64" in str(told.value)
    assert stages == ["reading the model"]
    assert _left(tmp_path) == ["tiny.gguf"]


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


def test_nothing_is_no_program(tmp_path: Path) -> None:
    with pytest.raises(LibraryFileError):
        load_compiled(tmp_path)
