"""The compiled pool: in the package where it was installed with one, else built once and kept.

The sources are C++17 on POSIX threads and need nothing of TVM; one call of a compiler takes a
second. A wheel brings the library for each processor that its maker had a compiler for.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
from pathlib import Path

from tvm_fusionx.cache_folder import cache_folder
from tvm_fusionx.compiled_sources import compile_sources
from tvm_fusionx.errors import FusionXError, MissingDependencyError
from tvm_fusionx.output_file import make_folder, new_file

logger = logging.getLogger(__name__)

COMPILER_VARIABLE = "CXX"
COMPILERS = ("g++", "clang++", "c++")
COMPILER_PACKAGE = "g++"

SOURCES = Path(__file__).resolve().parent / "pool"
# What a program needs that has no TVM, and what puts it into the place of TVM's.
POOL_SOURCE = SOURCES / "pool.cc"
TVM_SOURCE = SOURCES / "tvm_pool.cc"
# One option a line; setup.py reads them too.
OPTIONS = SOURCES / "compile_options.txt"
# Where setup.py puts what it compiles.
PACKAGED = Path(__file__).resolve().parent / "compiled"
DIGITS = 12


def library_name(system: str | None = None, machine: str | None = None) -> str:
    """Return the file name of the library for a system and a processor, by default this one's."""
    system, machine = system or platform.system(), machine or platform.machine()
    return f"libfusionx_pool-{system.lower()}-{machine.lower()}.so"


def built_path() -> Path:
    """Return the file of a library that is built here; it exists once it was."""
    digest = hashlib.sha256()
    for file in sorted(SOURCES.iterdir()):
        digest.update(file.read_bytes())
    name = Path(library_name())
    return cache_folder() / "pool" / f"{name.stem}-{digest.hexdigest()[:DIGITS]}{name.suffix}"


def pool_library(*, build: bool = True) -> Path:
    """Return a library of the pool that this process can load; build it where there is none.

    Parameters
    ----------
    build
        Whether to compile it where no compiled one is found.

    Raises
    ------
    MissingDependencyError
        There is none, and no compiler that makes one.
    OutputFileError
        The cache folder cannot be written.
    """
    built = built_path()
    for path in (PACKAGED / library_name(), built):
        if path.is_file() and _can_be_loaded(path):
            return path
    if not build:
        raise MissingDependencyError(
            "fusionx's thread pool",
            expected=f"a compiled library for {library_name()}",
            found="none",
            next_step="Build it: fusionx pool build.",
        )
    return build_pool()


def build_pool() -> Path:
    """Compile the pool into the cache folder; return the library's path.

    Two builds at once do not disturb each other.

    Raises
    ------
    MissingDependencyError
        There is no compiler, or it fails.
    OutputFileError
        The cache folder cannot be written.
    """
    path = built_path()
    make_folder(path.parent)
    with new_file(path) as scratch:
        words = [*_compiler(), *OPTIONS.read_text(encoding="utf-8").split()]
        compile_sources(
            [*words, str(POOL_SOURCE), str(TVM_SOURCE), "-o", str(scratch)],
            "fusionx's thread pool",
            "Use a g++ of version 9 or later, or clang++; `fusionx pool build` tries again.",
        )
    logger.info("built %s", path)
    return path


def remove_pool() -> Path | None:
    """Delete the library that was built here; return its path, or None when there was none.

    A process that has it loaded keeps it until it ends.
    """
    path = built_path()
    if not path.is_file():
        return None
    path.unlink()
    if not any(path.parent.iterdir()):
        path.parent.rmdir()
    return path


def why_no_pool(*, build: bool = True) -> str | None:
    """Return why there is no library of the pool here, naming what to install, or None."""
    try:
        pool_library(build=build)
    except FusionXError as error:
        return str(error)
    return None


def _can_be_loaded(path: Path) -> bool:
    """Tell whether the library fits this system's C library; one that is loaded stays loaded."""
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        logger.info("%s cannot be loaded: %s", path, error)
        return False
    return True


def _compiler() -> list[str]:
    named = shlex.split(os.environ.get(COMPILER_VARIABLE, ""))
    for words in [named] if named else [[name] for name in COMPILERS]:
        if shutil.which(words[0]) is not None:
            return words
    raise MissingDependencyError(
        "fusionx's thread pool",
        expected="a compiled library, or a C++ compiler that makes one",
        found=f"no program {named[0] if named else ' or '.join(COMPILERS)!s}",
        next_step=f"Install one (apt-get install {COMPILER_PACKAGE}), or set {COMPILER_VARIABLE}. "
        "Until then kernels run on TVM's pool.",
    )
