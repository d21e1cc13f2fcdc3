"""Read what a 64-bit ELF library needs and offers, from its dynamic section.

The linker's own answer would do on a machine that has LLVM's tools; this one needs nothing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from tvm_fusionx.errors import LibraryFileError

# Layouts and numbers of the System V ABI, "Object Files" (gabi 4.1): little-endian, 64 bits.
MAGIC = b"\x7fELF\x02\x01"
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SEGMENT = struct.Struct("<IIQQQQQQ")
SYMBOL = struct.Struct("<IBBHQQ")
ENTRY = struct.Struct("<qQ")
SECTION_DYNAMIC, SECTION_SYMBOLS = 6, 11
SEGMENT_LOAD = 1
TAG_NEEDED = 1
UNDEFINED = 0
WEAK = 2
BINDING_SHIFT = 4

MACHINES = {40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}


@dataclass(frozen=True)
class ElfLibrary:
    """What matters of a shared library.

    Attributes
    ----------
    machine
        Architecture as ``uname -m`` spells it.
    needed
        Libraries that the loader must find.
    undefined
        Symbols that they must offer, weak ones left out.
    defined
        Symbols that it offers itself.
    page_bytes
        Smallest alignment of its loaded segments: the largest page it can be loaded with.
    """

    machine: str
    needed: tuple[str, ...]
    undefined: frozenset[str]
    defined: frozenset[str]
    page_bytes: int


def read_elf(path: str | Path) -> ElfLibrary:
    """Read the library at `path`; `LibraryFileError` when it is not one."""
    try:
        return _parse(Path(path).read_bytes())
    except (OSError, ValueError, OverflowError, struct.error, IndexError) as error:
        raise LibraryFileError(
            f"library {path}",
            expected="a 64-bit little-endian ELF library",
            found=f"{type(error).__name__}: {error}",
            next_step="Link it again.",
        ) from error


def _parse(content: bytes) -> ElfLibrary:
    if not content.startswith(MAGIC):
        raise ValueError("it begins otherwise")
    fields = HEADER.unpack_from(content)
    machine, segments_at, sections_at = fields[2], fields[5], fields[6]
    segment_count, section_count = fields[10], fields[12]
    sections = [
        SECTION.unpack_from(content, sections_at + SECTION.size * index)
        for index in range(section_count)
    ]
    segments = [
        SEGMENT.unpack_from(content, segments_at + SEGMENT.size * index)
        for index in range(segment_count)
    ]
    needed: list[str] = []
    undefined: set[str] = set()
    defined: set[str] = set()
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind not in (SECTION_DYNAMIC, SECTION_SYMBOLS):
            continue
        strings_at = sections[link][4]
        piece = content[offset : offset + size]
        if kind == SECTION_DYNAMIC:
            entries = ENTRY.iter_unpack(piece)
            needed += [
                _string(content, strings_at + at) for tag, at in entries if tag == TAG_NEEDED
            ]
            continue
        for name_at, info, _, section, _, _ in SYMBOL.iter_unpack(piece):
            name = _string(content, strings_at + name_at)
            if section != UNDEFINED:
                defined.add(name)
            elif name and info >> BINDING_SHIFT != WEAK:
                undefined.add(name)
    alignments = [segment[7] for segment in segments if segment[0] == SEGMENT_LOAD]
    return ElfLibrary(
        machine=MACHINES.get(machine, f"machine {machine}"),
        needed=tuple(needed),
        undefined=frozenset(undefined),
        defined=frozenset(defined),
        page_bytes=min(alignments, default=0),
    )


def _string(content: bytes, start: int) -> str:
    return content[start : content.index(b"\0", start)].decode()
