from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
from pathlib import Path

import pytest

from tvm_fusionx.errors import EXIT_USAGE, DiskFullError, OutputFileError
from tvm_fusionx.output_file import (
    check_space,
    check_writable,
    locked,
    make_folder,
    new_file,
    new_folder,
    remove_unfinished,
    reported_space,
)


def test_a_file_appears_when_the_scope_ends(tmp_path: Path) -> None:
    final = tmp_path / "out.txt"
    with new_file(final) as scratch:
        scratch.write_text("new")
        assert not final.exists()
    assert final.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_after_an_error_the_old_file_stays_and_nothing_else(tmp_path: Path) -> None:
    final = tmp_path / "out.txt"
    final.write_text("old")

    def fail_midway() -> None:
        with new_file(final) as scratch:
            scratch.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_midway()
    assert final.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_a_folder_replaces_an_older_one_as_a_whole(tmp_path: Path) -> None:
    final = tmp_path / "out"
    for name in ("first", "second"):
        with new_folder(final) as scratch:
            (scratch / name).write_text(name)
    assert [path.name for path in final.iterdir()] == ["second"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_at_a_chosen_path_is_replaced_where_it_holds_nothing_else(tmp_path: Path) -> None:
    final = tmp_path / "out"

    def write(text: str) -> None:
        with new_folder(final, ("log", "index")) as scratch:
            (scratch / "log").write_text(text)

    for text in ("first", "second"):
        write(text)
    assert (final / "log").read_text() == "second"
    (final / "thesis.txt").write_text("mine")
    with pytest.raises(OutputFileError, match=r"only log, index; found .* thesis\.txt"):
        write("third")
    assert (final / "log").read_text() == "second"
    final = tmp_path / "file"
    final.write_text("mine")
    with pytest.raises(OutputFileError, match="found a file"):
        write("fourth")
    assert final.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "out"]


def test_a_folder_is_made_with_those_around_it_or_the_file_in_the_way_named(tmp_path: Path) -> None:
    for _ in range(2):
        make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputFileError, match=r"file: .*File exists"):
        make_folder(tmp_path / "file")
    with pytest.raises(OutputFileError, match="Not a directory"):
        make_folder(tmp_path / "file" / "b")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputFileError, match="No such file") as caught:
        check_writable(tmp_path / "missing" / "out.txt")
    assert str(tmp_path / "missing" / "out.txt") in caught.value.thing
    assert caught.value.exit_code == EXIT_USAGE


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(OutputFileError, match="found a folder"):
        check_writable(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputFileError, match="Permission denied"), new_file(tmp_path / "out"):
        pass


def test_a_read_only_file_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.mkdir", refuse)
    with pytest.raises(OutputFileError, match="Permission denied"):
        check_writable(tmp_path / "out")


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        with new_file(tmp_path / "out") as scratch:
            scratch.write_text("")
    finally:
        os.umask(old)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


def test_a_full_disk_is_an_error_of_its_own(tmp_path: Path) -> None:
    with (
        pytest.raises(DiskFullError, match=r"output .*/out: .*No space left") as caught,
        new_file(tmp_path / "out"),
        open("/dev/full", "wb", buffering=0) as full,
    ):
        full.write(b"x")
    assert caught.value.exit_code == 3
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_without_space_are_told_and_nothing_else() -> None:
    with pytest.raises(DiskFullError, match=r"temporary folder .*TMPDIR"), reported_space():
        raise OSError(errno.EDQUOT, "Disk quota exceeded")
    with pytest.raises(OSError, match="Is a directory"), reported_space():
        raise OSError(errno.EISDIR, "Is a directory")


@pytest.mark.parametrize(("free", "said"), [(0, "^temporary folder "), (1 << 40, "another place")])
def test_an_error_without_a_name_is_of_the_temporary_folder_where_that_is_full(
    monkeypatch: pytest.MonkeyPatch, free: int, said: str
) -> None:
    usage = shutil.disk_usage(tempfile.gettempdir())._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DiskFullError, match=said), reported_space():
        raise OSError(errno.ENOSPC, "No space left on device")


def test_what_programs_say_of_space() -> None:
    check_space("error: no such file")
    with pytest.raises(DiskFullError):
        check_space("as: cannot write: No space left on device")


def test_what_is_unfinished_can_be_removed_from_outside(tmp_path: Path) -> None:
    def write() -> None:
        with new_file(tmp_path / "out") as scratch:
            scratch.write_text("half")
            assert len(list(tmp_path.iterdir())) == 1
            remove_unfinished()
            assert list(tmp_path.iterdir()) == []

    with pytest.raises(OutputFileError, match="No such file"):
        write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OutputFileError, match="a device, a pipe"):
        check_writable(pipe)
    with pytest.raises(OutputFileError, match="a device, a pipe"), new_file(pipe):
        pytest.fail("goes on")
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_an_input_is_not_written_over(tmp_path: Path) -> None:
    model, other = tmp_path / "model.onnx", tmp_path / "other.onnx"
    model.write_bytes(b"a model")
    other.symlink_to(model)
    for output in (model, other):
        with pytest.raises(OutputFileError, match="the input itself"):
            check_writable(output, model)
    check_writable(tmp_path / "new.onnx", model)


def test_what_is_locked_waits_for_the_process_before(tmp_path: Path) -> None:
    path, entered = tmp_path / "new" / "made", threading.Event()

    def enter() -> None:
        with locked(path):
            entered.set()

    waiting = threading.Thread(target=enter)
    with locked(path):
        waiting.start()
        assert not entered.wait(0.2)
    assert entered.wait(60)
    waiting.join()


def test_a_lock_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "made.lock").mkdir()
    for path in (tmp_path / "file" / "made", tmp_path / "made"):
        with pytest.raises(OutputFileError, match="an existing folder"), locked(path):
            pytest.fail("goes on")
