"""Kernels are loaded once a process; what does not link is said."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tvm_fusionx.code_cache import loaded as module
from tvm_fusionx.code_cache.loaded import is_called_here, load_kernels, why_not_here
from tvm_fusionx.schedules import resolve_target


def test_only_this_machines_code_is_called_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_called_here(resolve_target("llvm -mcpu=native"))
    for machine, called in (("x86_64", (True, False)), ("aarch64", (False, True))):
        monkeypatch.setattr(module.platform, "machine", lambda name=machine: name)
        triples = ("x86_64-linux-gnu", "aarch64-linux-gnu")
        assert called == tuple(
            is_called_here(resolve_target(f"llvm -mtriple={triple}")) for triple in triples
        )


def test_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_not_here() is None
    monkeypatch.setattr(module.cc, "get_cc", lambda: None)
    assert why_not_here() == "no C++ compiler links them"
    monkeypatch.setattr(module, "can_tell_addresses", lambda: False)
    assert "takes no addresses" in str(why_not_here())
    monkeypatch.setattr(module.platform, "system", lambda: "Darwin")
    assert "Darwin" in str(why_not_here())


def test_what_does_not_link_is_said() -> None:
    problem = load_kernels({"fusionx_kernel_none": b"no object"})
    assert problem is not None
    assert "cannot be loaded" in problem
    assert load_kernels({}) is None


def test_what_the_system_does_not_map_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "kernels.so"
    broken.write_bytes(b"no library")
    monkeypatch.setattr(module, "_linked", lambda objects, folder: broken)
    problem = load_kernels({"fusionx_kernel_none": b""})
    assert problem is not None
    assert "Failed to load" in problem
    assert "\n" not in problem


def test_no_temporary_folder_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    assert "No such file" in str(load_kernels({"fusionx_kernel_none": b""}))
