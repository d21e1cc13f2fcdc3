from __future__ import annotations

import os
from pathlib import Path

import pytest

from tvm_fusionx.errors import EXIT_ENVIRONMENT, OutputFileError
from tvm_fusionx.output_file import check_writable, new_file, new_folder


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


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputFileError, match="No such file") as caught:
        check_writable(tmp_path / "missing" / "out.txt")
    assert str(tmp_path / "missing" / "out.txt") in caught.value.thing
    assert caught.value.exit_code == EXIT_ENVIRONMENT


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

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
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
