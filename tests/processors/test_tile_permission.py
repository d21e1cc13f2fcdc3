"""The registers of tiles are asked for, and are no features of a machine that lends none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tvm_fusionx.processors import host_cpu, tile_permission
from tvm_fusionx.processors.host_cpu import host_flags
from tvm_fusionx.processors.tile_permission import FLAGS, may_use_tiles


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
