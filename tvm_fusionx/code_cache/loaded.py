"""Kept kernels in this process: linked together once, then there for every build to come."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm.contrib import cc

from tvm_fusionx._tvm.linked_objects import can_tell_addresses, tell_addresses

logger = logging.getLogger(__name__)

LINK_OPTIONS = ("-shared", "-fPIC", "-Wl,-Bsymbolic")
LINK_SECONDS = 120
# How LLVM's names of processors begin, by what Python calls this machine.
MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
# TVM's own where the system refuses to map a library: a temporary folder without execution.
FAULTS = (OSError, ValueError, AttributeError, tvm.TVMError)

_lock = threading.Lock()
_symbols: set[str] = set()
_libraries: list[Any] = []


def is_called_here(target: tvm.target.Target) -> bool:
    """Tell whether code for `target` can be called in this process, if its instructions are."""
    triple = str(target.attrs.get("mtriple", "")) or tvm.target.codegen.llvm_get_system_triple()
    return MACHINES.get(platform.machine().lower(), "none") == triple.split("-")[0]


def why_not_here() -> str | None:
    """Return why kept kernels cannot be loaded in this process, or None."""
    if platform.system() != "Linux":
        return f"kernels are kept on Linux, and this is {platform.system()}"
    if not can_tell_addresses():
        return "this TVM's LLVM takes no addresses"
    command = cc.get_cc()
    if command is None or shutil.which(command) is None:
        return "no C++ compiler links them"
    return None


def load_kernels(objects: Mapping[str, bytes]) -> str | None:
    """Let modules that TVM compiles in memory call kernels; return why not, or None.

    What is loaded stays as long as the process: nobody can tell who still calls it.

    Parameters
    ----------
    objects
        Object code by its symbol.
    """
    with _lock:
        new = {symbol: code for symbol, code in objects.items() if symbol not in _symbols}
        if not new:
            return None
        try:
            with tempfile.TemporaryDirectory(prefix="fusionx-") as folder:
                library = _linked(new, Path(folder))
                _libraries.append(tell_addresses(library, new))
        except (*FAULTS, subprocess.SubprocessError) as error:
            return f"kept kernels cannot be loaded: {_last_line(str(error))}"
        _symbols.update(new)
    return None


def _linked(objects: Mapping[str, bytes], folder: Path) -> Path:
    library = folder / "kernels.so"
    files = []
    for number, code in enumerate(objects.values()):
        file = folder / f"{number}.o"
        file.write_bytes(code)
        files.append(os.fspath(file))
    words = [str(cc.get_cc()), *LINK_OPTIONS, "-o", os.fspath(library), *files, "-lm"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LINK_SECONDS)
    if done.returncode != 0:
        said = _last_line(done.stderr)
        raise OSError(said or f"the linker's exit code is {done.returncode}")
    return library


def _last_line(said: str) -> str:
    """Return what stands under a trace of calls, or a linker's last word."""
    return (said.strip().splitlines() or [""])[-1]
