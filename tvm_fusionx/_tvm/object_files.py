"""Write TVM's object files so that a full disk is an error and not the end of the process."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tvm.runtime import Module, _ffi_api

_lock = threading.RLock()
_depth = 0
_original_save = Module.save


def export_library(module: Any, path: str | Path, **options: Any) -> None:
    """Link `module` into a shared library, as its own ``export_library`` does.

    Raises
    ------
    OSError
        An object file cannot be written.
    """
    with _objects_through_memory():
        module.export_library(str(path), **options)


def save_object(module: Any, path: Path) -> Path:
    """Write the object code of a module that LLVM compiled, and return its path.

    Raises
    ------
    OSError
        It cannot be written.
    """
    with _objects_through_memory():
        module.save(str(path), "o")
    return path


def object_code(module: Any) -> bytes:
    """Return the object code of a module that LLVM compiled."""
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryDirectory(prefix="fusionx-") as folder:
            return save_object(module, Path(folder) / "kernel.o").read_bytes()
    with _written_to_memory(module, "o") as memory:
        return memory.read()


@contextlib.contextmanager
def _objects_through_memory() -> Iterator[None]:
    """Let LLVM write to memory in this scope, and Python from there to the disk.

    Where LLVM cannot write to a file it calls ``exit(1)``: nothing is cleaned up, and no sentence
    can be said. Scopes nest, from any thread.
    """
    global _depth
    with _lock:
        if _depth == 0 and hasattr(os, "memfd_create"):
            Module.save = _save
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                Module.save = _original_save


def _save(module: Any, file_name: str, fmt: str = "") -> None:
    if module.type_key != "llvm":
        _original_save(module, file_name, fmt)
        return
    kind = fmt or Path(file_name).suffix.removeprefix(".")
    with _written_to_memory(module, kind) as memory, open(file_name, "wb") as file:
        shutil.copyfileobj(memory, file)


@contextlib.contextmanager
def _written_to_memory(module: Any, kind: str) -> Iterator[BinaryIO]:
    with open(os.memfd_create("fusionx-object"), "rb") as memory:
        _ffi_api.ModuleSaveToFile(module, f"/proc/self/fd/{memory.fileno()}", kind)
        yield memory
