"""What is compiled is kept: once for all who wait, within a limit, and nothing of what failed."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tvm_fusionx.apps import kept_programs
from tvm_fusionx.apps.kept_programs import KeptPrograms, programs_folder
from tvm_fusionx.errors import InputError, OutputFileError

NAME = "made"


@pytest.fixture(autouse=True)
def _load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take any folder for programs."""
    monkeypatch.setattr(kept_programs, "load_compiled", lambda kept: ("a library",))


def _kept(folder: Path, model: str = "a", **choices: Any) -> KeptPrograms:
    return KeptPrograms(folder, "llvm", {"model": model}, **choices)


def _fill(kept: Path) -> None:
    kept.mkdir()
    (kept / "weights").write_bytes(bytes(1000))


def _ignore(stage: str) -> None:
    """Say nothing."""


def _refuse(kept: Path) -> None:
    raise InputError("model", expected="another", found="this", next_step="Give one.")


def test_what_is_made_is_kept_under_what_it_is_made_from(tmp_path: Path) -> None:
    first = _kept(tmp_path)
    assert [*tmp_path.iterdir()] == []
    stages: list[str] = []
    assert first.libraries(NAME, _fill, stages.append) == ("a library",)
    assert stages == []
    again = _kept(tmp_path)
    assert again.libraries(NAME, _refuse, stages.append) == ("a library",)
    assert stages == ["loading"]
    assert [*tmp_path.iterdir()] == [first.folder]
    assert _kept(tmp_path, "b").folder != first.folder
    assert KeptPrograms(tmp_path, "llvm -mcpu=haswell", {"model": "a"}).folder != first.folder


def test_texts_are_kept(tmp_path: Path) -> None:
    kept = _kept(tmp_path)
    assert kept.read_text("tokenizer.json") is None
    kept.write_text("tokenizer.json", "\u00fc", _ignore)
    assert _kept(tmp_path).read_text("tokenizer.json") == "\u00fc"


@pytest.mark.parametrize("error", [InputError, KeyboardInterrupt])
def test_what_failed_leaves_no_folder(tmp_path: Path, error: type[BaseException]) -> None:
    def fail(kept: Path) -> None:
        if error is InputError:
            _refuse(kept)
        raise error

    kept = _kept(tmp_path)
    with pytest.raises(error):
        kept.libraries(NAME, fail, _ignore)
    assert [*tmp_path.iterdir()] == []
    # What was there before stays.
    kept.write_text("tokenizer.json", "{}", _ignore)
    with pytest.raises(error):
        kept.libraries(NAME, fail, _ignore)
    assert [path.name for path in kept.folder.iterdir()] == ["tokenizer.json"]


def test_two_at_once_compile_once(tmp_path: Path) -> None:
    waits = threading.Event()
    stages: list[str] = []

    def say(stage: str) -> None:
        stages.append(stage)
        if stage.startswith("waiting"):
            waits.set()

    found: list[Any] = []
    other = threading.Thread(
        target=lambda: found.append(_kept(tmp_path).libraries(NAME, _refuse, say))
    )

    def slowly(kept: Path) -> None:
        other.start()
        assert waits.wait(60)
        _fill(kept)

    assert _kept(tmp_path).libraries(NAME, slowly, _ignore) == ("a library",)
    other.join()
    assert found == [("a library",)]
    assert stages == ["waiting for another process, which compiles this model", "loading"]


def test_who_waited_for_one_that_failed_makes_its_own(tmp_path: Path) -> None:
    waits = threading.Event()
    found: list[Any] = []

    def say(stage: str) -> None:
        waits.set()

    other = threading.Thread(
        target=lambda: found.append(_kept(tmp_path).libraries(NAME, _fill, say))
    )

    def fail_slowly(kept: Path) -> None:
        other.start()
        assert waits.wait(60)
        _refuse(kept)

    kept = _kept(tmp_path)
    with pytest.raises(InputError):
        kept.libraries(NAME, fail_slowly, _ignore)
    other.join()
    # It waited at a folder that is gone.
    assert found == [("a library",)]
    assert (kept.folder / NAME).is_dir()


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    kept = _kept(tmp_path)
    (kept.folder / f".{NAME}.0123456789abcdef" / "new").mkdir(parents=True)
    kept.libraries(NAME, _fill, _ignore)
    assert [path.name for path in kept.folder.iterdir()] == [NAME]


def test_the_longest_unused_goes_where_there_is_too_much(tmp_path: Path) -> None:
    models = [_kept(tmp_path, name) for name in "abc"]
    for age, kept in enumerate(models):
        kept.libraries(NAME, _fill, _ignore)
        os.utime(kept.folder, (1000 + age, 1000 + age))
    # Used again, the first is the newest.
    models[0].libraries(NAME, _refuse, _ignore)
    other = tmp_path / "somebody's"
    other.mkdir()
    (other / "large").write_bytes(bytes(10_000))
    newest = _kept(tmp_path, "d", limit_bytes=3500)
    newest.libraries(NAME, _fill, _ignore)
    assert {*tmp_path.iterdir()} == {models[0].folder, models[2].folder, newest.folder, other}
    # One that is larger than the limit stays, and so does what a process is alone with.
    handle = os.open(models[2].folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    largest = _kept(tmp_path, "e", limit_bytes=10)
    largest.libraries(NAME, _fill, _ignore)
    os.close(handle)
    assert {*tmp_path.iterdir()} == {models[2].folder, largest.folder, other}


def test_a_folder_that_cannot_be_made_is_told_with_its_variable(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("in the way")
    with pytest.raises(OutputFileError, match="TVM_FUSIONX_TEXT=FOLDER keeps compiled models"):
        _kept(tmp_path / "kept")


def test_the_folder_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_FUSIONX_TEXT", str(tmp_path))
    assert programs_folder() == tmp_path
    monkeypatch.delenv("TVM_FUSIONX_TEXT")
    assert programs_folder().name == "text"
