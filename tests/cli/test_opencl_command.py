from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run_cli import Ran, runner
from tests.opencl_device import require_opencl
from tvm_fusionx.errors import EXIT_ENVIRONMENT, EXIT_OK


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


def test_without_a_library_the_way_to_one_is_shown(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_FUSIONX_CACHE", str(tmp_path))
    shown = run("opencl", "show")
    assert shown.code == EXIT_ENVIRONMENT
    assert "fusionx opencl build" in shown.problem
    removed = run("opencl", "remove")
    assert removed.code == EXIT_OK
    assert "nothing at" in removed.out


def test_a_built_library_finds_a_device(run: Callable[..., Ran]) -> None:
    require_opencl()
    built = run("opencl", "build")
    assert built.code == EXIT_OK, built.err
    assert "work-items a group" in built.out
