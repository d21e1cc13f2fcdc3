"""The registers of tiles are asked for, and are no features of a machine that lends none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.schedules.byte_blocks import needs_tiles
from tvm_fusionx.processors import host_cpu, tile_permission
from tvm_fusionx.processors.host_cpu import host_flags
from tvm_fusionx.processors.tile_permission import FLAGS, may_use_tiles

# A filter of system calls (seccomp) that answers the question with EPERM and lets all else pass,
# and what the package says of this machine behind it.
FILTERED = """
import ctypes, struct
from tvm_fusionx.processors.host_cpu import host_flags
from tvm_fusionx.processors.tile_permission import ARCH_PRCTL, FLAGS, REQUEST_PERMISSION
from tvm_fusionx.processors.tile_permission import may_use_tiles

LOAD, JUMP_IF_EQUAL, RETURN, ALLOW, EPERM = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050001
rows = [(LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 3, ARCH_PRCTL), (LOAD, 0, 0, 16)]
rows += [(JUMP_IF_EQUAL, 0, 1, REQUEST_PERMISSION), (RETURN, 0, 0, EPERM), (RETURN, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
program = struct.pack("HxxxxxxQ", len(rows), ctypes.addressof(code))
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
prctl = ctypes.CDLL(None).prctl
assert prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
assert prctl(SECCOMP, FILTER, program) == 0
assert not may_use_tiles()
assert not host_flags() & FLAGS
"""


@needs_tiles
def test_a_sandbox_may_refuse() -> None:
    subprocess.run([sys.executable, "-c", FILTERED], check=True)


def test_the_answer_is_that_of_the_system() -> None:
    flags = host_flags()
    if flags & FLAGS:
        assert may_use_tiles()
    # The same again: it is asked for once.
    assert may_use_tiles() is may_use_tiles()


def test_other_systems_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    told = os.uname_result(("Linux", "board", "6.1", "1", "aarch64"))
    monkeypatch.setattr(tile_permission.os, "uname", lambda: told)
    assert not may_use_tiles.__wrapped__()


def test_flags_of_registers_that_are_not_lent_are_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("flags\t\t: avx512f amx_tile amx_int8\n")
    monkeypatch.setattr(host_cpu, "CPU_INFO", path)
    for answer, expected in ((True, {"avx512f", "amx_tile", "amx_int8"}), (False, {"avx512f"})):
        monkeypatch.setattr(host_cpu, "may_use_tiles", lambda answer=answer: answer)
        assert host_flags() == expected
