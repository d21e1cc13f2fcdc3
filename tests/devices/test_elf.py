from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.devices.small_kernels import library
from tvm_fusionx.devices import find_device
from tvm_fusionx.devices.elf import read_elf
from tvm_fusionx.errors import LibraryFileError


def test_a_library_of_this_machine_is_read(tmp_path: Path) -> None:
    found = read_elf(library(find_device("local"), tmp_path, calls="pause"))
    assert found.undefined == {"pause"}
    assert any(name.startswith("libc.so") for name in found.needed)
    assert {"add_one", "__TVMFuncCall"} & found.defined
    assert found.page_bytes >= 4096


@pytest.mark.skipif(shutil.which("readelf") is None, reason="Debian's binutils is absent")
def test_the_names_are_those_that_readelf_tells(tmp_path: Path) -> None:
    path = library(find_device("local"), tmp_path, calls="pause")
    said = subprocess.run(
        ["readelf", "-W", "--dyn-syms", str(path)], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split() for line in said.splitlines() if line.strip()[:1].isdigit()]
    named = {(row[7].split("@")[0], row[6]) for row in rows if len(row) > 7}
    found = read_elf(path)
    assert found.defined >= {name for name, section in named if section != "UND"}


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 100])
def test_what_is_no_library_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(LibraryFileError):
        read_elf(path)
    with pytest.raises(LibraryFileError, match="FileNotFoundError"):
        read_elf(tmp_path / "none")
