"""A file of JSON lines that is only ever added to, each line on the disk before the work goes on.

One process has it open at a time. A process that is killed leaves whole lines, and at most the
beginning of one, which is taken off when the file is opened again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tvm_fusionx.errors import MALFORMED, OutputFileError, RecordError

OpenFile = Callable[[Path], IO[bytes]]


@dataclass(frozen=True)
class Words:
    """What errors about a file say.

    Attributes
    ----------
    thing
        What it is: ``"tuning journal"``.
    user
        Who may have it open: ``"one process that tunes"``.
    other
        What to do where its first line is another's.
    full
        What to do where it cannot be written.
    """

    thing: str
    user: str
    other: str
    full: str


def append_unbuffered(path: Path) -> IO[bytes]:
    """Open a file so that what is written goes to the system at once."""
    return path.open("ab", buffering=0)


class LineFile:
    """The lines of one file; made where there is none.

    Parameters
    ----------
    path
        The file.
    header
        Its first line; a file that begins otherwise is refused.
    words
        What errors say.
    open_file
        Opens the file for appending; for tests.

    Raises
    ------
    RecordError
        Another process has it open.
    OutputFileError
        It cannot be written.
    """

    def __init__(
        self,
        path: Path,
        header: Mapping[str, Any],
        words: Words,
        open_file: OpenFile = append_unbuffered,
    ) -> None:
        self.path, self.header, self.words = path, dict(header), words
        self._size = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open_file(path)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            self._lock()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file; another process may open it then."""
        self._file.close()

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a line, all of it or nothing.

        Raises
        ------
        OutputFileError
            It cannot be written: there is no room.
        """
        line = json.dumps(row).encode() + b"\n"
        before = self._size
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:])
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), before)
            raise self._unwritable(error) from error
        self._size = before + len(line)

    def read(self, believe: Callable[[dict[str, Any]], None]) -> None:
        """Hand every line after the first to `believe`, in order; once, before anything is added.

        Raises
        ------
        RecordError
            The first line is another's, a line is no JSON object, or `believe` raised one of
            ValueError, KeyError, TypeError and AttributeError for it.
        """
        lines = list(self._whole_lines())
        if not lines:
            self.append(self.header)
            return
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                if number == 1:
                    self._check_header(row)
                else:
                    believe(row)
            except RecordError:
                raise
            except MALFORMED as error:
                found = f"line {number}: {line[:60]!r} ({type(error).__name__})"
                raise self._damaged(found) from error

    def _whole_lines(self) -> Iterator[bytes]:
        content = self.path.read_bytes()
        whole, newline, rest = content.rpartition(b"\n")
        self._size = len(content)
        yield from (whole + newline).splitlines()
        if rest and _is_object(rest):
            # Only the end of the line is missing: nothing is lost.
            self._end_line()
            yield rest
        elif rest:
            self._size = len(content) - len(rest)
            os.truncate(self.path, self._size)

    def _end_line(self) -> None:
        try:
            self._file.write(b"\n")
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._unwritable(error) from error
        self._size += 1

    def _check_header(self, row: Any) -> None:
        if row != self.header:
            raise RecordError(
                f"{self.words.thing} {self.path}",
                expected=f"the first line {json.dumps(self.header)}",
                found=json.dumps(row),
                next_step=self.words.other,
            )

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RecordError(
                f"{self.words.thing} {self.path}",
                expected=self.words.user,
                found="another process that has it open",
                next_step="Wait until it ends, or give another folder.",
            ) from error

    def _damaged(self, found: str) -> RecordError:
        return RecordError(
            f"{self.words.thing} {self.path}",
            expected="one JSON object a line",
            found=found,
            next_step="Remove the damaged line; what the other lines say is kept.",
        )

    def _unwritable(self, error: OSError) -> OutputFileError:
        return OutputFileError(
            f"{self.words.thing} {self.path}",
            expected="a file that can be written",
            found=f"{error.strerror or error}",
            next_step=self.words.full,
        )


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
