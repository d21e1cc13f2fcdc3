"""The weights file of a bundle: a head that names its version, and the packed constants.

The head is 64 bytes: ``FXWEIGHT``, format, bytes that follow, their checksum (three numbers of 64
bits, little-endian), and their SHA-256. It is compiled into the library, too: a file of another
version of the model is known at once, without reading it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.memory import ALIGNMENT

MAGIC = b"FXWEIGHT"
FORMAT = 1
HEAD = struct.Struct("<8sQQQ32s")


@dataclass(frozen=True)
class Weights:
    """Constants laid out one behind the other.

    Attributes
    ----------
    offsets
        Where each begins, by name, in bytes behind the head.
    data
        All of them.
    """

    offsets: Mapping[str, int]
    data: bytes

    @property
    def checksum(self) -> int:
        """Return the sum of all words of 64 bits, each times an odd number that tells its place.

        An odd number has an inverse: no change of one word leaves the sum as it is.
        """
        words = np.frombuffer(self.data, "<u8")
        places = np.arange(len(words), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        return int((words * places).sum(dtype=np.uint64))

    @property
    def sha256(self) -> bytes:
        """Return the SHA-256 of the data."""
        return hashlib.sha256(self.data).digest()

    @property
    def file_bytes(self) -> int:
        """Return the bytes of the file."""
        return HEAD.size + len(self.data)

    def write(self, path: Path) -> None:
        """Write the file."""
        head = HEAD.pack(MAGIC, FORMAT, len(self.data), self.checksum, self.sha256)
        with path.open("wb") as file:
            file.write(head)
            file.write(self.data)


def laid_out(params: Mapping[str, Any], alignment: int = ALIGNMENT) -> Weights:
    """Return constants, TVM's arrays by name, one behind the other; equal ones once."""
    offsets: dict[str, int] = {}
    known: dict[bytes, int] = {}
    data = bytearray()
    for name, value in params.items():
        content = np.ascontiguousarray(value.numpy()).tobytes()
        digest = hashlib.sha256(content).digest()
        if digest not in known:
            known[digest] = len(data)
            data += content
            data += bytes(-len(data) % alignment)
        offsets[name] = known[digest]
    return Weights(offsets, bytes(data))
