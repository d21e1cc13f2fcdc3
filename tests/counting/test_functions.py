from __future__ import annotations

import struct
from pathlib import Path

from tvm_fusionx.counting.functions import EMPTY, read_functions
from tvm_fusionx.devices.elf import HEADER, MAGIC, SECTION, SEGMENT, SYMBOL

FUNCTION, OBJECT = 2, 1
SHARED, AARCH64 = 3, 183


def library(tmp_path: Path) -> Path:
    """Write an ELF file: two functions and an object, loaded from offset 0x100 to 0x1100."""
    names = b"\0first\0second\0thing\0"
    symbols = b"".join(
        SYMBOL.pack(names.index(name), kind, 0, 1, address, size)
        for name, kind, address, size in (
            (b"first", FUNCTION, 0x1100, 0x20),
            (b"second", FUNCTION, 0x1140, 0),
            (b"thing", OBJECT, 0x1120, 4),
        )
    )
    sections_at = HEADER.size + SEGMENT.size
    symbols_at = sections_at + 2 * SECTION.size
    names_at = symbols_at + len(symbols)
    ident = MAGIC.ljust(16, b"\0")
    header = HEADER.pack(
        ident, SHARED, AARCH64, 1, 0, HEADER.size, sections_at, 0, 0, 0, 1, 0, 2, 0
    )
    segment = SEGMENT.pack(1, 5, 0x100, 0x1100, 0x1100, 0x100, 0x100, 0x1000)
    table = SECTION.pack(0, 2, 0, 0, symbols_at, len(symbols), 1, 0, 8, SYMBOL.size)
    strings = SECTION.pack(0, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)
    path = tmp_path / "lib.so"
    path.write_bytes(header + segment + table + strings + symbols + names)
    return path


def test_functions_are_found_by_offsets_in_the_file(tmp_path: Path) -> None:
    table = read_functions(library(tmp_path))
    assert table.names == ("first", "second")
    assert table.name_at(0x100) == table.name_at(0x11F) == "first"
    # Behind the end of the first, and before the second.
    assert table.name_at(0x120) is None
    # Without a size it reaches to the end of what is loaded.
    assert table.name_at(0x140) == table.name_at(0x1FF) == "second"
    assert table.name_at(0x200) is None
    assert table.name_at(0) is None


def test_what_is_no_library_has_no_functions(tmp_path: Path) -> None:
    assert read_functions(tmp_path / "missing") == EMPTY
    file = tmp_path / "file"
    file.write_bytes(b"text")
    assert read_functions(file) == EMPTY
    file.write_bytes(MAGIC + struct.pack("<Q", 0))
    assert read_functions(file) == EMPTY
