"""Which function of a library an address lies in, from its symbol table."""

from __future__ import annotations

import bisect
import struct
from dataclasses import dataclass
from pathlib import Path

from tvm_fusionx.devices.elf import HEADER, MAGIC, SECTION, SECTION_SYMBOLS, SEGMENT, SEGMENT_LOAD
from tvm_fusionx.devices.elf import SYMBOL as ELF_SYMBOL

# System V ABI, "Object Files": the table that stripping removes, and functions among symbols.
SECTION_ALL_SYMBOLS = 2
TYPE_MASK, TYPE_FUNCTION = 0xF, 2


@dataclass(frozen=True)
class FunctionTable:
    """Functions by address, and how offsets in the file become addresses.

    Attributes
    ----------
    starts, ends, names
        Of the functions, by their start. One without a size ends where the next begins.
    segments
        ``(offset, bytes, address)`` of each part that is loaded.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    names: tuple[str, ...]
    segments: tuple[tuple[int, int, int], ...]

    def name_at(self, offset: int) -> str | None:
        """Return the function that holds the byte at `offset` of the file, or None."""
        for start, size, address in self.segments:
            if start <= offset < start + size:
                wanted = offset - start + address
                place = bisect.bisect_right(self.starts, wanted) - 1
                return self.names[place] if place >= 0 and wanted < self.ends[place] else None
        return None


EMPTY = FunctionTable((), (), (), ())


def read_functions(path: str | Path) -> FunctionTable:
    """Read the table of a library; an empty one of what is no 64-bit ELF file, or has none."""
    try:
        content = Path(path).read_bytes()
        if not content.startswith(MAGIC):
            return EMPTY
        return _parse(content)
    except (OSError, struct.error, ValueError, IndexError):
        return EMPTY


def _parse(content: bytes) -> FunctionTable:
    fields = HEADER.unpack_from(content)
    segments_at, sections_at, segment_count, section_count = (
        fields[5],
        fields[6],
        fields[10],
        fields[12],
    )
    found: dict[int, tuple[str, int]] = {}
    sections = [
        SECTION.unpack_from(content, sections_at + SECTION.size * number)
        for number in range(section_count)
    ]
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind not in (SECTION_SYMBOLS, SECTION_ALL_SYMBOLS):
            continue
        strings_at = sections[link][4]
        table = content[offset : offset + size]
        for name_at, info, _, section, address, extent in ELF_SYMBOL.iter_unpack(table):
            if info & TYPE_MASK == TYPE_FUNCTION and section:
                start = strings_at + name_at
                name = content[start : content.index(b"\0", start)].decode()
                found[address] = (name, extent)
    loaded = []
    for number in range(segment_count):
        segment = SEGMENT.unpack_from(content, segments_at + SEGMENT.size * number)
        if segment[0] == SEGMENT_LOAD:
            _, _, offset, address, _, size, _, _ = segment
            loaded.append((offset, size, address))
    starts = sorted(found)
    following = [*starts[1:], max((size + at for _, size, at in loaded), default=0)]
    ends = [
        start + found[start][1] if found[start][1] else end
        for start, end in zip(starts, following, strict=True)
    ]
    names = tuple(found[start][0] for start in starts)
    return FunctionTable(tuple(starts), tuple(ends), names, tuple(loaded))
