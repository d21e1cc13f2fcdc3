"""Freed memory goes back to the system, where the C library can give it back."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tvm_fusionx.apps.freed import give_back


def _resident_bytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    held = dict(line.split(":", 1) for line in lines)
    return 1024 * int(held["VmRSS"].split()[0])


def test_what_is_below_memory_in_use_is_given_back() -> None:
    library = ctypes.CDLL(None)
    if not hasattr(library, "malloc_trim"):
        pytest.skip("this C library gives nothing back")
    library.malloc.restype = ctypes.c_void_p
    count, size = 4096, 8192
    blocks = [library.malloc(ctypes.c_size_t(size)) for _ in range(count)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks[:-1]:
        library.free(ctypes.c_void_p(block))
    before = _resident_bytes()
    give_back()
    assert _resident_bytes() < before - count * size // 2
    library.free(ctypes.c_void_p(blocks[-1]))
