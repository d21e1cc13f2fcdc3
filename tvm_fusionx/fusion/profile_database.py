"""What blocks took when they were measured, kept in one SQLite file that can be shared and merged.

A row is one block on one setting: target, threads, device and versions. A block that could not be
built or run is a row too, so that nobody tries it again. Several processes may use one file at
once: each change is a transaction.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tvm_fusionx.errors import RecordError

# Raised when the columns change; a file of another number is refused.
FORMAT = 1
# How long a process waits for another one's transaction.
LOCK_SECONDS = 30.0
SECONDS_A_DAY = 86400.0

_COLUMNS = "key, target, threads, device, versions, signature, microseconds, failure, measured_at"
_CREATE = """
CREATE TABLE IF NOT EXISTS blocks (
  key TEXT NOT NULL, target TEXT NOT NULL, threads INTEGER NOT NULL, device TEXT NOT NULL,
  versions TEXT NOT NULL, signature TEXT NOT NULL, microseconds REAL, failure TEXT NOT NULL,
  measured_at REAL NOT NULL,
  PRIMARY KEY (key, target, threads, device, versions)
) WITHOUT ROWID"""
# An answer replaces an older one; a time replaces a failure of the same age.
_WRITE = f"""
INSERT INTO blocks ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET signature = excluded.signature, microseconds = excluded.microseconds,
  failure = excluded.failure, measured_at = excluded.measured_at
WHERE excluded.measured_at > measured_at"""


@dataclass(frozen=True)
class Setting:
    """What a measurement depends on beside the block.

    Parameters
    ----------
    target
        TVM's target, resolved.
    threads
        Threads of the kernel.
    device
        Name of the processor.
    versions
        Of TVM and this package.
    """

    target: str
    threads: int
    device: str
    versions: str


@dataclass(frozen=True)
class Profile:
    """One answer.

    Parameters
    ----------
    key
        Structural hash of the block.
    setting
        Where it was measured.
    signature
        The block for people: operators and results.
    microseconds
        Median time of the kernel; infinite where it could not be built or run.
    failure
        Why it could not; empty otherwise.
    measured_at
        Seconds since 1970.
    """

    key: str
    setting: Setting
    signature: str
    microseconds: float
    failure: str = ""
    measured_at: float = 0.0


class ProfileDatabase:
    """A file of profiles; made when it is not there.

    Parameters
    ----------
    path
        The SQLite file.

    Raises
    ------
    RecordError
        From every method: the file is no profile database, or of another format.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def find(self, key: str, setting: Setting) -> Profile | None:
        """Return the answer for a block on a setting, or None."""
        where = "key = ? AND target = ? AND threads = ? AND device = ? AND versions = ?"
        with self._connection() as connection:
            row = connection.execute(
                f"SELECT {_COLUMNS} FROM blocks WHERE {where}",
                (key, setting.target, setting.threads, setting.device, setting.versions),
            ).fetchone()
        return _profile(row) if row else None

    def add(self, *profiles: Profile) -> int:
        """Keep answers, all or none of them; an older answer never replaces a newer one.

        Returns
        -------
        int
            How many were new or newer.
        """
        with self._connection() as connection:
            before = connection.total_changes
            connection.executemany(_WRITE, [_row(profile) for profile in profiles])
            return connection.total_changes - before

    def profiles(self) -> list[Profile]:
        """Return every answer, ordered by setting and block."""
        order = "device, target, threads, versions, signature, key"
        with self._connection() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM blocks ORDER BY {order}").fetchall()
        return [_profile(row) for row in rows]

    def merge(self, other: ProfileDatabase) -> int:
        """Add what another database knows; of two answers the newer stays.

        Returns
        -------
        int
            How many answers were new or newer.
        """
        if not other.path.is_file():
            raise _unreadable(other.path, "no such file")
        return self.add(*other.profiles())

    def prune(
        self, *, older_than_days: float | None = None, keep_versions: str | None = None
    ) -> int:
        """Drop answers, and give the space back.

        Parameters
        ----------
        older_than_days
            Drop those that were measured before; none for their age when None.
        keep_versions
            Drop those of other versions; none for their versions when None.

        Returns
        -------
        int
            How many were dropped.
        """
        oldest = -math.inf
        if older_than_days is not None:
            oldest = time.time() - older_than_days * SECONDS_A_DAY
        with self._connection() as connection:
            dropped = connection.execute(
                "DELETE FROM blocks WHERE measured_at < ? OR (? IS NOT NULL AND versions <> ?)",
                (oldest, keep_versions, keep_versions),
            ).rowcount
        with self._connection() as connection:
            connection.execute("VACUUM")
        return int(dropped)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=LOCK_SECONDS)) as connection:
                _prepare(connection)
                with connection:
                    yield connection
        except (sqlite3.Error, OSError) as error:
            raise _unreadable(self.path, str(error)) from error


def _prepare(connection: sqlite3.Connection) -> None:
    if _format(connection) == FORMAT:
        return
    # Another process may be doing the same: whoever gets the lock first makes the table.
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        found = _format(connection)
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if found == FORMAT:
            return
        if found or tables:
            raise sqlite3.DatabaseError(f"format {found}, with {tables} tables")
        connection.execute(_CREATE)
        connection.execute(f"PRAGMA user_version = {FORMAT}")


def _format(connection: sqlite3.Connection) -> int:
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


def _unreadable(path: Path, found: str) -> RecordError:
    return RecordError(
        f"profile database {path}",
        expected=f"a SQLite file of profiles, format {FORMAT}",
        found=found,
        next_step="Give another file, or remove this one: its answers can be measured again.",
    )


def _row(profile: Profile) -> tuple[object, ...]:
    setting = profile.setting
    return (
        profile.key,
        setting.target,
        setting.threads,
        setting.device,
        setting.versions,
        profile.signature,
        profile.microseconds if math.isfinite(profile.microseconds) else None,
        profile.failure,
        profile.measured_at,
    )


def _profile(row: tuple[str, str, int, str, str, str, float | None, str, float]) -> Profile:
    key, target, threads, device, versions, text, microseconds, failure, measured_at = row
    return Profile(
        key,
        Setting(target, threads, device, versions),
        text,
        math.inf if microseconds is None else microseconds,
        failure,
        measured_at,
    )
