"""Write results so that a reader sees the old file or the whole new one, never a part."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from tvm_fusionx.errors import DiskFullError, OutputFileError

AnyPath = str | Path

# What open() would have used before the umask: temporary files are private, results are not.
DEFAULT_FILE_MODE = 0o666
DEFAULT_FOLDER_MODE = 0o777
PRIVATE_FOLDER_MODE = 0o700

# What the system says where nothing more can be written: the disk is full, or a user's share of it.
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

# A folder with less is taken for the full one.
LEAST_FREE_BYTES = 1 << 20

# Scratch folders of the scopes that have not ended.
_unfinished: set[Path] = set()

# Random bytes in the name of a scratch folder: two never meet.
SCRATCH_BYTES = 8


def check_writable(path: str | Path, *inputs: str | Path | None) -> None:
    """Make sure that a file can be made at `path`, before the work that would fill it.

    Parameters
    ----------
    inputs
        Files that are read, and must not be written over; None is no file.

    Raises
    ------
    OutputFileError
        The folder does not exist or cannot be written, `path` is a folder or a device, or one of
        the inputs.
    """
    final = Path(path)
    for each in inputs:
        if each is None or not (final.exists() and Path(each).exists()):
            continue
        if final.samefile(each):
            raise OutputFileError(
                f"output {final}",
                expected="another file than those that are read",
                found="the input itself, which would be lost",
                next_step="Give another path.",
            )
    if final.is_dir():
        raise OutputFileError(
            f"output {final}",
            expected="the path of a file",
            found="a folder",
            next_step=f"Give a file in it, such as {final / 'module.tar'}.",
        )
    with _reported(final), _scratch_folder(final):
        _check_is_file(final)


@contextlib.contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that takes its place when the scope ends well.

    Raises
    ------
    OutputFileError
        The folder does not exist or cannot be written.
    DiskFullError
        There is no space left.
    """
    final = Path(path)
    with _reported(final), _scratch_folder(final) as folder:
        _check_is_file(final)
        scratch = folder / final.name
        yield scratch
        scratch.chmod(_after_umask(DEFAULT_FILE_MODE))
        os.replace(scratch, final)


@contextlib.contextmanager
def new_folder(path: str | Path, names: Collection[str] | None = None) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that takes its place when the scope ends well.

    Parameters
    ----------
    path
        An older folder there is replaced.
    names
        All that an older folder may hold, for a path that a user chose; anything by default, for
        folders that nobody else writes to.

    Raises
    ------
    OutputFileError
        The parent folder does not exist or cannot be written, the disk is full, or at `path` is
        something else than an older folder.
    """
    final = Path(path)
    with _reported(final), _scratch_folder(final) as folder:
        if names is not None:
            _check_replaceable(final, names)
        scratch = folder / "new"
        scratch.mkdir()
        yield scratch
        scratch.chmod(_after_umask(DEFAULT_FOLDER_MODE))
        if final.exists():
            os.replace(final, folder / "old")
        os.replace(scratch, final)


def remove_unfinished() -> None:
    """Remove the scratch folders of all scopes, before the process is ended in the middle."""
    for folder in list(_unfinished):
        shutil.rmtree(folder, ignore_errors=True)


def make_folder(path: str | Path) -> None:
    """Make the folder `path`, and those that it lies in, where they are missing.

    Raises
    ------
    OutputFileError
        A file is in the way, or the folder cannot be made.
    """
    with _reported(Path(path)):
        Path(path).mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Hold the lock of what is made once at `path`: one process makes it, and the others wait.

    Raises
    ------
    OutputFileError
        The folder of `path` cannot be made, or no file in it.
    """
    final = Path(path)
    make_folder(final.parent)
    with _reported(final):
        lock = (final.parent / f"{final.name}.lock").open("w")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def reported_space() -> Iterator[None]:
    """Raise DiskFullError where what this scope writes, temporary files most often, has no space.

    Every other error passes.
    """
    try:
        yield
    except OutputFileError:
        raise
    except OSError as error:
        if error.errno in NO_SPACE:
            raise disk_full(error) from error
        raise


def disk_full(error: OSError) -> DiskFullError:
    """Return the typed error for one of :data:`NO_SPACE`."""
    return _disk_full(str(error.filename or _full_place()))


def _full_place() -> str:
    """Say where there is no space, as far as an error without a file's name lets it be known."""
    temporary = tempfile.gettempdir()
    if shutil.disk_usage(temporary).free < LEAST_FREE_BYTES:
        return f"temporary folder {temporary}"
    return f"what is written, in another place than the temporary folder {temporary}"


def check_space(said: str) -> None:
    """Raise DiskFullError if a program that failed said that there is no space left."""
    if any(os.strerror(number) in said for number in NO_SPACE):
        raise _disk_full(f"temporary folder {tempfile.gettempdir()}")


def _disk_full(thing: str) -> DiskFullError:
    return DiskFullError(
        thing,
        expected="space to write",
        found=os.strerror(errno.ENOSPC),
        next_step="Free some, give another path, or set TMPDIR to a folder with more.",
    )


def _check_is_file(final: Path) -> None:
    """Refuse what is no file and would be replaced by one: a device, a pipe, a socket."""
    if final.exists() and not final.is_file() and not final.is_dir():
        raise OutputFileError(
            f"output {final}",
            expected="the path of a file",
            found="a device, a pipe or a socket",
            next_step="Give the path of a file that may be made or replaced.",
        )


def _check_replaceable(final: Path, names: Collection[str]) -> None:
    if not final.exists():
        return
    held = sorted(each.name for each in final.iterdir()) if final.is_dir() else None
    foreign = [name for name in held or () if name not in names]
    if held is None or foreign:
        raise OutputFileError(
            f"output {final}",
            expected=f"a new folder, or an older one that holds only {', '.join(names)}",
            found="a file" if held is None else f"a folder that holds {', '.join(foreign[:3])}",
            next_step="Give the path of a new folder.",
        )


@contextlib.contextmanager
def _scratch_folder(final: Path) -> Iterator[Path]:
    # Named before it is made: whatever ends the scope, and when, the folder is known by then.
    folder = final.parent / f".{final.name}.{secrets.token_hex(SCRATCH_BYTES)}"
    _unfinished.add(folder)
    try:
        folder.mkdir(PRIVATE_FOLDER_MODE)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _unfinished.discard(folder)


@contextlib.contextmanager
def _reported(final: Path) -> Iterator[None]:
    try:
        yield
    except OutputFileError:
        raise
    except OSError as error:
        if error.errno in NO_SPACE:
            raise _disk_full(f"output {final}") from error
        raise OutputFileError(
            f"output {final}",
            expected="a path in an existing folder that can be written",
            found=f"{error.strerror or error}",
            next_step="Give another path, or make the folder and its permissions right.",
        ) from error


def _after_umask(mode: int) -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mode & ~mask
