from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run_cli import Ran, runner
from tvm_fusionx.errors import EXIT_ENVIRONMENT, EXIT_OK
from tvm_fusionx.runtime import pool_library as module
from tvm_fusionx.threads import threads, usable_cores


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.mark.skipif(shutil.which("g++") is None, reason="Debian's g++ is absent")
def test_it_is_built_shown_and_removed(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_FUSIONX_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "PACKAGED", tmp_path / "packaged")
    missing = run("pool", "show")
    assert missing.code == EXIT_ENVIRONMENT
    assert "fusionx pool build" in missing.problem
    assert "nothing at" in run("pool", "remove").out
    assert run("pool", "build").code == EXIT_OK
    shown = run("pool", "show")
    assert shown.code == EXIT_OK, shown.err
    assert str(module.built_path()) in shown.out.replace("\n", "")
    assert f"{len(usable_cores())} threads" in shown.out
    assert run("pool", "remove").code == EXIT_OK
    threads()
