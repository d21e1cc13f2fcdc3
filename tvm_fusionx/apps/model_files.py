"""A model's file, known by its bytes: what is compiled of it is kept under their digest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tvm_fusionx.errors import ModelError

READ_BYTES = 1 << 20


def digest_of(
    path: str | Path,
    kind: str = "a GGUF file",
    advice: str = "Check the path, or leave the model out for SmolLM2.",
    others: Sequence[Path] = (),
) -> str:
    """Return the SHA-256 of a file's bytes.

    Parameters
    ----------
    path
        The file.
    kind, advice
        What it should be, and what helps who named another.
    others
        Files that belong to it: their bytes count behind its own.

    Raises
    ------
    ModelError
        There is no such file, or it cannot be read.
    """
    found = hashlib.sha256()
    for where in (Path(path), *others):
        try:
            if not where.is_file():
                raise FileNotFoundError(
                    None, "something else" if where.exists() else "no such file"
                )
            with where.open("rb") as file:
                while part := file.read(READ_BYTES):
                    found.update(part)
        except OSError as error:
            raise ModelError(
                f"model {where}", expected=kind, found=str(error.strerror), next_step=advice
            ) from error
    return found.hexdigest()


def replaced(path: str | Path) -> ModelError:
    """Return the error for a file that is no longer what its programs would be kept under."""
    return ModelError(
        f"model {path}",
        expected="the bytes that it had at first",
        found="others: the file was replaced meanwhile",
        next_step="Start again, with a file that stays as it is.",
    )


def check_same(path: str | Path, digest: str) -> None:
    """Make sure that a file has the bytes of a digest.

    Raises
    ------
    ModelError
        It has others.
    """
    if digest_of(path) != digest:
        raise replaced(path)
