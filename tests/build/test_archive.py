from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tvm_fusionx.build.archive import (
    BYTECODE,
    CHECKED_MEMBERS,
    CODE,
    METADATA,
    checked_metadata,
    linked,
    loaded_code,
    read_members,
    refusal,
    sha256_of,
    write_members,
)
from tvm_fusionx.errors import LibraryFileError

WHOLE = {name: name.encode() for name in (*CHECKED_MEMBERS, METADATA)}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "lib.tar"
    write_members(path, WHOLE)
    assert read_members(path) == WHOLE


def test_a_file_for_the_machine_needs_no_graph(tmp_path: Path) -> None:
    path = tmp_path / "lib.tar"
    write_members(path, {CODE: b"c", BYTECODE: b"b", METADATA: b"{}"})
    assert set(read_members(path)) == {CODE, BYTECODE, METADATA}
    write_members(path, {BYTECODE: b"b", METADATA: b"{}"})
    with pytest.raises(LibraryFileError, match=f"no {CODE}"):
        read_members(path)


def test_a_member_of_another_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lib.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("../evil"), io.BytesIO())
    with pytest.raises(LibraryFileError, match="do not trust it"):
        read_members(path)


@pytest.mark.parametrize(
    ("version", "members"),
    [(3, WHOLE), (1, {CODE: b"", BYTECODE: b"", METADATA: b""}), (5, WHOLE)],
    ids=["machine's version, graph", "graph's version, bytecode", "unknown"],
)
def test_a_version_goes_with_its_members(version: int, members: dict[str, bytes]) -> None:
    sums = {name: value for name, value in sha256_of(members).items() if name != METADATA}
    text = f'{{"format_version": {version}, "sha256": {str(sums).replace(chr(39), chr(34))}}}'
    with pytest.raises(LibraryFileError, match=f"format version {version}"):
        checked_metadata(Path("lib.tar"), {**members, METADATA: text.encode()})


def test_a_changed_member_is_refused() -> None:
    sums = {name: "0" * 64 for name in CHECKED_MEMBERS}
    text = f'{{"format_version": 1, "sha256": {str(sums).replace(chr(39), chr(34))}}}'
    with pytest.raises(LibraryFileError, match="with SHA-256 000000000000"):
        checked_metadata(Path("lib.tar"), {**WHOLE, METADATA: text.encode()})


def test_code_that_cannot_be_loaded_is_refused() -> None:
    with pytest.raises(LibraryFileError, match="built for 'llvm'"):
        loaded_code(Path("lib.tar"), {CODE: b"no code"}, {"target": "llvm"}, None)


def test_a_refusal_names_the_file() -> None:
    assert "library file lib.tar" in str(refusal(Path("lib.tar"), "this", "that", "Do so."))


def test_a_module_is_linked_to_a_shared_library() -> None:
    import tvm
    from tvm import te

    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] + 1.0, name="y")
    module = tvm.build(te.create_schedule(y.op), [x, y], "llvm")
    assert linked(module, "llvm", None, None)[:4] == b"\x7fELF"
