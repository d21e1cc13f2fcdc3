from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run_cli import Ran, runner
from tests.opencl_device import require_opencl
from tests.tiny_models import perceptron, save
from tvm_fusionx.errors import EXIT_ENVIRONMENT, EXIT_OK, EXIT_USAGE
from tvm_fusionx.report.profile.gpu_estimate import variants


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


@pytest.mark.slow
def test_kernels_are_counted_for_phones_without_one(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    path = save(perceptron(), tmp_path)
    counted = run("opencl", "estimate", str(path), "--json", str(tmp_path / "counted.json"))
    assert counted.code == EXIT_OK, counted.err
    assert "adreno-650 ms adreno-740 ms" in " ".join(counted.out.split())
    told = json.loads((tmp_path / "counted.json").read_text(encoding="utf-8"))
    assert set(told) == set(variants())
    assert all(each["least_ms"] > 0 for of in told.values() for each in of)


def test_an_unknown_gpu_ends_the_command(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = save(perceptron(), tmp_path)
    refused = run("opencl", "estimate", str(path), "--gpu", "adreno-9000")
    assert refused.code == EXIT_USAGE
    assert "adreno-650" in refused.problem
