"""A kept kernel as bytes: object code, what is known of it, and a checksum over both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from tvm_fusionx.late_passes.workspaces import Workspace

MAGIC = b"fusionx kernel 1\n"
SUM_BYTES = hashlib.sha256().digest_size
LENGTH_BYTES = 4
# How object files of Linux begin.
ELF = b"\x7fELF"


class DamagedEntryError(ValueError):
    """Bytes that are no whole entry; never seen by a user, for the kernel is compiled again."""


def framed(magic: bytes, rest: bytes) -> bytes:
    """Return bytes behind a word that names their format, and a checksum."""
    return magic + hashlib.sha256(rest).digest() + rest


def unframed(magic: bytes, held: bytes) -> bytes:
    """Return what :func:`framed` was given.

    Raises
    ------
    DamagedEntryError
        It is cut, changed, or of another format.
    """
    start = len(magic) + SUM_BYTES
    rest = held[start:]
    if held[: len(magic)] != magic:
        raise DamagedEntryError("another format")
    if hashlib.sha256(rest).digest() != held[len(magic) : start]:
        raise DamagedEntryError("a checksum that differs")
    return rest


@dataclass(frozen=True)
class Entry:
    """A compiled kernel.

    Attributes
    ----------
    code
        An object file with one function that others may call.
    workspace
        The memory that it asks for while it runs.
    """

    code: bytes
    workspace: Workspace

    def to_bytes(self, key: str) -> bytes:
        """Return the entry as it is kept under `key`."""
        facts = json.dumps({"key": key, "workspace": asdict(self.workspace)}).encode()
        rest = len(facts).to_bytes(LENGTH_BYTES, "little") + facts + self.code
        return framed(MAGIC, rest)

    @classmethod
    def from_bytes(cls, held: bytes, key: str) -> Entry:
        """Read what was kept under `key`.

        Raises
        ------
        DamagedEntryError
            It is cut, changed, of another format, or of another key.
        """
        rest = unframed(MAGIC, held)
        length = int.from_bytes(rest[:LENGTH_BYTES], "little")
        code = rest[LENGTH_BYTES + length :]
        try:
            facts = json.loads(rest[LENGTH_BYTES : LENGTH_BYTES + length])
            found = facts["workspace"]
            workspace = Workspace(
                int(found["bytes"]), int(found["bytes_a_task"]), str(found["open_size"])
            )
            kept_as = str(facts["key"])
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedEntryError(f"no description: {error}") from error
        if kept_as != key or not code.startswith(ELF):
            raise DamagedEntryError("another kernel, or no object file")
        return cls(code, workspace)
