"""Kernels in C that do what no template of ours should: crash, hang, forget."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def build_c_kernel(folder: Path, symbol: str, body: str) -> Path:
    """Return a library whose kernel `symbol`, in TVM's calling convention, runs `body`."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C compiler: install gcc")
    source = folder / f"{symbol}.c"
    parameters = "void* args, int* codes, int count, void* result, int* result_code, void* handle"
    source.write_text(f"int {symbol}({parameters}) {{ {body} }}\n")
    library = folder / f"{symbol}.so"
    command = [compiler, "-x", "c", "-shared", "-fPIC", "-O1", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return library
