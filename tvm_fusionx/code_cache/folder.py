"""The folder of kept kernels: private, bounded, and never a reason for a build to fail."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tvm_fusionx.cache_folder import cache_folder
from tvm_fusionx.code_cache.decision import Decision
from tvm_fusionx.code_cache.entry import DamagedEntryError, Entry
from tvm_fusionx.errors import FusionXError
from tvm_fusionx.output_file import PRIVATE_FOLDER_MODE, new_file

logger = logging.getLogger(__name__)

SUFFIX = ".kernel"
DECISION = ".schedule"
SUFFIXES = (SUFFIX, DECISION)
MEBI = 2**20
# EfficientNet-B0 has 47 kernels in 2.1 MB: room for some hundreds of models.
DEFAULT_LIMIT_BYTES = 1024 * MEBI
# What is left when the limit was passed, so that not every build has to remove some.
KEPT_SHARE = 0.9
# Whatever is larger is none of ours, and is not read into memory.
LARGEST_ENTRY_BYTES = 64 * MEBI
# An entry is written in milliseconds: who began this long ago was killed.
ABANDONED_SECONDS = 3600

Kept = TypeVar("Kept")


def default_folder() -> Path:
    """Return where kernels are kept where nobody says otherwise; it need not exist."""
    return cache_folder() / "kernels"


@dataclass(frozen=True)
class KernelFolder:
    """Kept kernels in one folder.

    Attributes
    ----------
    path
        A folder of its own: its entries are removed at will.
    limit_bytes
        What the entries may take together; the ones not used for the longest time go first.
    """

    path: Path
    limit_bytes: int = DEFAULT_LIMIT_BYTES

    def why_unusable(self) -> str | None:
        """Make the folder where it is missing; return why it cannot be trusted, or None.

        Code in it is run: nobody else may be able to write there.
        """
        try:
            self.path.mkdir(PRIVATE_FOLDER_MODE, parents=True, exist_ok=True)
            found = self.path.lstat()
        except OSError as error:
            return f"{self.path}: {error.strerror or error}"
        if not stat.S_ISDIR(found.st_mode):
            return f"{self.path} is no folder of its own"
        if found.st_uid != os.getuid():
            return f"{self.path} belongs to another user"
        if stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
            return f"others may enter {self.path}; chmod 700 it"
        return None

    def read(self, key: str) -> Entry | None:
        """Return the kernel that is kept under `key`, and note that it was used.

        A damaged one is removed. One that cannot be read today, or not be marked, stays.
        """
        return self._read(self._path(key), lambda held: Entry.from_bytes(held, key))

    def write(self, key: str, entry: Entry) -> str | None:
        """Keep a kernel under `key`; return why it is not kept, or None."""
        return self._write(self._path(key), entry.to_bytes(key))

    def read_decision(self, key: str) -> Decision | None:
        """Return what was decided of the block with the key `key`, as :meth:`read` a kernel."""
        return self._read(self._path(key, DECISION), lambda held: Decision.from_bytes(held, key))

    def write_decision(self, key: str, decision: Decision) -> str | None:
        """Keep what was decided of a block; return why it is not kept, or None."""
        return self._write(self._path(key, DECISION), decision.to_bytes(key))

    def entries(self) -> list[tuple[Path, int, float]]:
        """Return file, bytes and time of last use of each, the one longest unused first.

        Kernels, and what was decided of blocks.
        """
        return sorted(self._found(), key=lambda row: row[2])

    def evict(self) -> int:
        """Remove what was longest unused where there is more than the limit; return how many.

        What processes left that were killed while they wrote goes as well.
        """
        self._remove_unfinished(ABANDONED_SECONDS)
        entries = self.entries()
        held = sum(size for _, size, _ in entries)
        if held <= self.limit_bytes:
            return 0
        removed = 0
        for path, size, _ in entries:
            if held <= self.limit_bytes * KEPT_SHARE:
                break
            self._remove(path)
            held -= size
            removed += 1
        return removed

    def clear(self) -> tuple[int, int]:
        """Remove all entries; return how many kernels there were, and the bytes of all."""
        self._remove_unfinished(0)
        entries = self.entries()
        for path, _, _ in entries:
            self._remove(path)
        return len(kernels_of(entries)), sum(size for _, size, _ in entries)

    def _path(self, key: str, suffix: str = SUFFIX) -> Path:
        return self.path / f"{key}{suffix}"

    def _read(self, path: Path, parse: Callable[[bytes], Kept]) -> Kept | None:
        try:
            kept = parse(_bytes_of(path))
        except FileNotFoundError:
            return None
        except (OSError, DamagedEntryError) as error:
            logger.warning("kept kernel %s: %s; it is compiled again", path, error)
            if isinstance(error, DamagedEntryError):
                self._remove(path)
            return None
        # A disk may be one that is only read; another process may have removed it meanwhile.
        with contextlib.suppress(OSError):
            os.utime(path)
        return kept

    def _write(self, path: Path, held: bytes) -> str | None:
        try:
            with new_file(path) as scratch:
                scratch.write_bytes(held)
        except (OSError, FusionXError) as error:
            return str(error)
        return None

    def _found(self) -> Iterator[tuple[Path, int, float]]:
        try:
            held = list(os.scandir(self.path))
        except OSError:
            return
        for each in held:
            try:
                if each.name.endswith(SUFFIXES) and each.is_file(follow_symlinks=False):
                    facts = each.stat(follow_symlinks=False)
                    yield Path(each.path), facts.st_size, facts.st_mtime
            except FileNotFoundError:
                # Another process removed it meanwhile.
                continue

    def _remove_unfinished(self, seconds: float) -> None:
        """Remove scratch folders (:func:`tvm_fusionx.output_file.new_file`) of at least an age."""
        left = (folder for suffix in SUFFIXES for folder in self.path.glob(f".*{suffix}.*"))
        for folder in left:
            with contextlib.suppress(OSError):
                if time.time() - folder.lstat().st_mtime >= seconds:
                    shutil.rmtree(folder, ignore_errors=True)

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("kept kernel %s cannot be removed: %s", path, error)


def kernels_of(entries: list[tuple[Path, int, float]]) -> list[Path]:
    """Return those of :meth:`KernelFolder.entries` that are kernels."""
    return [path for path, _, _ in entries if path.name.endswith(SUFFIX)]


def _bytes_of(path: Path) -> bytes:
    """Read an entry; a pipe that nobody writes to would make the build wait for ever."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise DamagedEntryError("no file")
        return file.read(LARGEST_ENTRY_BYTES + 1)
