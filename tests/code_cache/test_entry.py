"""An entry comes back whole or not at all."""

from __future__ import annotations

import pytest

from tvm_fusionx.code_cache.entry import ELF, MAGIC, DamagedEntryError, Entry
from tvm_fusionx.late_passes.workspaces import Workspace

KEY = "ab" * 32
ENTRY = Entry(ELF + b"code", Workspace(128, 64))
HELD = ENTRY.to_bytes(KEY)


def test_it_comes_back() -> None:
    assert Entry.from_bytes(HELD, KEY) == ENTRY
    open_size = Entry(ELF, Workspace(open_size="n * 4"))
    assert Entry.from_bytes(open_size.to_bytes(KEY), KEY) == open_size


@pytest.mark.parametrize("at", range(0, len(HELD), 7))
def test_no_changed_byte_is_taken(at: int) -> None:
    changed = bytearray(HELD)
    changed[at] ^= 1
    with pytest.raises(DamagedEntryError):
        Entry.from_bytes(bytes(changed), KEY)


@pytest.mark.parametrize("length", [0, 5, len(MAGIC), len(MAGIC) + 32, len(HELD) - 1])
def test_no_part_is_taken(length: int) -> None:
    with pytest.raises(DamagedEntryError):
        Entry.from_bytes(HELD[:length], KEY)


def test_neither_another_kernel_nor_what_is_no_object_is_taken() -> None:
    with pytest.raises(DamagedEntryError, match="another kernel"):
        Entry.from_bytes(HELD, "cd" * 32)
    with pytest.raises(DamagedEntryError, match="no object file"):
        Entry.from_bytes(Entry(b"#!/bin/sh", Workspace()).to_bytes(KEY), KEY)
