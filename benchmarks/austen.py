"""A novel as text: Jane Austen's, of Debian's package ``r-cran-janeaustenr`` (public domain).

The package is fetched by name and unpacked; nothing is installed. Its data are R's vectors of
strings, one a line of a book, serialised and compressed one after the other.
"""

from __future__ import annotations

import struct
import subprocess
import zlib
from pathlib import Path

PACKAGE = "r-cran-janeaustenr"
DATA = "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"

# Books in the order of the file.
BOOKS = (
    *("emma", "mansfieldpark", "northangerabbey"),
    *("persuasion", "prideprejudice", "sensesensibility"),
)

# R's serialisation (R Internals, 1.8): format, three versions, the encoding's name;
# then the vector.
HEADER = struct.Struct(">2s3i")
NUMBER = struct.Struct(">i")


def lines_of(book: str, folder: Path) -> list[str]:
    """Return the lines of a book; the package is fetched into `folder` where it is not there."""
    data = (_unpacked(folder) / DATA).read_bytes()
    at = 0
    for name in BOOKS:
        # The length of what is compressed stands before it.
        unpacking = zlib.decompressobj()
        found = unpacking.decompress(data[at + NUMBER.size :])
        at = len(data) - len(unpacking.unused_data)
        if name == book:
            return _strings(found)
    raise SystemExit(f"no book {book!r}: one of {', '.join(BOOKS)}")


def chapter(book: str, number: int, folder: Path) -> str:
    """Return a chapter of a book as text, its heading first."""
    lines = lines_of(book, folder)
    starts = [at for at, line in enumerate(lines) if line.lower().startswith("chapter ")]
    start, end = (*starts, len(lines))[number - 1 : number + 1]
    return "\n".join(lines[start:end]).strip()


def _unpacked(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / DATA).is_file():
        subprocess.run(["apt-get", "download", "-q", PACKAGE], cwd=folder, check=True)
        package = next(folder.glob(f"{PACKAGE}_*.deb"))
        subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True)
    return folder


def _strings(data: bytes) -> list[str]:
    at = HEADER.size
    encoding = NUMBER.unpack_from(data, at)[0]
    # Past the encoding's name and the vector's type.
    at += NUMBER.size + encoding + NUMBER.size
    count = NUMBER.unpack_from(data, at)[0]
    at += NUMBER.size
    found = []
    for _ in range(count):
        # Past the string's type.
        length = NUMBER.unpack_from(data, at + NUMBER.size)[0]
        at += 2 * NUMBER.size
        found.append(data[at : at + max(length, 0)].decode())
        at += max(length, 0)
    return found
