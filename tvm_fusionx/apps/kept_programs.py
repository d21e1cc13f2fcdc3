"""Programs that were compiled once and are kept: a folder a model, named by what it was made from.

Each file is written whole or not at all; who compiles holds a lock, and others wait for it. Of a
model that was refused nothing is kept, no folder either. What was not used for the longest time
goes when there is more than the limit.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tvm_fusionx.apps.compiled_apart import load_compiled
from tvm_fusionx.apps.freed import give_back
from tvm_fusionx.build.library import Library, build_versions
from tvm_fusionx.cache_folder import cache_folder
from tvm_fusionx.errors import LibraryFileError, OutputFileError
from tvm_fusionx.output_file import make_folder, new_file
from tvm_fusionx.processors.targets import TargetLike, resolve_target
from tvm_fusionx.schedules import describe_processor

# Moves the folder of compiled models.
FOLDER_VARIABLE = "TVM_FUSIONX_TEXT"

# Of a digest in a folder's name.
DIGITS = 32
MODEL_NAME = re.compile(f"[0-9a-f]{{{DIGITS}}}")

# SmolLM2 takes 0.1 GB for each of three lengths, BERT-base 0.4 GB for each of four: room for some
# of either, and for those of older versions of what compiles them.
LIMIT_BYTES = 8 << 30

Say = Callable[[str], None]


def programs_folder() -> Path:
    """Return where compiled models of text are kept."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return Path(chosen) if chosen else cache_folder() / "text"


class KeptPrograms:
    """The programs of one model.

    Parameters
    ----------
    folder
        Of all models; the user's own by default. It is made where it is missing.
    target
        What is compiled for.
    facts
        What else the programs are made from, the model's digest first of all: as JSON has it.
    limit_bytes
        What all models may take together.

    Raises
    ------
    OutputFileError
        The folder of all models cannot be made.
    """

    def __init__(
        self,
        folder: Path | None,
        target: TargetLike,
        facts: Mapping[str, Any],
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        resolved = resolve_target(target)
        made_from = {
            "target": str(resolved),
            "processor": repr(describe_processor(resolved)),
            "versions": build_versions(),
            **facts,
        }
        name = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:DIGITS]
        self.folder = (folder or programs_folder()) / name
        """This model's own; there once there is something to keep."""
        self._limit_bytes = limit_bytes
        with _movable():
            make_folder(self.folder.parent)

    def read_text(self, name: str) -> str | None:
        """Return what :meth:`write_text` kept; None where there is nothing."""
        kept = self.folder / name
        return kept.read_text(encoding="utf-8") if kept.is_file() else None

    def write_text(self, name: str, text: str, say: Say) -> None:
        """Keep a text.

        Raises
        ------
        OutputFileError
            The folder cannot be written.
        """
        kept = self.folder / name
        with _movable(), self._alone(kept, say), new_file(kept) as scratch:
            scratch.write_text(text, encoding="utf-8")

    def libraries(
        self, name: str, compile_to: Callable[[Path], None], say: Say
    ) -> tuple[Library, ...]:
        """Return some programs, which are compiled where they are not kept.

        Parameters
        ----------
        name
            Of their folder.
        compile_to
            Called with the folder that it fills, or leaves alone where it raises.
        say
            Told what is being done.

        Raises
        ------
        OutputFileError
            The folder cannot be written.
        """
        kept = self.folder / name
        found = self._loaded(kept, say)
        if found is None:
            with _movable(), self._alone(kept, say):
                # Another process may have made it meanwhile.
                found = self._loaded(kept, say)
                if found is None:
                    compile_to(kept)
                    found = load_compiled(kept)
            self._evict()
        # A disk may be one that is only read.
        with contextlib.suppress(OSError):
            os.utime(self.folder)
        give_back()
        return found

    def _loaded(self, kept: Path, say: Say) -> tuple[Library, ...] | None:
        """Return what is kept; None where there is nothing, or nothing whole."""
        if not kept.is_dir():
            return None
        say("loading")
        try:
            return load_compiled(kept)
        except LibraryFileError:
            say("compiling again: what was kept is damaged")
            return None

    @contextlib.contextmanager
    def _alone(self, kept: Path, say: Say) -> Iterator[None]:
        """Have other processes wait that would compile the same; remove what killed ones left."""
        handle, is_locked = self._locked(say)
        try:
            if is_locked:
                for left in self.folder.glob(f".{kept.name}.*"):
                    shutil.rmtree(left, ignore_errors=True)
            yield
        finally:
            if is_locked:
                # Nothing is kept: it is not empty otherwise.
                with contextlib.suppress(OSError):
                    self.folder.rmdir()
            os.close(handle)

    def _locked(self, say: Say) -> tuple[int, bool]:
        """Return the model's folder, opened, and whether it is locked until it is closed."""
        while True:
            make_folder(self.folder)
            try:
                handle = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                # Who was alone before had nothing to keep.
                continue
            try:
                is_locked = _is_locked(handle, say)
                if not is_locked or _is_at(self.folder, handle):
                    return handle, is_locked
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)

    def _evict(self) -> None:
        """Remove models that were not used for the longest time, where there is more than may be.

        Who uses one keeps what is mapped. This one stays, however large, and so does what another
        process is alone with.
        """
        models = sorted(self._others(), key=lambda row: row[1])
        held = _bytes_in(self.folder) + sum(size for _, _, size in models)
        for path, _, size in models:
            if held <= self._limit_bytes:
                return
            with contextlib.suppress(OSError):
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
                    held -= size
                finally:
                    os.close(handle)

    def _others(self) -> Iterator[tuple[Path, float, int]]:
        """Give folder, time of last use and bytes of each other model."""
        with contextlib.suppress(OSError):
            for path in self.folder.parent.iterdir():
                # The folder may be one that has other things, too.
                if MODEL_NAME.fullmatch(path.name) and path != self.folder and path.is_dir():
                    with contextlib.suppress(OSError):
                        yield path, path.stat().st_mtime, _bytes_in(path)


def _is_locked(handle: int, say: Say) -> bool:
    """Lock a folder until it is closed; return False where the file system has no locks."""
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process, which compiles this model")
            fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def _is_at(path: Path, handle: int) -> bool:
    """Tell whether an open folder still is the one at a path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _bytes_in(folder: Path) -> int:
    found = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            facts = path.lstat()
            found += facts.st_size if stat.S_ISREG(facts.st_mode) else 0
    return found


@contextlib.contextmanager
def _movable() -> Iterator[None]:
    """Say of a folder that cannot be written how to choose another."""
    try:
        yield
    except OutputFileError as error:
        raise type(error)(
            error.thing,
            expected=error.expected,
            found=error.found,
            next_step=f"{error.next_step} {FOLDER_VARIABLE}=FOLDER keeps compiled models there.",
        ) from error
