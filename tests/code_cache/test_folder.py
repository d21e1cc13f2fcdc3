"""The folder is private, bounded by last use, and forgives what it finds."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from tvm_fusionx.code_cache.decision import Decision
from tvm_fusionx.code_cache.entry import ELF, Entry
from tvm_fusionx.code_cache.folder import KernelFolder, default_folder, kernels_of
from tvm_fusionx.late_passes.workspaces import Workspace

KEYS = [f"{number:064x}" for number in range(4)]


def entry(size: int = 100) -> Entry:
    return Entry(ELF + bytes(size), Workspace())


@pytest.fixture
def folder(tmp_path: Path) -> KernelFolder:
    made = KernelFolder(tmp_path / "a" / "kernels", limit_bytes=1500)
    assert made.why_unusable() is None
    return made


def test_only_its_user_may_enter(folder: KernelFolder) -> None:
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.path.chmod(0o770)
    assert "chmod 700" in str(folder.why_unusable())


def test_a_link_a_file_and_another_users_folder_are_not_trusted(
    folder: KernelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder.path)
    assert "no folder of its own" in str(KernelFolder(link).why_unusable())
    file = tmp_path / "file"
    file.touch()
    assert KernelFolder(file).why_unusable() is not None
    assert KernelFolder(file / "kernels").why_unusable() is not None
    monkeypatch.setattr(os, "getuid", lambda: -1)
    assert "another user" in str(folder.why_unusable())


def test_what_is_written_is_read(folder: KernelFolder) -> None:
    assert folder.read(KEYS[0]) is None
    folder.write(KEYS[0], entry())
    assert folder.read(KEYS[0]) == entry()
    assert [path.suffix for path, _, _ in folder.entries()] == [".kernel"]


def test_a_decision_is_kept_beside_and_counted_as_no_kernel(folder: KernelFolder) -> None:
    told = Decision("rows", {"tile": 4}, (), KEYS[1])
    assert folder.read_decision(KEYS[0]) is None
    assert folder.write_decision(KEYS[0], told) is None
    assert folder.read_decision(KEYS[0]) == told
    assert folder.read(KEYS[0]) is None
    folder.write(KEYS[0], entry())
    entries = folder.entries()
    assert len(entries) == 2
    assert [path.suffix for path in kernels_of(entries)] == [".kernel"]
    assert folder.clear() == (1, sum(size for _, size, _ in entries))
    assert folder.entries() == []


def test_a_damaged_decision_is_removed(folder: KernelFolder) -> None:
    folder.write_decision(KEYS[0], Decision("rows", {}, (), KEYS[1]))
    ((path, _, _),) = folder.entries()
    path.write_bytes(path.read_bytes()[:-1])
    assert folder.read_decision(KEYS[0]) is None
    assert folder.entries() == []


def test_a_damaged_entry_is_removed(folder: KernelFolder, caplog: pytest.LogCaptureFixture) -> None:
    folder.write(KEYS[0], entry())
    ((path, _, _),) = folder.entries()
    path.write_bytes(path.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING):
        assert folder.read(KEYS[0]) is None
    assert "compiled again" in caplog.text
    assert folder.entries() == []


def test_what_was_longest_unused_goes_first(folder: KernelFolder) -> None:
    for age, key in enumerate(KEYS):
        folder.write(key, entry(300))
        os.utime(folder.path / f"{key}.kernel", (1000 + age, 1000 + age))
    # Reading is use.
    assert folder.read(KEYS[0]) is not None
    assert folder.evict() == 2
    assert folder.read(KEYS[1]) is None
    assert folder.read(KEYS[2]) is None
    assert folder.read(KEYS[0]) is not None
    assert folder.read(KEYS[3]) is not None
    assert folder.evict() == 0


def test_what_cannot_be_written_is_said_and_no_error(folder: KernelFolder) -> None:
    gone = KernelFolder(folder.path / "gone")
    assert "No such file" in str(gone.write(KEYS[0], entry()))
    assert gone.entries() == []
    assert folder.write(KEYS[0], entry()) is None


def test_a_folder_that_is_only_read_is_used(
    folder: KernelFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write(KEYS[0], entry())

    def refused(*arguments: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", refused)
    with caplog.at_level(logging.WARNING):
        assert folder.read(KEYS[0]) == entry()
    assert caplog.text == ""


def test_what_cannot_be_read_today_stays(
    folder: KernelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(KEYS[0], entry())

    def refused(*arguments: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        assert folder.read(KEYS[0]) is None
    assert folder.read(KEYS[0]) == entry()


def test_a_pipe_is_not_waited_for(folder: KernelFolder) -> None:
    pipe = folder.path / f"{KEYS[0]}.kernel"
    os.mkfifo(pipe)
    assert folder.read(KEYS[0]) is None
    assert not pipe.exists()


def test_what_a_killed_process_left_goes(folder: KernelFolder) -> None:
    left = [folder.path / f".{key}.kernel.0123" for key in KEYS[:2]]
    for each in left:
        each.mkdir()
        (each / "part").write_bytes(bytes(100))
    os.utime(left[0], (1000, 1000))
    folder.evict()
    # Who made the other may still write.
    assert [each.exists() for each in left] == [False, True]
    folder.clear()
    assert not left[1].exists()


def test_clearing_leaves_what_is_none_of_its_own(folder: KernelFolder) -> None:
    folder.write(KEYS[0], entry())
    other = folder.path / "notes.txt"
    other.write_text("mine")
    count, held = folder.clear()
    assert (count, held > 100) == (1, True)
    assert other.read_text() == "mine"


def test_the_default_lies_in_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_FUSIONX_CACHE", str(tmp_path))
    assert default_folder() == tmp_path / "kernels"
