from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run_cli import Ran, runner
from tvm_fusionx.code_cache.entry import ELF, Entry
from tvm_fusionx.code_cache.folder import KernelFolder, default_folder
from tvm_fusionx.errors import EXIT_OK
from tvm_fusionx.late_passes.workspaces import Workspace


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


def test_it_is_shown_and_emptied(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_FUSIONX_CACHE", str(tmp_path))
    assert "0 kernels" in run("cache", "info").out
    folder = KernelFolder(default_folder())
    assert folder.why_unusable() is None
    for number in range(2):
        folder.write(f"{number:064x}", Entry(ELF + bytes(2**20), Workspace()))
    shown = run("cache", "info")
    assert shown.code == EXIT_OK
    assert str(folder.path) in shown.out.replace("\n", "")
    assert "2 kernels, 2.0 of 1024 MiB" in shown.out
    assert "removed 2 kernels, 2.0 MiB" in run("cache", "clear").out
    assert folder.entries() == []
    assert "removed 0 kernels" in run("cache", "clear").out
